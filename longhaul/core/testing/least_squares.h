#pragma once
// A learner without torch whose loss is a convex quadratic form, f(x) = 1/2 x'Ax - b'x + c/2: that
// of least squares with A = X'X, b = X'y, c = y'y. It answers LocalSolve and FullGradient alone,
// exactly, as sums; and keeps what it was asked and answered.
#include "longhaul/core/learner.h"

namespace longhaul::testing {

struct QuadraticForm {
  std::vector<double> a;  // row by row
  std::vector<double> b;
  double c = 0;

  std::size_t size() const { return b.size(); }
  double value(std::span<const double> x) const;
  std::vector<double> gradient(std::span<const double> x) const;  // Ax - b
  // argmin of f(x) + weight/2 |x|^2 - <pull, x>
  std::vector<double> argmin(double weight, std::span<const double> pull) const;
  QuadraticForm& operator+=(const QuadraticForm&);
};
// Of the rows of X, each followed by its y.
QuadraticForm least_squares(std::span<const std::vector<double>> rows);

class LeastSquares final : public Learner {
 public:
  struct Solved {
    std::vector<double> linear, solution;
    std::vector<std::vector<double>> anchors;
  };
  explicit LeastSquares(QuadraticForm);

  std::shared_ptr<const Layout> layout() const override { return layout_; }
  std::span<float> params() override { return params_; }
  std::span<float> grads() override { return grads_; }
  Result<StepResult> step(const Work&) override;
  void state(Archive&) override;

  const QuadraticForm& form() const { return form_; }
  std::vector<Solved> solved;                  // of each LocalSolve
  std::vector<std::vector<double>> gradients;  // at which points

 private:
  const QuadraticForm form_;
  const std::shared_ptr<const Layout> layout_;
  std::vector<float> params_, grads_;
};

}  // namespace longhaul::testing
