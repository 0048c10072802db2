#pragma once
// Gradient descent on the last uploaded gradients, as in the server of LAG, and the choice of the
// workers that upload in each round.
//   Chen, Giannakis, Sun, Yin, "LAG: lazily aggregated gradient for communication-efficient
//   distributed learning", NeurIPS 2018; the incremental rules as in the authors' code.
//
// With g_m for the last upload of worker m, alpha for the step and N for the live workers:
//   theta^{k+1} = theta^k - alpha sum_m g_m                  cyclic, random: alpha / N
//   rhs_k = xi / (alpha^2 N^2) sum_{j=1..D} |theta^{k+1-j} - theta^{k-j}|^2
#include <cmath>
#include <cstdint>
#include <deque>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/base/check.h"
#include "longhaul/base/rng.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::lag {

enum class Rule : std::uint8_t {
  worker,  // LAG-WK: a worker uploads if |gradient - g_m|^2 > rhs_k
  server,  // LAG-PS: the server asks m if L_m^2 |theta_m - theta^k|^2 > rhs_k
  always,  // gradient descent
  cyclic,  // incremental aggregated gradient: one worker a round, in turn
  random   // one worker a round, with probability L_m / sum L
};
inline Rule rule_of(const std::string& name) {
  if (name == "server") return Rule::server;
  if (name == "always") return Rule::always;
  if (name == "cyclic") return Rule::cyclic;
  if (name == "random") return Rule::random;
  LH_CHECK(name == "worker");
  return Rule::worker;
}

class Descent {
  static double square_distance(std::span<const double> a, std::span<const double> b) {
    LH_CHECK(a.size() == b.size());
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
  }

 public:
  struct Config {
    Rule rule = Rule::worker;
    double xi = 0.1;
    std::uint32_t memory = 10;  // D
    double smoothness = 0;      // L, alpha = 1/L; 0: the sum of the workers' L_m
  };
  explicit Descent(const Config& config) : config_(config) {}

  // Starts from this model, without gradients. Every worker must upload first.
  void begin(std::vector<double> model) {
    model_ = std::move(model);
    rounds_ = 0;
    moves_.clear();
    table_.clear();
  }

  const std::vector<double>& model() const { return model_; }
  // Returns the live workers that compute in this round. `live` must not be empty.
  std::vector<Rank> asked(const std::vector<Rank>& live, Random random) const {
    LH_CHECK(!live.empty());
    const bool all = rounds_ == 0 || config_.rule == Rule::worker || config_.rule == Rule::always ||
                     (config_.rule == Rule::server && rounds_ < config_.memory);
    if (all) return live;
    if (config_.rule == Rule::cyclic) return {live[(rounds_ - 1) % live.size()]};
    if (config_.rule == Rule::server) {
      std::vector<Rank> some;
      const double bound = rhs(live.size());
      for (const Rank m : live) {
        const Worker& worker = table_.at(m);
        const double smooth = worker.smoothness;
        if (smooth * smooth * square_distance(worker.at, model_) > bound) some.push_back(m);
      }
      return some;
    }
    double total = 0;
    for (const Rank m : live) total += table_.at(m).smoothness;
    double left = random.uniform() * total;
    for (const Rank m : live)
      if ((left -= table_.at(m).smoothness) < 0) return {m};
    return {live.back()};
  }

  // Returns true if the asked workers upload in any case. Otherwise each decides by rhs(): LAG-WK.
  bool must_upload() const { return config_.rule != Rule::worker || rounds_ < config_.memory; }

  double rhs(std::size_t live) const {
    const double scale = rate() * double(live);
    if (scale == 0) return 0;
    return config_.xi / (scale * scale) * std::accumulate(moves_.begin(), moves_.end(), 0.0);
  }

  // Adds the upload of worker m: its gradient at model() minus the last one. `smoothness`: its L_m.
  void upload(Rank m, std::span<const double> delta, double smoothness) {
    Worker& worker = table_[m];
    worker.gradient.resize(delta.size());
    for (std::size_t i = 0; i < delta.size(); ++i) worker.gradient[i] += delta[i];
    worker.smoothness = smoothness;
    if (config_.rule == Rule::server) worker.at = model_;
  }

  void drop(Rank m) { table_.erase(m); }
  // Returns sum_m g_m, in the order of the ranks.
  std::vector<double> sum() const {
    std::vector<double> total(model_.size());
    for (const auto& [m, worker] : table_)
      for (std::size_t i = 0; i < worker.gradient.size(); ++i) total[i] += worker.gradient[i];
    return total;
  }

  // Makes one step with sum(), which ends the round.
  void step(std::size_t live) {
    const double alpha = is_incremental() ? rate() / double(live) : rate();
    const std::vector<double> before = model_, slope = sum();
    for (std::size_t i = 0; i < model_.size(); ++i) model_[i] -= alpha * slope[i];
    moves_.push_back(square_distance(model_, before));
    while (moves_.size() > config_.memory) moves_.pop_front();
    ++rounds_;
  }

  void state(Archive& ar) { ar(model_, rounds_, moves_, table_); }

 private:
  struct Worker {
    std::vector<double> gradient, at;  // `at`: model of its last upload, only for LAG-PS
    double smoothness = 0;
    void state(Archive& ar) { ar(gradient, at, smoothness); }
  };
  double rate() const {
    if (config_.smoothness > 0) return 1 / config_.smoothness;
    double total = 0;
    for (const auto& [m, worker] : table_) total += worker.smoothness;
    return total > 0 ? 1 / total : 0;
  }

  bool is_incremental() const {
    return config_.rule == Rule::cyclic || config_.rule == Rule::random;
  }

  const Config config_;
  std::vector<double> model_;
  std::uint64_t rounds_ = 0;  // rounds since begin()
  std::deque<double> moves_;  // |theta^{k+1} - theta^k|^2 of the last D rounds
  std::map<Rank, Worker> table_;
};

// The smoothness of one worker's loss, L_m: the largest eigenvalue of its Hessian at a point. The
// method is power iteration on differences of gradients (ours; the paper takes L_m as given). For
// least squares L_m is the same everywhere. The Hessian of logistic regression is largest at 0,
// where models start.
class Smoothness {
 public:
  bool is_known() const { return is_known_; }
  double value() const { return value_; }
  // Starts at the point `at`, with the gradient there.
  void begin(std::span<const double> at, std::span<const double> gradient, Random random) {
    at_.assign(at.begin(), at.end());
    gradient_.assign(gradient.begin(), gradient.end());
    direction_.clear();
    for (std::size_t i = 0; i < at.size(); ++i) direction_.push_back(random.normal());
    normalise();
    if (direction_.empty()) is_known_ = true;  // phantom job
  }
  bool has_begun() const { return is_known_ || !direction_.empty(); }
  // Returns the point of the next gradient.
  std::vector<double> probe() const {
    std::vector<double> x = at_;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += kStep * direction_[i];
    return x;
  }
  void probed(std::span<const double> gradient) {
    for (std::size_t i = 0; i < direction_.size(); ++i)
      direction_[i] = (gradient[i] - gradient_[i]) / kStep;
    const double before = value_;
    value_ = normalise();
    ++probes_;
    is_known_ = std::abs(value_ - before) <= kAccuracy * value_ || probes_ >= kMostProbes;
  }
  void state(Archive& ar) { ar(is_known_, value_, probes_, at_, gradient_, direction_); }

 private:
  static constexpr double kStep = 1e-3, kAccuracy = 1e-9;
  static constexpr std::uint32_t kMostProbes = 500;

  double normalise() {  // returns the length
    double square = 0;
    for (const double v : direction_) square += v * v;
    const double length = std::sqrt(square);
    for (double& v : direction_) v = length > 0 ? v / length : 0;
    return length;
  }

  bool is_known_ = false;
  double value_ = 0;
  std::uint32_t probes_ = 0;
  std::vector<double> at_, gradient_, direction_;
};

}  // namespace longhaul::sync::lag
