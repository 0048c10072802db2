#include "longhaul/flow/lp.h"

#include <cmath>

#include <coin/Clp_C_Interface.h>

#include "longhaul/base/check.h"

namespace longhaul::flow {
namespace {

constexpr int kMaxIterations = 200000;  // a solver that goes in circles is to end

// Clp takes its own largest number for infinity.
double bound(double value) { return std::isinf(value) ? std::copysign(1e50, value) : value; }

}  // namespace

struct Lp::Model {
  Model() : clp(Clp_newModel()) {
    Clp_setLogLevel(clp, 0);
    Clp_setMaximumIterations(clp, kMaxIterations);
    Clp_setOptimizationDirection(clp, -1);  // maximise
  }
  ~Model() { Clp_deleteModel(clp); }
  Clp_Simplex* clp;
  bool wider = false, longer = false;  // columns and rows that were added since it was solved
};

Lp::Lp() : model_(std::make_unique<Model>()) {}
Lp::~Lp() = default;

int Lp::add_column(double low, double high, double gain, const std::vector<Entry>& entries) {
  std::vector<int> rows;
  std::vector<double> factors;
  for (const Entry& entry : entries) {
    rows.push_back(entry.row);
    factors.push_back(entry.factor);
  }
  const double lows[] = {bound(low)}, highs[] = {bound(high)}, gains[] = {gain};
  const CoinBigIndex starts[] = {0, CoinBigIndex(entries.size())};
  Clp_addColumns(model_->clp, 1, lows, highs, gains, starts, rows.data(), factors.data());
  model_->wider = true;
  return Clp_numberColumns(model_->clp) - 1;
}

int Lp::add_row(double low, double high, const std::vector<Term>& terms) {
  std::vector<int> columns;
  std::vector<double> factors;
  for (const Term& term : terms) {
    columns.push_back(term.column);
    factors.push_back(term.factor);
  }
  const double lows[] = {bound(low)}, highs[] = {bound(high)};
  const CoinBigIndex starts[] = {0, CoinBigIndex(terms.size())};
  Clp_addRows(model_->clp, 1, lows, highs, starts, columns.data(), factors.data());
  model_->longer = true;
  return Clp_numberRows(model_->clp) - 1;
}

// The last solution is one still where only columns came after it, and its prices where only rows
// did: each has its simplex.
bool Lp::maximise() {
  const bool columns_only = model_->wider && !model_->longer;
  model_->wider = model_->longer = false;
  const int failed = columns_only ? Clp_primal(model_->clp, 0) : Clp_dual(model_->clp, 0);
  return failed == 0 && Clp_status(model_->clp) == 0;
}

double Lp::value(int column) const { return Clp_primalColumnSolution(model_->clp)[column]; }

double Lp::price(int row) const { return Clp_dualRowSolution(model_->clp)[row]; }

}  // namespace longhaul::flow
