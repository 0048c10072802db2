#pragma once
// Planning agrees on senders and receivers in a round of selective multicast (flow/multicast.h).
// Every worker owns one. When its local steps of a round are done, it sends its standing to the
// manager, which is the senior worker. When all workers of the round are ready, the manager sends
// each of them its receivers and its expected senders. Standings and plans are of one view.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "longhaul/core/machine.h"
#include "longhaul/core/sample_count.h"
#include "longhaul/flow/multicast.h"
#include "longhaul/sync/selmcast/rate_meter.h"

namespace longhaul::sync::selmcast {

// The input of a plan. `network`: all ranks, by number; empty ports: equal rates.
struct PlanConfig {
  enum class Receivers : std::uint8_t { selected, random, all, optimal };
  Receivers receivers = Receivers::selected;
  double share = 0.3;               // minimum share of the other workers that each sends to
  std::uint32_t overdue_after = 4;  // rounds after which a pair must be served (k); 0: never
  bool is_measured = false;         // use rates that workers have measured, not `network`
  flow::MulticastNetwork network = {};
};

inline Rank manager_of(const Turn& turn) { return senior_worker(turn.place(), turn.view()); }
// Returns true if the ranks are different workers of the job, ascending.
inline bool are_workers(const std::vector<Rank>& ranks, const Place& place) {
  return std::ranges::adjacent_find(ranks, std::ranges::greater_equal{}) == ranks.end() &&
         std::ranges::all_of(ranks, [&](Rank rank) {
           return rank < place.size() && place.member(rank).is(Role::worker);
         });
}

// Returns the minimum number of receivers of each of n workers.
inline std::uint32_t at_least(const PlanConfig& config, std::uint32_t n) {
  return std::uint32_t(std::max(1.0, std::round(config.share * n)));
}

// Returns the rounds since a sender in `round` served a receiver; `served` as in Standing.
inline Round age_of(Round served, Round round) { return round + 1 - std::min(served, round + 1); }
inline bool is_overdue(const PlanConfig& config, Round age) {
  return config.overdue_after > 0 && age > config.overdue_after;
}
// Returns the network of these ranks, in this order.
inline flow::MulticastNetwork network_of(const PlanConfig& config, const std::vector<Rank>& ranks) {
  const flow::MulticastNetwork& all = config.network;
  flow::MulticastNetwork network{.by_network = all.by_network};
  for (const Rank i : ranks) {
    network.up.push_back(all.up.empty() ? 1 : all.up[i]);
    network.down.push_back(all.down.empty() ? 1 : all.down[i]);
    if (all.pairs.empty()) continue;
    for (const Rank j : ranks) network.pairs.push_back(all.pairs[i * all.size() + j]);
  }
  return network;
}

// Chooses receivers by PlanConfig::receivers.
inline flow::MulticastPlan choose_receivers(const PlanConfig& config,
                                            const flow::MulticastNetwork& network,
                                            const flow::MulticastRound& round, Random& random) {
  switch (config.receivers) {
    case PlanConfig::Receivers::selected:
      return flow::plan_multicast(network, round);
    case PlanConfig::Receivers::random:
      return flow::plan_random_multicast(network, round, random);
    case PlanConfig::Receivers::all:
      return flow::plan_broadcast(network, round);
    case PlanConfig::Receivers::optimal:
      return flow::plan_optimal_multicast(network, round).plan;
  }
  return {};
}

class Planning final : public Machine {
 public:
  struct Standing {  // to the manager, when the steps of the round are done
    LONGHAUL_MESSAGE(1, "standing");
    Epoch epoch = 0;
    Round round = 0;
    double samples = 0;  // per worker in the mean, as the sender estimates
    std::vector<Round>
        served;  // by rank: the round after the last in which it got a model; 0: none
    MeasuredRates rates = {};
    static void fields(auto& self, auto&& visit) {
      LONGHAUL_FIELD(epoch);
      LONGHAUL_FIELD(round, .max = 0x1p50);
      LONGHAUL_FIELD(samples, .min = 0, .max = kMostSamples);
      LONGHAUL_KEY(served, "by rank: the round after the last in which it got a model; 0: none");
      LONGHAUL_KEY(rates, "empty unless plans are made by them");
    }
  };
  struct Plan {  // from the manager
    LONGHAUL_MESSAGE(2, "plan");
    Epoch epoch = 0;
    Round round = 0;
    double samples = 0;  // per worker
    std::vector<Rank> receivers = {}, expected = {};
    LONGHAUL_FIELDS(epoch, (round, .max = 0x1p50), (samples, .min = 0, .max = kMostSamples),
                    (receivers, .doc = "of the model of the node that gets this"),
                    (expected, .doc = "whose models it gets"))
  };
  using Messages = MessageList<Standing, Plan>;

  explicit Planning(PlanConfig config) : config_(std::move(config)) {}

  void begin_view() {
    standings_.clear();
    plan_.reset();
  }

  // Asks for the plan of this round. `samples` as in Standing; `rates`: measured by this node.
  void ready(Round round, double samples, MeasuredRates rates, Turn& turn) {
    // A returned worker has an old model. No pair is overdue for it.
    if (served_.empty() && turn.place().comes_back()) served_.assign(turn.place().size(), round);
    served_.resize(turn.place().size());  // nodes may have joined the job since
    turn.send(manager_of(turn),
              Standing{turn.view().epoch, round, samples, served_, std::move(rates)}, {}, kControl);
  }

  // At the manager, sends the plans of this round if all these workers are ready; ascending.
  void make_plans(Round round, const std::vector<Rank>& workers, Turn& turn) {
    double samples = 0;
    for (const Rank rank : workers) {
      const auto standing = standings_.find(rank);
      if (standing == standings_.end() || standing->second.round != round) return;
      samples += standing->second.samples;
    }
    samples /= double(workers.size());
    const flow::MulticastPlan chosen = choose(round, workers, turn);
    std::map<Rank, Plan> plans;
    for (const Rank rank : workers) plans[rank] = {turn.view().epoch, round, samples};
    for (std::size_t i = 0; i < workers.size(); ++i)
      for (const std::uint32_t j : chosen.receivers[i]) {
        plans[workers[i]].receivers.push_back(workers[j]);
        plans[workers[j]].expected.push_back(workers[i]);
      }
    // A returned worker may be ready for its first round already.
    std::erase_if(standings_, [&](const auto& one) { return one.second.round <= round; });
    for (const auto& [rank, plan] : plans) turn.send(rank, plan, {}, kControl);
  }

  // Returns the plan of this round, once.
  std::optional<Plan> take_plan(Round round) {
    if (!plan_ || plan_->round != round) return std::nullopt;
    return std::exchange(plan_, std::nullopt);
  }

  // The receivers have this node's model of this round.
  void served(const std::vector<Rank>& receivers, Round round) {
    for (const Rank rank : receivers) served_.at(rank) = round + 1;
  }

  std::string waiting_for(const Place& place) const {
    if (standings_.empty()) return "the plan of the manager";
    std::string text = "the plan; ready:";
    for (const auto& [rank, standing] : standings_) text += " " + place.member(rank).site;
    return text;
  }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    return dispatch(Messages{}, message, [&](const auto& m) { return take(from, m, turn); });
  }

  void state(Archive& ar) override { ar(served_, plan_, standings_); }

 private:
  Status take(Rank from, const Standing& standing, Turn& turn) {
    if (!turn.place().member(from).is(Role::worker) ||
        standing.served.size() != turn.place().size() || standing.epoch > turn.view().epoch ||
        standing.rates.pairs.size() > turn.place().size())
      return malformed("a standing that is none of a worker of this job");
    if (standing.epoch == turn.view().epoch && manager_of(turn) == turn.self())
      standings_[from] = standing;
    return Ok{};
  }

  Status take(Rank from, const Plan& plan, Turn& turn) {
    if (plan.epoch > turn.view().epoch || !are_workers(plan.receivers, turn.place()) ||
        !are_workers(plan.expected, turn.place()) ||
        std::ranges::count(plan.receivers, turn.self()) ||
        std::ranges::count(plan.expected, turn.self()))
      return malformed("a plan that is none of this job");
    if (plan.epoch < turn.view().epoch) return Ok{};
    if (from != manager_of(turn)) return malformed("a plan that is not from the manager");
    plan_ = plan;
    return Ok{};
  }

  flow::MulticastPlan choose(Round now, const std::vector<Rank>& workers, Turn& turn) const {
    const auto n = std::uint32_t(workers.size());
    flow::MulticastNetwork network = network_of(config_, workers);
    if (config_.is_measured) {
      std::vector<const MeasuredRates*> measured;
      for (const Rank rank : workers) measured.push_back(&standings_.at(rank).rates);
      network = network_of(measured, workers);
      network.by_network = config_.network.by_network;
    }
    flow::MulticastRound round;
    round.at_least.assign(n, selmcast::at_least(config_, n));
    round.volumes.assign(n, 1);
    for (std::uint32_t i = 0; i < n; ++i)
      for (std::uint32_t j = 0; j < n; ++j) {
        const Standing& sender = standings_.at(workers[i]);
        const Round age = age_of(sender.served[workers[j]], now);
        round.ages.push_back(double(age));
        if (i != j && is_overdue(config_, age)) round.overdue.emplace_back(i, j);
      }
    Random random = turn.random(Purpose::members, now, 0);
    return choose_receivers(config_, network, round, random);
  }

  const PlanConfig config_;
  std::vector<Round> served_;           // as Standing::served
  std::optional<Plan> plan_;            // arrived, not taken
  std::map<Rank, Standing> standings_;  // at the manager, of this view
};

}  // namespace longhaul::sync::selmcast
