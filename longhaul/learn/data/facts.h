#pragma once
// Sites with tables of their own (partition = "local"): the facts that each sends about its table
// before the run, and the agreement from all of them. No sample leaves its site.
//
// Every site takes the columns of the first one, by name, and brings its numbers to one scale by
// sums over all sites. Sums have twice the digits of a double (Dekker, "A floating-point technique
// for extending the available precision", 1971), in the order of the sites. A table that is cut
// into any number of files therefore has the scales of the whole.
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/base/fields.h"
#include "longhaul/base/result.h"
#include "longhaul/learn/data/config.h"
#include "longhaul/learn/data/dataset.h"
#include "longhaul/learn/data/errors.h"

namespace longhaul::learn {

// A column's scale. A scaled column has its mean subtracted and is divided by its deviation.
struct ColumnScale {
  double mean = 0;
  double std = 0;  // over all samples (root of the mean square); 0: all numbers are equal
};

// Returns the mean of each column, over the samples with a number there. An Error names the file
// and a column without any number.
inline Result<std::vector<double>> column_means(const DataSet& data, const std::string& file) {
  const std::size_t width = data.shape.width();
  LH_CHECK(data.features.size() == data.size() * width);
  std::vector<double> means(width, 0);
  std::vector<std::size_t> counts(width, 0);
  for (std::size_t i = 0; i < data.features.size(); ++i) {
    if (std::isnan(data.features[i])) continue;
    means[i % width] += double(data.features[i]);
    ++counts[i % width];
  }
  for (std::size_t i = 0; i < width; ++i) {
    if (counts[i] == 0)
      return malformed(
          "{}: column '{}' is missing in all training samples; leave it out with [data] ignore",
          file, data.columns[i]);
    means[i] /= double(counts[i]);
  }
  return means;
}

// Replaces NaN by the mean of its column. CHECKs the width.
inline void fill_missing(DataSet& data, std::span<const double> means) {
  LH_CHECK(means.size() == data.shape.width());
  for (std::size_t i = 0; i < data.features.size(); ++i)
    if (std::isnan(data.features[i])) data.features[i] = float(means[i % means.size()]);
}

// Returns one scale for each number of a sample, summed in double in sample order. CHECKs that the
// samples are numbers, not pixels.
inline std::vector<ColumnScale> column_scales(const DataSet& data) {
  const std::size_t width = data.shape.width(), count = data.size();
  LH_CHECK(count > 0 && data.features.size() == count * width);
  std::vector<ColumnScale> scales(width);
  std::vector<bool> varies(width, false);  // the rounded mean of equal numbers may differ from them
  for (std::size_t row = 0; row < count; ++row)
    for (std::size_t i = 0; i < width; ++i) {
      const float value = data.features[row * width + i];
      scales[i].mean += double(value) / double(count);
      if (value != data.features[i]) varies[i] = true;
    }
  for (std::size_t row = 0; row < count; ++row)
    for (std::size_t i = 0; i < width; ++i) {
      const double apart = double(data.features[row * width + i]) - scales[i].mean;
      scales[i].std += apart * apart / double(count);
    }
  for (std::size_t i = 0; i < width; ++i)
    scales[i] = varies[i] ? ColumnScale{scales[i].mean, std::sqrt(scales[i].std)}
                          : ColumnScale{double(data.features[i]), 0};
  return scales;
}

// Replaces x by (x - mean) / std, and by 0 in a column whose std is 0. CHECKs the width.
inline void standardise(DataSet& data, std::span<const ColumnScale> scales) {
  LH_CHECK(scales.size() == data.shape.width() &&
           data.features.size() == data.size() * scales.size());
  for (std::size_t i = 0; i < data.features.size(); ++i) {
    const ColumnScale& scale = scales[i % scales.size()];
    float& value = data.features[i];
    value = scale.std > 0 ? float((double(value) - scale.mean) / scale.std) : 0.0f;
  }
}

// A sum of doubles with twice the digits of one.
struct LongSum {
  double high = 0, low = 0;
  void add(double);
  void add(const LongSum& more) { add(more.high), add(more.low); }
  double value() const { return high + low; }
  LONGHAUL_FIELDS(high, low)
};

// The facts of one column, over the training samples of a site.
struct ColumnFacts {
  std::uint64_t count = 0, missing = 0;
  LongSum sum, squares;
  double least = 0, most = 0;  // 0 where count is
  LONGHAUL_FIELDS(count, missing, sum, squares, least, most)
};

// Limit for other units: this times the median of the other sites' largest number of a column.
inline constexpr double kOtherUnits = 100;

struct TableFacts {
  static constexpr double kMostColumns = 8192, kMostLabels = 65536;
  std::uint64_t training = 0, test = 0, dropped = 0;  // samples
  std::vector<std::int64_t> sample;                   // DataShape::sample ... task
  std::int64_t outputs = 1;
  Task task = Task::classification;
  std::vector<std::string> columns;   // csv: names of the features, in order
  std::vector<ColumnFacts> numbers;   // csv: for each of them
  std::vector<std::uint64_t> labels;  // training samples of each class
  LONGHAUL_FIELDS(training, test, dropped, (sample, .max = 8), (outputs, .min = 1, .max = 1 << 24),
                  (task, .max = 3), (columns, .max = kMostColumns), (numbers, .max = kMostColumns),
                  (labels, .max = kMostLabels))
};
TableFacts facts_of(const DataSet& train, const DataSet& test);
// Returns a set without samples, of that shape: for a site that trains nothing.
DataSet empty_like(const TableFacts&);

struct SiteFacts {
  std::string site, file;  // for messages; `file` may be ""
  TableFacts facts;
};

// The agreement of all sites' facts.
struct TableAgreement {
  std::uint64_t training = 0, test = 0;
  std::vector<std::string> columns;  // in the first site's order
  std::vector<ColumnFacts> numbers;  // for each column
  std::vector<double> means;         // with missing = "mean": the value that fills each column
  std::vector<ColumnScale> scales;   // with standardise = true
  // For the user: sites whose numbers seem to be in other units.
  std::vector<std::string> warnings;
};
// Returns the agreement. Errors name two sites whose columns or samples differ, or a column without
// any number. CHECKs that there is a site.
Result<TableAgreement> agree(const DataConfig&, const std::vector<SiteFacts>&);
// Adjusts a site's own set to the agreement: order of the columns, missing cells, scales.
void bring_in_line(DataSet&, const TableAgreement&);

}  // namespace longhaul::learn
