#pragma once
// The linear programme of a forest: the rate of each given pair of trees within all link
// capacities, and the dual price of each link. forest.cpp finds the trees.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "longhaul/base/check.h"
#include "longhaul/flow/capacities.h"
#include "longhaul/flow/forest.h"
#include "longhaul/flow/lp.h"

namespace longhaul::flow {

class ForestMaster {
  static constexpr double kFull = 1 + 1e-7;  // of a pair's rate: beyond it the pair needs a row

 public:
  explicit ForestMaster(const Capacities& capacities)
      : at_(capacities),
        n_(at_.sites),
        unit_(at_.largest() > 0 ? at_.largest() : 1),
        limit_(4 * double(n_ * n_)),
        shared_of_(n_ * n_),
        pairs_(n_ * n_, Row{-1, 0}) {
    up_.resize(n_, Row{-1, 0});
    down_.resize(n_, Row{-1, 0});
    add_row(limit_ * unit_, all_);
    for (std::size_t site = 0; site < n_; ++site) {
      add_row(at_.up[site], up_[site]);
      add_row(at_.down[site], down_[site]);
    }
    for (const Wan::Shared& link : at_.shared) {
      for (const auto& [from, to] : link.pairs)
        shared_of_[from * n_ + to].push_back(std::uint32_t(shared_.size()));
      add_row(link.rate, shared_.emplace_back());
    }
  }

  // `gain`: of each byte a second that it carries; > 0.
  void add(const TwoTrees& trees, double gain) {
    Column column;
    for (std::uint32_t site = 0; site < n_; ++site) {
      if (site == trees.root) continue;
      column.pairs.push_back(std::uint32_t(site * n_ + trees.reduce_to[site]));
      column.pairs.push_back(std::uint32_t(trees.spread_from[site] * n_ + site));
    }
    std::sort(column.pairs.begin(), column.pairs.end());
    std::map<int, double> uses = {{all_.id, 1}};
    for (const std::uint32_t pair : column.pairs)
      rows_of(pair, [&](const Row& row) { ++uses[row.id]; });
    std::vector<Lp::Entry> entries;
    for (const auto& [row, count] : uses) entries.push_back({row, count});
    column.gain = gain;
    column.id = lp_.add_column(0, kUnlimited, gain, entries);
    columns_.push_back(std::move(column));
  }

  // Maximises the total gain. false: no solution was found.
  // Most pairs never fill, so they have no rows before they do.
  bool solve() {
    do {
      if (!lp_.maximise()) return false;
    } while (add_full_pairs());
    return true;
  }

  std::size_t size() const { return columns_.size(); }
  // Rows times columns: an estimate of the solving cost.
  double work() const { return double(rows_) * double(size()); }
  // bytes a second
  double rate(std::size_t tree) const {
    return std::max(0.0, lp_.value(columns_[tree].id)) * unit_;
  }

  // of all
  double total() const {
    double sum = 0;
    for (std::size_t tree = 0; tree < size(); ++tree) sum += rate(tree);
    return sum;
  }

  // of all, each times its gain
  double gained() const {
    double sum = 0;
    for (std::size_t tree = 0; tree < size(); ++tree) sum += columns_[tree].gain * rate(tree);
    return sum;
  }

  // The dual price of a byte per second on each ordered pair, by row.
  std::vector<double> prices() const {
    std::vector<double> prices(n_ * n_);
    for (std::size_t pair = 0; pair < prices.size(); ++pair)
      rows_of(pair, [&](const Row& row) { prices[pair] += std::max(0.0, lp_.price(row.id)); });
    return prices;
  }

  // The total price of all capacities. No set of trees carries more than worth / cost bytes per
  // second, where `cost` is that of the cheapest pair of trees.
  double worth() const {
    double worth = 0;
    const auto see = [&](const Row& row) {
      if (row.id >= 0) worth += row.limit * std::max(0.0, lp_.price(row.id));
    };
    for (const auto* rows : {&up_, &down_, &shared_, &pairs_})
      for (const Row& row : *rows) see(row);
    return worth * unit_;
  }

  // Nothing limits the rate.
  bool unlimited() const { return total() >= limit_ * unit_ * (1 - 1e-6); }

 private:
  struct Column {
    int id = 0;
    double gain = 0;
    std::vector<std::uint32_t> pairs;  // by row, ascending; one that is used twice is there twice
  };
  struct Row {
    int id = 0;
    double limit = 0;  // in units
  };
  // Calls with each row that the pair crosses.
  template <class Use>
  void rows_of(std::size_t pair, Use&& use) const {
    const auto see = [&](const Row& row) {
      if (row.id >= 0) use(row);
    };
    see(up_[pair / n_]);
    see(down_[pair % n_]);
    see(pairs_[pair]);
    for (const std::uint32_t link : shared_of_[pair]) see(shared_[link]);
  }

  void add_row(double rate, Row& row, const std::vector<Lp::Term>& terms = {}) {
    if (!std::isfinite(rate)) return;
    row.limit = rate / unit_;
    row.id = lp_.add_row(-kUnlimited, row.limit, terms);
    ++rows_;
  }

  bool add_full_pairs() {
    std::vector<double> load(n_ * n_);
    for (const Column& column : columns_)
      for (const std::uint32_t pair : column.pairs) load[pair] += lp_.value(column.id);
    std::vector<bool> full(n_ * n_);
    std::map<std::uint32_t, std::vector<Lp::Term>> terms;
    for (std::uint32_t pair = 0; pair < load.size(); ++pair)
      if (pairs_[pair].id < 0 && load[pair] * unit_ > at_.pairs[pair] * kFull + unit_ * 1e-9)
        terms[pair];
    for (const Column& column : columns_)
      for (const std::uint32_t pair : column.pairs) {
        const auto row = terms.find(pair);
        if (row == terms.end()) continue;
        if (!row->second.empty() && row->second.back().column == column.id)
          ++row->second.back().factor;
        else
          row->second.push_back({column.id, 1});
      }
    for (const auto& [pair, row] : terms) add_row(at_.pairs[pair], pairs_[pair], row);
    return !terms.empty();
  }

  const Capacities at_;
  const std::size_t n_;
  const double unit_;   // bytes a second
  const double limit_;  // units; more than finite links can carry
  Lp lp_;
  Row all_;
  std::vector<Row> up_, down_, shared_;
  std::vector<std::vector<std::uint32_t>> shared_of_;  // of each pair
  std::vector<Row> pairs_;                             // id -1: has no row (yet)
  std::vector<Column> columns_;
  std::size_t rows_ = 0;
};

}  // namespace longhaul::flow
