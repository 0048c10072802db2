#pragma once
// A linear programme: columns with bounds, rows with bounds, a linear objective to maximise. Rows
// and columns may be added after solving; the next solution starts from the last one.
// Deterministic: the same columns and rows in the same order give the same solution. Solved by
// COIN-OR's Clp.
#include <memory>
#include <vector>

namespace longhaul::flow {

class Lp {
 public:
  Lp();
  ~Lp();
  Lp(const Lp&) = delete;
  Lp& operator=(const Lp&) = delete;

  struct Entry {
    int row = 0;
    double factor = 0;
  };
  // Adds a column. Infinite bounds: unbounded. `entries`: factors in existing rows, each row at
  // most once.
  int add_column(double low, double high, double gain, const std::vector<Entry>& entries = {});

  struct Term {
    int column = 0;
    double factor = 0;
  };
  int add_row(double low, double high, const std::vector<Term>& terms);

  // Returns false if there is no solution or none was found.
  bool maximise();
  double value(int column) const;
  // Returns the gain of the objective per unit by which the row's upper bound is raised; 0 while
  // the row does not bind.
  double price(int row) const;

 private:
  struct Model;
  std::unique_ptr<Model> model_;
};

}  // namespace longhaul::flow
