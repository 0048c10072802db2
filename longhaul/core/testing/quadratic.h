#pragma once
// A learner without torch: f(x) = 1/2 |x - t|^2, where the target t differs from node to node and
// from element to element. Plain SGD by default; `momentum` gives it state to checkpoint. The batch
// is the whole "shard" of `samples` samples.
#include "longhaul/core/learner.h"

namespace longhaul::testing {

class Quadratic final : public Learner {
 public:
  struct Config {
    float target = 0;  // element i pulls to target + i * slope
    float slope = 1e-3f;
    float start = 10;
    float rate = 0.05f;
    float momentum = 0;
    std::uint64_t samples = 1;
    std::int64_t columns = 0;   // parameters are a matrix of so many columns; 0: a list
    std::uint64_t buffers = 0;  // the last so many elements are buffers that count steps
    // The first (in + 1) * out elements are a fully connected layer, weight and bias, if out > 0.
    // Its factors have factor_rows() rows.
    std::uint32_t out = 0, in = 0;
    bool layer_last = false;  // they are the last of the parameters
    std::uint32_t factor_rows() const { return out + 1; }
  };

  Quadratic(std::uint64_t size, Config config);

  std::shared_ptr<const Layout> layout() const override { return layout_; }
  std::span<float> params() override { return params_; }
  std::span<float> grads() override { return grads_; }
  Result<StepResult> step(const Work&) override;
  void state(Archive& ar) override;

  float target(std::size_t i) const { return config_.target + float(i) * config_.slope; }

 private:
  double gradient(std::span<float> out) const;  // returns the loss
  bool see(const ForwardPart&, StepResult&);
  void count_buffers();
  void part(const BackwardPart&, std::span<float> scratch, StepResult&);
  // f is samples/2 |x - t|^2 if `summed`, else 1/2 |x - t|^2.
  void value_at(std::span<const double> x, bool summed, StepResult&) const;
  void solve(const LocalSolve&, StepResult&) const;
  bool set_velocity(const OptimizerState&, StepResult&);
  void apply(std::span<const float> gradient, const ApplyGradient& = {});
  // Of grads(): the gradient of the weight, row by row of the identity, and one row more, which
  // adds to the sum of the rows of u what the gradient of the bias is.
  std::vector<float> factors() const;

  const Config config_;
  std::shared_ptr<const Layout> layout_;
  std::vector<float> params_, grads_, velocity_;
  std::vector<float> seen_;         // the parameters that the parts of a forward pass have read
  std::uint32_t seen_entries_ = 0;  // of the layout, from the first on; 0: no such pass
};

}  // namespace longhaul::testing
