#pragma once
// Sites with tables of their own (partition = "local"): what each says of its own before the run,
// and what follows from all of them. No sample leaves its site.
//
// Every site takes the columns of the first one, by name, and brings its numbers to one scale by
// sums over all sites. Sums are kept to twice the digits of a double (Dekker, "A floating-point
// technique for extending the available precision", 1971), in the order of the sites: a table that
// is cut into any number of files has the scales of the whole.
#include <cstdint>
#include <string>
#include <vector>

#include "longhaul/base/fields.h"
#include "longhaul/learn/data/config.h"
#include "longhaul/learn/data/standardise.h"

namespace longhaul::learn {

// A sum of doubles, to twice the digits of one.
struct LongSum {
  double high = 0, low = 0;
  void add(double);
  void add(const LongSum& more) { add(more.high), add(more.low); }
  double value() const { return high + low; }
  LONGHAUL_FIELDS(high, low)
};

// Of one column, over the training samples of a site.
struct ColumnFacts {
  std::uint64_t count = 0, missing = 0;
  LongSum sum, squares;
  double least = 0, most = 0;  // 0 where count is
  LONGHAUL_FIELDS(count, missing, sum, squares, least, most)
};

// Times the median of the other sites' largest number of a column, from which it is told.
inline constexpr double kOtherUnits = 100;

struct TableFacts {
  static constexpr double kMostColumns = 8192, kMostLabels = 65536;
  std::uint64_t training = 0, test = 0, dropped = 0;  // samples
  std::vector<std::int64_t> sample;                   // DataShape::sample ... task
  std::int64_t outputs = 1;
  Task task = Task::classification;
  std::vector<std::string> columns;   // csv: names of the features, in their order
  std::vector<ColumnFacts> numbers;   // csv: of each of them
  std::vector<std::uint64_t> labels;  // training samples of each class
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(training);
    LONGHAUL_FIELD(test);
    LONGHAUL_FIELD(dropped);
    LONGHAUL_FIELD(sample, .max = 8);
    LONGHAUL_FIELD(outputs, .min = 1, .max = 1 << 24);
    LONGHAUL_FIELD(task, .max = 3);
    LONGHAUL_FIELD(columns, .max = kMostColumns);
    LONGHAUL_FIELD(numbers, .max = kMostColumns);
    LONGHAUL_FIELD(labels, .max = kMostLabels);
  }
};
TableFacts facts_of(const DataSet& train, const DataSet& test);
// A set without samples, of the shape of those: for a site that trains nothing.
DataSet empty_like(const TableFacts&);

struct SiteFacts {
  std::string site, file;  // for messages; `file` may be ""
  TableFacts facts;
};

// What all sites' facts say together.
struct TableAgreement {
  std::uint64_t training = 0, test = 0;
  std::vector<std::string> columns;  // in the order of the first site
  std::vector<ColumnFacts> numbers;  // of each column
  std::vector<double> means;         // with missing = "mean": what fills each column
  std::vector<ColumnScale> scales;   // with standardise = true
  // Sites whose numbers are in other units, by what they look like; for the user.
  std::vector<std::string> warnings;
};
// Errors name two sites whose columns or samples differ, and a column without a number anywhere.
// CHECKs that there is a site.
Result<TableAgreement> agree(const DataConfig&, const std::vector<SiteFacts>&);
// Brings a site's own set to it: order of the columns, missing cells, scales.
void bring_in_line(DataSet&, const TableAgreement&);

}  // namespace longhaul::learn
