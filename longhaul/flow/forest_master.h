#pragma once
// The linear programme of a forest: how much each of some pairs of trees should carry, so that no
// link carries more than it can, and what each link is worth then. forest.cpp finds the trees.
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
  // Sets the rates that gain most. false: no solution was found.
  bool solve();

  std::size_t size() const { return columns_.size(); }
  // Rows times columns: about what it takes to solve it.
  double work() const { return double(rows_) * double(size()); }
  double rate(std::size_t tree) const;  // bytes a second
  double total() const;                 // of all
  double gained() const;                // of all, each times its gain
  // What a byte a second costs on each ordered pair, by row, in the gains it displaces.
  std::vector<double> prices() const;
  // What all links together are worth at these prices. So no trees at all carry more than
  // worth / cost, bytes a second, where `cost` is that of the cheapest pair of trees.
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
