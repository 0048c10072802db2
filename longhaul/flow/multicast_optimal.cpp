// The optimal plan of a round of selective multicast: the integer programme of the paper that
// multicast.h names, solved by COIN-OR's Cbc. First the least time, then the most receivers in it.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include <coin/Cbc_C_Interface.h>

#include "longhaul/base/check.h"
#include "longhaul/flow/multicast.h"

namespace longhaul::flow {
namespace {

constexpr double kTimeTolerance = 1e-9;  // relative: what the second search may add to the time

// Column i n + j is 1 if i sends to j; the last column is the time. Rates and volumes are relative
// to the largest, so that the programme is well scaled.
class ReceiverProgramme {
 public:
  ReceiverProgramme(const MulticastNetwork& network, const MulticastRound& round, double most_time)
      : network_(network),
        round_(round),
        n_(network.size()),
        volume_unit_(std::max(1e-300, *std::ranges::max_element(round.volumes))),
        rate_unit_(std::max(*std::ranges::max_element(network.up),
                            *std::ranges::max_element(network.down))),
        most_time_(most_time / time_unit()) {}

  double time_unit() const { return volume_unit_ / rate_unit_; }

  // The choice with the least time, or, with `time` given, the most receivers within it. Empty: the
  // search found nothing better than `start`.
  struct Found {
    std::vector<std::vector<std::uint32_t>> receivers;
    bool proven = false;
  };
  Found solve(const MulticastPlan& start, std::optional<double> time, int most_nodes) {
    const std::unique_ptr<Cbc_Model, void (*)(Cbc_Model*)> owner(Cbc_newModel(), Cbc_deleteModel);
    Cbc_Model* model = owner.get();
    Cbc_setLogLevel(model, 0);
    add_columns(model, time);
    add_rows(model);
    // The lowest of t, or the lowest of -sum x.
    Cbc_setObjSense(model, 1);
    Cbc_setMaximumNodes(model, most_nodes);
    // Both options cost at least what they gain on programmes this small; the first leaks memory.
    Cbc_setParameter(model, "presolve", "off");
    Cbc_setParameter(model, "preprocess", "off");
    begin_with(model, start, time);
    Cbc_solve(model);
    Found found{.receivers = std::vector<std::vector<std::uint32_t>>(n_),
                .proven = Cbc_isProvenOptimal(model) != 0};
    const double* x = Cbc_numberSavedSolutions(model) > 0 ? Cbc_bestSolution(model) : nullptr;
    if (!x) return {start.receivers, false};
    for (std::uint32_t i = 0; i < n_; ++i)
      for (std::uint32_t j = 0; j < n_; ++j)
        if (i != j && x[i * n_ + j] > 0.5) found.receivers[i].push_back(j);
    return found;
  }

 private:
  double volume(std::uint32_t i) const { return round_.volumes[i] / volume_unit_; }
  double rate(double bytes_per_s) const { return bytes_per_s / rate_unit_; }
  double pair_time(std::uint32_t i, std::uint32_t j) const {
    if (network_.pairs.empty()) return 0;
    return volume(i) / rate(network_.pairs[i * n_ + j]);
  }
  int time_column() const { return int(n_ * n_); }

  void add_columns(Cbc_Model* model, std::optional<double> time) {
    const double limit = time ? *time / time_unit() * (1 + kTimeTolerance) : most_time_;
    for (std::uint32_t i = 0; i < n_; ++i)
      for (std::uint32_t j = 0; j < n_; ++j) {
        const bool possible = i != j && pair_time(i, j) <= limit * (1 + kTimeTolerance);
        const bool forced = std::ranges::count(round_.overdue, WorkerPair{i, j}) > 0;
        add_column(model, forced && i != j ? 1 : 0, possible || (forced && i != j) ? 1 : 0,
                   time ? -1 : 0, true);
      }
    double least = 0;
    for (std::uint32_t i = 0; i < n_; ++i)
      if (network_.by_network && n_ > 1) least = std::max(least, volume(i) / rate(network_.up[i]));
    add_column(model, std::min(least, limit), limit, time ? 0 : 1, false);
  }
  static void add_column(Cbc_Model* model, double low, double high, double cost, bool integer) {
    Cbc_addCol(model, "", low, high, cost, char(integer ? 1 : 0), 0, nullptr, nullptr);
  }

  void add_rows(Cbc_Model* model) {
    std::vector<int> columns;
    std::vector<double> factors;
    const auto add = [&](char sense, double right) {
      Cbc_addRow(model, "", int(columns.size()), columns.data(), factors.data(), sense, right);
      columns.clear();
      factors.clear();
    };
    const auto term = [&](std::uint32_t i, std::uint32_t j, double factor) {
      columns.push_back(int(i * n_ + j));
      factors.push_back(factor);
    };
    const auto within_time = [&](double bytes_per_s) {
      columns.push_back(time_column());
      factors.push_back(-rate(bytes_per_s));
      add('L', 0);
    };
    for (std::uint32_t i = 0; i < n_; ++i) {
      for (std::uint32_t j = 0; j < n_; ++j)
        if (i != j) term(i, j, 1);
      if (!columns.empty()) add('G', std::min(round_.at_least[i], n_ - 1));
      for (std::uint32_t j = 0; j < n_ && !network_.by_network; ++j)
        if (i != j) term(i, j, volume(i));
      if (!columns.empty()) within_time(network_.up[i]);
      for (std::uint32_t j = 0; j < n_; ++j)
        if (i != j) term(j, i, volume(j));
      if (!columns.empty()) within_time(network_.down[i]);
      for (std::uint32_t j = 0; j < n_ && !network_.pairs.empty(); ++j) {
        if (i == j) continue;
        term(i, j, volume(i));
        within_time(network_.pairs[i * n_ + j]);
      }
    }
  }

  void begin_with(Cbc_Model* model, const MulticastPlan& start, std::optional<double> time) {
    std::vector<int> columns(std::size_t(time_column()) + 1);
    std::vector<double> values(columns.size(), 0);
    std::iota(columns.begin(), columns.end(), 0);
    for (std::uint32_t i = 0; i < n_; ++i)
      for (const std::uint32_t j : start.receivers[i]) values[i * n_ + j] = 1;
    values.back() = time ? *time / time_unit() : start.time / time_unit();
    Cbc_setMIPStartI(model, int(columns.size()), columns.data(), values.data());
  }

  const MulticastNetwork& network_;
  const MulticastRound& round_;
  const std::uint32_t n_;
  const double volume_unit_, rate_unit_, most_time_;
};

}  // namespace

OptimalMulticast plan_optimal_multicast(const MulticastNetwork& network,
                                        const MulticastRound& round, int most_nodes) {
  OptimalMulticast best{plan_multicast(network, round), true};
  if (network.size() < 2) return best;
  ReceiverProgramme programme(network, round, best.plan.time);
  // A plan of the search counts only if it is better: the search knows times to some 1e-7 only.
  const auto take = [&](const ReceiverProgramme::Found& found) {
    MulticastPlan plan = multicast_of(network, round, found.receivers);
    const auto count = [](const MulticastPlan& of) {
      std::size_t sum = 0;
      for (const auto& receivers : of.receivers) sum += receivers.size();
      return sum;
    };
    const bool quicker = plan.time < best.plan.time * (1 - kTimeTolerance);
    const bool more =
        plan.time <= best.plan.time * (1 + kTimeTolerance) && count(plan) > count(best.plan);
    if (quicker || more) best.plan = std::move(plan);
    best.proven &= found.proven;
  };
  take(programme.solve(best.plan, std::nullopt, most_nodes));
  take(programme.solve(best.plan, best.plan.time, most_nodes));
  return best;
}

}  // namespace longhaul::flow
