#pragma once
// Planning agrees on senders and receivers in a round of selective multicast (flow/multicast.h).
// Every worker owns one. When its local steps of a round are done, it sends its standing to the
// manager, which is the senior worker. When all live workers are ready for the same round, the
// manager sends each worker its receivers and its expected senders.
//
// After a loss, all workers send their standing again. If the manager was lost while it sent a
// plan, only some workers have the plan of the round. The new manager names the workers that are
// left out. These workers send and expect nothing in that round, and the other workers do not
// expect them.
//
// A returned worker reports to the manager that it is outside. It is in no plan. With the next
// plan, the manager lets it in from the following round (sync/selmcast.h), and then waits for its
// standing, too.
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
  enum class Stage : std::uint8_t {
    computing,
    ready,       // waits for the plan of the round
    exchanging,  // has the plan
    outside      // has returned, and has no model
  };
  struct Standing {  // to the manager
    LONGHAUL_MESSAGE(1, "standing");
    Epoch epoch = 0;
    Round round = 0;
    Stage stage = Stage::computing;
    std::uint64_t samples = 0;  // samples that the sender has used since the run began
    std::vector<Round>
        served;  // by rank: the round after the last in which it got a model; 0: none
    MeasuredRates rates = {};
    static void fields(auto& self, auto&& visit) {
      LONGHAUL_FIELD(epoch);
      LONGHAUL_FIELD(round, .max = 0x1p50);
      LONGHAUL_FIELD(stage, .max = 3);
      LONGHAUL_FIELD(samples, .max = kMostSamples);
      LONGHAUL_KEY(served, "by rank: the round after the last in which it got a model; 0: none");
      LONGHAUL_KEY(rates, "empty unless plans are made by them");
    }
  };
  struct Plan {  // from the manager
    LONGHAUL_MESSAGE(2, "plan");
    Epoch epoch = 0;
    Round round = 0;
    std::uint64_t samples = 0;  // samples that all workers have used
    std::vector<Rank> receivers = {}, expected = {};
    LONGHAUL_FIELDS(epoch, (round, .max = 0x1p50), (samples, .max = kMostSamples),
                    (receivers, .doc = "of the model of the node that gets this"),
                    (expected, .doc = "whose models it gets"))
  };
  struct LeftOut {  // from a new manager: workers that have no plan of the round, and get none
    LONGHAUL_MESSAGE(3, "left_out");
    Epoch epoch = 0;
    Round round = 0;
    std::vector<Rank> ranks;
    LONGHAUL_FIELDS(epoch, round, ranks)
  };
  using Messages = MessageList<Standing, Plan, LeftOut>;

  explicit Planning(PlanConfig config) : config_(std::move(config)) {}

  // Called when this node begins `round`. `samples` as in Standing.
  void begin(Round round, Turn& turn) {
    own_.round = round;
    own_.stage = Stage::computing;
    own_.served.resize(turn.place().size());
    left_out_.clear();
    if (plan_ && plan_->round < round) plan_.reset();
  }

  // Asks for the plan. Called when the steps of the round are done.
  void ready(std::uint64_t samples, Turn& turn) {
    own_.stage = Stage::ready;
    own_.samples = samples;
    send_standing(turn);
  }

  // Sets this node's measured rates, sent with the next standing.
  void measured(MeasuredRates rates) { own_.rates = std::move(rates); }
  // Returns the plan of this round, once.
  std::optional<Plan> take_plan() {
    if (!plan_ || plan_->round != own_.round || own_.stage != Stage::ready) return std::nullopt;
    own_.stage = Stage::exchanging;
    return std::exchange(plan_, std::nullopt);
  }

  // Marks the receivers as served in this round.
  void served(const std::vector<Rank>& receivers) {
    for (const Rank rank : receivers) own_.served.at(rank) = own_.round + 1;
  }

  // Returns true if an expected sender sends no model in this round.
  bool is_left_out(Rank rank) const { return left_out_.contains(rank); }
  // Returns, at the manager and once, the outside workers that begin in the round after the one
  // just planned.
  std::set<Rank> take_entering() { return std::exchange(entering_, {}); }
  // Returns all outside workers, if no further plan is made.
  std::set<Rank> take_outside() {
    std::set<Rank> ranks;
    for (const auto& [rank, standing] : standings_)
      if (standing.stage == Stage::outside) ranks.insert(rank);
    for (const Rank rank : ranks) standings_.erase(rank);
    return ranks;
  }

  std::string waiting_for(const Place& place) const {
    std::string text = "the plan of round " + std::to_string(own_.round);
    if (standings_.empty()) return text;
    text += "; ready:";
    for (const auto& [rank, standing] : standings_)
      if (standing.stage == Stage::ready) text += " " + place.member(rank).site;
    return text;
  }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    return dispatch(Messages{}, message, [&](const auto& m) { return take(from, m, turn); });
  }

  void on_view(const View&, Turn& turn) override {
    standings_.clear();
    entering_.clear();
    is_resolved_ = false;
    if (own_.served.empty() && turn.place().comes_back()) {
      own_.stage = Stage::outside;
      Standing standing = own_;
      standing.served.resize(turn.place().size());
      standing.epoch = turn.view().epoch;
      turn.send(manager_of(turn), standing, {}, kControl);
    }
    if (own_.served.empty()) return;  // has not begun
    own_.served.resize(turn.place().size());
    // A plan that has arrived counts as known to this node.
    Standing standing = own_;
    if (plan_ && plan_->round == own_.round) standing.stage = Stage::exchanging;
    standing.epoch = turn.view().epoch;
    turn.send(manager_of(turn), standing, {}, kControl);
  }

  void state(Archive& ar) override {
    ar(own_, plan_, left_out_, standings_, is_resolved_, entering_);
  }

 private:
  Status take(Rank from, const Standing& standing, Turn& turn) {
    if (!turn.place().member(from).is(Role::worker) ||
        standing.served.size() != turn.place().size() || standing.epoch > turn.view().epoch ||
        standing.rates.pairs.size() > turn.place().size())
      return malformed("a standing that is none of a worker of this job");
    if (standing.epoch < turn.view().epoch || manager_of(turn) != turn.self()) return Ok{};
    standings_[from] = standing;
    const std::vector<Rank> workers = live_workers(turn);
    if (standings_.size() < workers.size()) return Ok{};
    if (!std::exchange(is_resolved_, true)) resolve(turn);
    make_plans(turn);
    return Ok{};
  }

  Status take(Rank from, const Plan& plan, Turn& turn) {
    if (plan.epoch > turn.view().epoch || !are_workers(plan.receivers, turn.place()) ||
        !are_workers(plan.expected, turn.place()) ||
        std::ranges::count(plan.receivers, turn.self()) ||
        std::ranges::count(plan.expected, turn.self()))
      return malformed("a plan that is none of this job");
    if (plan.epoch == turn.view().epoch && !is_from_manager(from, plan.epoch, turn))
      return malformed("a plan that is not from the manager");
    // A plan of the epoch before is followed if it is for this round: the new manager asks for it.
    if (own_.stage == Stage::ready && plan.round == own_.round && !plan_) plan_ = plan;
    return Ok{};
  }

  Status take(Rank from, const LeftOut& left_out, Turn& turn) {
    if (left_out.epoch > turn.view().epoch || !are_workers(left_out.ranks, turn.place()))
      return malformed("ranks that are left out of no round of this job");
    if (!is_from_manager(from, left_out.epoch, turn) || left_out.round != own_.round) return Ok{};
    if (!std::ranges::count(left_out.ranks, turn.self())) {
      left_out_.insert(left_out.ranks.begin(), left_out.ranks.end());
    } else if (own_.stage != Stage::exchanging && !plan_) {
      plan_ = Plan{.epoch = left_out.epoch, .round = left_out.round, .samples = own_.samples};
    }
    return Ok{};
  }

  bool is_from_manager(Rank from, Epoch epoch, const Turn& turn) const {
    return epoch == turn.view().epoch && from == manager_of(turn);
  }

  void send_standing(Turn& turn) {
    own_.epoch = turn.view().epoch;
    own_.served.resize(turn.place().size());  // nodes may have joined the job since
    turn.send(manager_of(turn), own_, {}, kControl);
  }

  // Finds the newest round with a plan at any live worker, and sends LeftOut for the workers that
  // lack it.
  void resolve(Turn& turn) {
    const auto known = [](const Standing& s) {  // number of rounds whose plan a worker has had
      return s.round + (s.stage == Stage::exchanging ? 1 : 0);
    };
    std::map<Rank, Standing> of = standings_;
    Round planned = 0;
    std::erase_if(of, [](const auto& one) { return one.second.stage == Stage::outside; });
    for (const auto& [rank, standing] : of) planned = std::max(planned, known(standing));
    LeftOut left_out{turn.view().epoch, planned - (planned > 0 ? 1 : 0), {}};
    for (const auto& [rank, standing] : of)
      if (known(standing) < planned) left_out.ranks.push_back(rank);
    if (left_out.ranks.empty()) return;
    for (const auto& [rank, standing] : of) turn.send(rank, left_out, {}, kControl);
  }

  // Makes the plans when all workers are ready for the same round.
  void make_plans(Turn& turn) {
    const Round round = own_.round;
    std::vector<Rank> workers;
    std::set<Rank> outside;
    Plan common{.epoch = turn.view().epoch, .round = round};
    for (const auto& [rank, standing] : standings_) {
      if (standing.stage == Stage::outside) {
        outside.insert(rank);
        continue;
      }
      if (standing.round != round || standing.stage != Stage::ready) return;
      workers.push_back(rank);
      common.samples = plus_samples(common.samples, double(standing.samples));
    }
    const flow::MulticastPlan chosen = choose(workers, turn);
    std::map<Rank, Plan> plans;
    for (const Rank rank : workers) plans[rank] = common;
    for (std::size_t i = 0; i < workers.size(); ++i)
      for (const std::uint32_t j : chosen.receivers[i]) {
        plans[workers[i]].receivers.push_back(workers[j]);
        plans[workers[j]].expected.push_back(workers[i]);
      }
    standings_.clear();
    entering_ = std::move(outside);
    for (const auto& [rank, plan] : plans) turn.send(rank, plan, {}, kControl);
  }

  flow::MulticastPlan choose(const std::vector<Rank>& workers, Turn& turn) const {
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
        const Round age = age_of(sender.served[workers[j]], sender.round);
        round.ages.push_back(double(age));
        if (i != j && is_overdue(config_, age)) round.overdue.emplace_back(i, j);
      }
    Random random = turn.random(Purpose::members, own_.round, 0);
    return choose_receivers(config_, network, round, random);
  }

  const PlanConfig config_;
  Standing own_;
  std::optional<Plan> plan_;
  std::set<Rank> left_out_;  // workers left out of this round
  // At the manager: standings of this epoch by rank, and whether all workers have reported in it.
  std::map<Rank, Standing> standings_;
  bool is_resolved_ = true;
  std::set<Rank> entering_;
};

}  // namespace longhaul::sync::selmcast
