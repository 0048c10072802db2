#pragma once
// Gradient descent on the last gradients that workers have uploaded, as the server of LAG does it,
// and who has to upload in which round.
//   Chen, Giannakis, Sun, Yin, "LAG: lazily aggregated gradient for communication-efficient
//   distributed learning", NeurIPS 2018; the incremental rules as in the authors' code.
//
// With g_m for what worker m uploaded last, alpha for the step and N for the live workers:
//   theta^{k+1} = theta^k - alpha sum_m g_m                  cyclic, random: alpha / N
//   rhs_k = xi / (alpha^2 N^2) sum_{j=1..D} |theta^{k+1-j} - theta^{k-j}|^2
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "longhaul/base/archive.h"
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
Rule rule_of(const std::string& name);

class Descent {
 public:
  struct Config {
    Rule rule = Rule::worker;
    double xi = 0.1;
    std::uint32_t memory = 10;  // D
    double smoothness = 0;      // L, alpha = 1/L; 0: the sum of the workers' L_m
  };
  explicit Descent(const Config& config) : config_(config) {}

  // From this model on, without gradients: everybody has to upload first.
  void begin(std::vector<double> model);
  const std::vector<double>& model() const { return model_; }
  // Of the live workers, those who compute in this round. Fails a check if there is none of them.
  std::vector<Rank> asked(const std::vector<Rank>& live, Random) const;
  // Do they upload whatever it is? Else it is for them to say, by rhs(): LAG-WK.
  bool must_upload() const;
  double rhs(std::size_t live) const;
  // What worker m uploads: its gradient at model() minus the one before. `smoothness`: its L_m.
  void upload(Rank m, std::span<const double> delta, double smoothness);
  void drop(Rank m) { table_.erase(m); }
  // sum_m g_m, in the order of the ranks
  std::vector<double> sum() const;
  // One step with it; the round is over.
  void step(std::size_t live);
  void state(Archive& ar) { ar(model_, rounds_, moves_, table_); }

 private:
  struct Worker {
    std::vector<double> gradient, at;  // `at`: the model of its last upload; LAG-PS alone
    double smoothness = 0;
    void state(Archive& ar) { ar(gradient, at, smoothness); }
  };
  double rate() const;
  bool is_incremental() const {
    return config_.rule == Rule::cyclic || config_.rule == Rule::random;
  }

  const Config config_;
  std::vector<double> model_;
  std::uint64_t rounds_ = 0;  // since begin()
  std::deque<double> moves_;  // |theta^{k+1} - theta^k|^2 of the last D rounds
  std::map<Rank, Worker> table_;
};

}  // namespace longhaul::sync::lag
