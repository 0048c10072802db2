#pragma once
// The linear programme of a forest: the rate of each given pair of trees within all link
// capacities, and the dual price of each link. forest.cpp finds the trees.
#include <set>

#include "longhaul/flow/capacities.h"
#include "longhaul/flow/forest.h"
#include "longhaul/flow/lp.h"

namespace longhaul::flow {

class ForestMaster {
 public:
  explicit ForestMaster(const Capacities&);

  // `gain`: of each byte a second that it carries; > 0.
  void add(const TwoTrees&, double gain);
  // Maximises the total gain. false: no solution was found.
  bool solve();

  std::size_t size() const { return columns_.size(); }
  // Rows times columns: an estimate of the solving cost.
  double work() const { return double(rows_) * double(size()); }
  double rate(std::size_t tree) const;  // bytes a second
  double total() const;                 // of all
  double gained() const;                // of all, each times its gain
  // The dual price of a byte per second on each ordered pair, by row.
  std::vector<double> prices() const;
  // The total price of all capacities. No set of trees carries more than worth / cost bytes per
  // second, where `cost` is that of the cheapest pair of trees.
  double worth() const;
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
  void rows_of(std::size_t pair, Use&& use) const;
  void add_row(double rate, Row&, const std::vector<Lp::Term>& = {});
  bool add_full_pairs();

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
