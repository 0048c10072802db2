#include "longhaul/learn/data/facts.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "longhaul/learn/data/text.h"

namespace longhaul::learn {
namespace {

// Sum and error of a + b, both exact.
LongSum two_sum(double a, double b) {
  const double sum = a + b, of_b = sum - a;
  return {sum, (a - (sum - of_b)) + (b - of_b)};
}

// The mean of the squares around the mean, n numbers: (squares - sum^2 / n) / n, in long sums.
double spread(const LongSum& sum, const LongSum& squares, double n) {
  // sum^2 / n = sum * mean; the mean's own rounding is made up for by what is left of the sum.
  const double mean = sum.value() / n;
  LongSum around = squares;
  const auto take_product = [&around](double a, double b) {  // around -= a * b, exactly
    const double product = a * b;
    around.add(-product);
    around.add(-std::fma(a, b, -product));
  };
  // Sum of (x - mean)^2 = squares - 2 mean sum + n mean^2.
  take_product(2 * mean, sum.high);
  take_product(2 * mean, sum.low);
  const double square = mean * mean, error = std::fma(mean, mean, -square);
  take_product(-n, square);
  take_product(-n, error);
  return std::max(0.0, around.value() / n);
}

Error unlike(const SiteFacts& first, const SiteFacts& other, const std::string& what) {
  const auto named = [](const SiteFacts& one) {
    return one.file.empty() ? "site " + one.site : fmt::format("site {} ({})", one.site, one.file);
  };
  return invalid("{} and {}: {}", named(first), named(other), what);
}

Status check_alike(const SiteFacts& first, const SiteFacts& other) {
  std::string lacking, strange;
  const auto note = [](std::string& list, const std::string& name) {
    list += (list.empty() ? "" : ", ") + in_quotes(name);
  };
  for (const std::string& name : first.facts.columns)
    if (std::ranges::count(other.facts.columns, name) == 0) note(lacking, name);
  for (const std::string& name : other.facts.columns)
    if (std::ranges::count(first.facts.columns, name) == 0) note(strange, name);
  if (!lacking.empty() || !strange.empty())
    return unlike(first, other,
                  fmt::format("other columns{}{}; give both files the same header, or leave "
                              "columns out with [data] ignore",
                              lacking.empty() ? "" : "; the second lacks " + lacking,
                              strange.empty() ? "" : "; the first lacks " + strange));
  const auto shape = [](const TableFacts& one) {
    return fmt::format("[{}] with {} outputs", fmt::join(one.sample, ", "), one.outputs);
  };
  if (shape(first.facts) != shape(other.facts) || first.facts.task != other.facts.task)
    return unlike(
        first, other,
        fmt::format("samples of other shapes: {} and {}", shape(first.facts), shape(other.facts)));
  return Ok{};
}

// The largest number of a column at each site that has any.
std::vector<double> sizes_of(const std::vector<SiteFacts>& sites, const std::string& column) {
  std::vector<double> sizes;
  for (const SiteFacts& one : sites) {
    const auto at = std::ranges::find(one.facts.columns, column);
    const ColumnFacts& facts = one.facts.numbers.at(std::size_t(at - one.facts.columns.begin()));
    sizes.push_back(std::max(std::abs(facts.least), std::abs(facts.most)));
  }
  return sizes;
}

void look_for_other_units(const std::vector<SiteFacts>& sites, const std::string& column,
                          std::vector<std::string>& warnings) {
  constexpr std::size_t kMostWarnings = 8;
  const std::vector<double> sizes = sizes_of(sites, column);
  for (std::size_t i = 0; i < sizes.size() && warnings.size() < kMostWarnings; ++i) {
    std::vector<double> others = sizes;
    others.erase(others.begin() + std::ptrdiff_t(i));
    std::ranges::sort(others);
    const double usual = others.empty() ? 0 : others[others.size() / 2];
    if (usual > 0 && sizes[i] >= kOtherUnits * usual)
      warnings.push_back(
          fmt::format("site {}: column {} reaches {:.3g}, at the other sites {:.3g}: is it in "
                      "other units there?",
                      sites[i].site, in_quotes(column), sizes[i], usual));
  }
}

}  // namespace

void LongSum::add(double x) {
  const LongSum sum = two_sum(high, x);
  const LongSum whole = two_sum(sum.high, sum.low + low);
  high = whole.high, low = whole.low;
}

TableFacts facts_of(const DataSet& train, const DataSet& test) {
  TableFacts facts{.training = train.size(),
                   .test = test.size(),
                   .dropped = train.dropped,
                   .sample = train.shape.sample,
                   .outputs = train.shape.outputs,
                   .task = train.shape.task,
                   .columns = train.columns,
                   .numbers = std::vector<ColumnFacts>(train.columns.size()),
                   .labels = std::vector<std::uint64_t>(train.label_kinds(), 0)};
  for (const std::int64_t label : train.labels) ++facts.labels.at(std::size_t(label));
  for (std::size_t i = 0; !facts.numbers.empty() && i < train.features.size(); ++i) {
    ColumnFacts& column = facts.numbers[i % facts.numbers.size()];
    const double value = train.features[i];
    if (std::isnan(value)) {
      ++column.missing;
      continue;
    }
    column.least = column.count == 0 ? value : std::min(column.least, value);
    column.most = column.count == 0 ? value : std::max(column.most, value);
    ++column.count;
    column.sum.add(value);
    column.squares.add(value * value);  // exact: a float has 24 digits
  }
  return facts;
}

DataSet empty_like(const TableFacts& facts) {
  DataSet data;
  data.shape = {facts.sample, facts.outputs, facts.task};
  data.columns = facts.columns;
  return data;
}

Result<TableAgreement> agree(const DataConfig& config, const std::vector<SiteFacts>& sites) {
  LH_CHECK(!sites.empty());
  const SiteFacts& first = sites.front();
  TableAgreement all;
  all.columns = first.facts.columns;
  std::vector<ColumnFacts>& sums = all.numbers;
  sums.resize(all.columns.size());
  for (const SiteFacts& one : sites) {
    LH_TRY(check_alike(first, one));
    all.training += one.facts.training;
    all.test += one.facts.test;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const auto at = std::ranges::find(one.facts.columns, all.columns[i]);
      const ColumnFacts& more = one.facts.numbers.at(std::size_t(at - one.facts.columns.begin()));
      sums[i].missing += more.missing;
      if (more.count == 0) continue;
      sums[i].least = sums[i].count == 0 ? more.least : std::min(sums[i].least, more.least);
      sums[i].most = sums[i].count == 0 ? more.most : std::max(sums[i].most, more.most);
      sums[i].count += more.count;
      sums[i].sum.add(more.sum);
      sums[i].squares.add(more.squares);
    }
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums[i].count == 0)
      return malformed(
          "column {} is missing in all samples of all sites; leave it out with [data] ignore",
          in_quotes(all.columns[i]));
    look_for_other_units(sites, all.columns[i], all.warnings);
    const double n = double(sums[i].count), mean = sums[i].sum.value() / n;
    if (config.missing == "mean") all.means.push_back(mean);
    if (!config.standardise) continue;
    // A cell that is filled with the mean is one more number of the mean.
    const double share = n / double(all.training);
    const bool varies = sums[i].least != sums[i].most;
    all.scales.push_back(
        varies ? ColumnScale{mean, std::sqrt(share * spread(sums[i].sum, sums[i].squares, n))}
               : ColumnScale{sums[i].least, 0});
  }
  return all;
}

void bring_in_line(DataSet& data, const TableAgreement& all) {
  const std::size_t width = all.columns.size();
  if (data.columns != all.columns) {
    std::vector<std::size_t> from;
    for (const std::string& name : all.columns) {
      const auto at = std::ranges::find(data.columns, name);
      LH_CHECK(at != data.columns.end());
      from.push_back(std::size_t(at - data.columns.begin()));
    }
    std::vector<float> row(width);
    for (std::size_t at = 0; at < data.features.size(); at += width) {
      for (std::size_t i = 0; i < width; ++i) row[i] = data.features[at + from[i]];
      std::ranges::copy(row, data.features.begin() + std::ptrdiff_t(at));
    }
    for (Categories& one : data.categories) {
      const auto at = std::ranges::find(all.columns, one.column + " = " + one.values.front());
      one.first = std::size_t(at - all.columns.begin());
    }
    std::ranges::sort(data.categories, {}, &Categories::first);
    data.columns = all.columns;
  }
  if (!all.means.empty()) fill_missing(data, all.means);
  if (!all.scales.empty()) standardise(data, all.scales);
}

}  // namespace longhaul::learn
