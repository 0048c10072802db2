// A learner of one's own, trained across three sites by a strategy that is chosen by name.
//
// The learner here fits y = a . x + b by stochastic gradient descent in thirty lines of plain C++.
// Yours may be anything that has parameters and gradients in two flat vectors. The job file says
// when it is averaged, and with which sites.
#include <cstdio>
#include <memory>
#include <vector>

#include "longhaul/base/rng.h"
#include "longhaul/run/experiment.h"

namespace {

constexpr std::size_t kInputs = 8;
constexpr std::size_t kSize = kInputs + 1;  // a and b

// Site `origin` sees inputs around another centre than the others; the truth is a_i = i, b = 3.
struct Sample {
  float x[kInputs];
  float y;
};
Sample draw(longhaul::Random& random, std::uint32_t origin) {
  Sample sample{.x = {}, .y = 3};
  for (std::size_t i = 0; i < kInputs; ++i) {
    sample.x[i] = float(random.normal() + 0.3 * origin);
    sample.y += float(i) * sample.x[i];
  }
  return sample;
}

class Regression final : public longhaul::Learner {
 public:
  explicit Regression(std::uint32_t origin) : origin_(origin) {}

  std::shared_ptr<const longhaul::Layout> layout() const override {
    return longhaul::Layout::flat(kSize);
  }
  std::span<float> params() override { return params_; }
  std::span<float> grads() override { return grads_; }

  longhaul::Result<longhaul::StepResult> step(const longhaul::Work& work) override {
    if (std::holds_alternative<longhaul::ResetOptimizer>(work)) return longhaul::StepResult{};
    longhaul::StepResult result{.samples = kBatch, .shard_size = kBatch * 100};
    if (!std::holds_alternative<longhaul::ApplyGradient>(work)) result.loss = gradient();
    if (!std::holds_alternative<longhaul::Gradient>(work))
      for (std::size_t i = 0; i < kSize; ++i) params_[i] -= 0.02f * grads_[i];
    return result;
  }
  void state(longhaul::Archive& ar) override { ar(params_, grads_, steps_); }

 private:
  static constexpr std::size_t kBatch = 16;

  double gradient() {
    longhaul::Random random(1, {longhaul::Purpose::batches, steps_++, origin_});
    double loss = 0;
    std::fill(grads_.begin(), grads_.end(), 0.f);
    for (std::size_t n = 0; n < kBatch; ++n) {
      const Sample sample = draw(random, origin_);
      float error = params_[kInputs] - sample.y;
      for (std::size_t i = 0; i < kInputs; ++i) error += params_[i] * sample.x[i];
      for (std::size_t i = 0; i < kInputs; ++i) grads_[i] += error * sample.x[i] / kBatch;
      grads_[kInputs] += error / kBatch;
      loss += 0.5 * double(error) * double(error) / kBatch;
    }
    return loss;
  }

  const std::uint32_t origin_;
  std::vector<float> params_ = std::vector<float>(kSize), grads_ = std::vector<float>(kSize);
  std::uint64_t steps_ = 0;
};

longhaul::Result<longhaul::Evaluation> score(longhaul::Rank, std::span<const float> model) {
  longhaul::Evaluation evaluation{.samples = 1};  // of none: not scored
  for (std::size_t i = 0; i < kSize; ++i) {
    const double error = double(model[i]) - (i < kInputs ? double(i) : 3.0);
    evaluation.loss += error * error;
  }
  return evaluation;
}

constexpr const char* kJob = R"(
[job]
name = "embed"
[stop]
max_rounds = 100
[report]
every_rounds = 20
[model]
kind = "own"
[sync]
kind = "fedavg"
steps = 5
[overlay]
kind = "ring"
[wan]
mbps = 10
delay_ms = 50
[[site]]
name = "quito"
[[site]]
name = "accra"
step_ms = 35
[[site]]
name = "dhaka"
)";

}  // namespace

int main() {
  namespace run = longhaul::run;
  auto document = run::parse_document(kJob, "embed");
  auto job = document ? run::resolve_job(*document) : longhaul::Result<run::Job>(document.error());
  if (!job) return std::fprintf(stderr, "%s\n", job.error().what.c_str()), 2;
  const run::OwnLearners learners{
      .make = [](longhaul::Rank rank, const longhaul::Member&,
                 std::uint64_t) -> longhaul::Result<std::unique_ptr<longhaul::Learner>> {
        return std::unique_ptr<longhaul::Learner>(std::make_unique<Regression>(rank));
      },
      .score = score};
  auto summary = run::simulate(*job, {.learners = &learners});  // no folder: nothing is written
  if (!summary) return std::fprintf(stderr, "%s\n", summary.error().what.c_str()), 2;
  std::printf("%llu rounds, %.1f s of virtual time, %llu bytes between sites, squared error %.5f\n",
              static_cast<unsigned long long>(summary->rounds), summary->time_s,
              static_cast<unsigned long long>(summary->wan_bytes), *summary->final_loss);
  return *summary->final_loss < 0.01 ? 0 : 1;
}
