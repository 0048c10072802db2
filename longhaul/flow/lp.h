#pragma once
// A linear programme: columns with bounds, rows with bounds, a linear objective to maximise. Rows
// may be added after solving; the next solution starts from the last one. Deterministic: the same
// columns and rows in the same order give the same solution. Solved by COIN-OR's Clp.
#include <memory>
#include <vector>

namespace longhaul::flow {

class Lp {
 public:
  Lp();
  ~Lp();
  Lp(const Lp&) = delete;
  Lp& operator=(const Lp&) = delete;

  // An infinite bound is none. All columns come before the first row.
  int add_column(double low, double high, double gain);

  struct Term {
    int column = 0;
    double factor = 0;
  };
  void add_row(double low, double high, const std::vector<Term>& terms);

  // false: there is no solution, or none was found.
  bool maximise();
  double value(int column) const;

 private:
  struct Model;
  std::unique_ptr<Model> model_;
};

}  // namespace longhaul::flow
