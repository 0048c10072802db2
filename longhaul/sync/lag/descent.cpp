#include "longhaul/sync/lag/descent.h"

#include <algorithm>
#include <numeric>

#include "longhaul/base/check.h"

namespace longhaul::sync::lag {
namespace {

double square_distance(std::span<const double> a, std::span<const double> b) {
  LH_CHECK(a.size() == b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

}  // namespace

Rule rule_of(const std::string& name) {
  if (name == "server") return Rule::server;
  if (name == "always") return Rule::always;
  if (name == "cyclic") return Rule::cyclic;
  if (name == "random") return Rule::random;
  LH_CHECK(name == "worker");
  return Rule::worker;
}

void Descent::begin(std::vector<double> model) {
  model_ = std::move(model);
  rounds_ = 0;
  moves_.clear();
  table_.clear();
}

bool Descent::must_upload() const {
  return config_.rule != Rule::worker || rounds_ < config_.memory;
}

std::vector<Rank> Descent::asked(const std::vector<Rank>& live, Random random) const {
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

double Descent::rate() const {
  if (config_.smoothness > 0) return 1 / config_.smoothness;
  double total = 0;
  for (const auto& [m, worker] : table_) total += worker.smoothness;
  return total > 0 ? 1 / total : 0;
}

double Descent::rhs(std::size_t live) const {
  const double scale = rate() * double(live);
  if (scale == 0) return 0;
  return config_.xi / (scale * scale) * std::accumulate(moves_.begin(), moves_.end(), 0.0);
}

void Descent::upload(Rank m, std::span<const double> delta, double smoothness) {
  Worker& worker = table_[m];
  worker.gradient.resize(delta.size());
  for (std::size_t i = 0; i < delta.size(); ++i) worker.gradient[i] += delta[i];
  worker.smoothness = smoothness;
  if (config_.rule == Rule::server) worker.at = model_;
}

std::vector<double> Descent::sum() const {
  std::vector<double> total(model_.size());
  for (const auto& [m, worker] : table_)
    for (std::size_t i = 0; i < worker.gradient.size(); ++i) total[i] += worker.gradient[i];
  return total;
}

void Descent::step(std::size_t live) {
  const double alpha = is_incremental() ? rate() / double(live) : rate();
  const std::vector<double> before = model_, slope = sum();
  for (std::size_t i = 0; i < model_.size(); ++i) model_[i] -= alpha * slope[i];
  moves_.push_back(square_distance(model_, before));
  while (moves_.size() > config_.memory) moves_.pop_front();
  ++rounds_;
}

}  // namespace longhaul::sync::lag
