#pragma once
// SspPlanning chooses the receivers of each multicast when its sender is ready (algorithm 2,
// flow::replan_multicast). Every worker owns one. A worker reports its progress to the manager,
// which is the senior worker. It does so at the start of a round, when its steps are done, and
// while it sends, with the part that each receiver does not have yet. The manager sends each ready
// worker its receivers, and removes receivers from current multicasts that delay others. It sends
// all workers the round of the slowest one. A receiver confirms to the sender when it has the whole
// model.
//
// A Progress contains all the manager needs to know of its sender. After a loss every worker sends
// its Progress again, and a new manager continues from them. Plans and cancellations of the
// previous epoch are void.
#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "longhaul/core/machine.h"
#include "longhaul/sync/selmcast/planning.h"

namespace longhaul::sync::selmcast {

struct SspConfig {
  std::uint32_t staleness = 4;  // rounds that a worker may be ahead of the slowest
  double keep_below = 0.75;     // eta
  PlanConfig plan = {};
};

class SspPlanning final : public Machine {
 public:
  enum class Stage : std::uint8_t {
    computing,
    ready,   // waits for its receivers
    sending  // has them
  };
  struct Left {  // part of the model that a receiver lacks
    Rank to = 0;
    std::uint64_t values = 0;
    LONGHAUL_FIELDS(to, values)
  };
  struct Progress {  // to the manager
    LONGHAUL_MESSAGE(1, "progress");
    Epoch epoch = 0;
    Round round = 0;
    Stage stage = Stage::computing;
    std::vector<Left> left = {};
    std::vector<Round> served = {};
    MeasuredRates rates = {};
    static void fields(auto& self, auto&& visit) {
      LONGHAUL_FIELD(epoch);
      LONGHAUL_FIELD(round, .max = 0x1p50);
      LONGHAUL_FIELD(stage, .max = 2);
      LONGHAUL_KEY(left, "while it sends: its receivers, and what they do not have yet");
      LONGHAUL_KEY(served, "by rank: the round after the last that it has got; 0: none");
      LONGHAUL_KEY(rates, "empty unless plans are made by them");
    }
  };
  struct Receivers {  // from the manager: receivers of the model of this round
    LONGHAUL_MESSAGE(2, "receivers");
    Epoch epoch = 0;
    Round round = 0;
    std::vector<Rank> ranks = {};
    LONGHAUL_FIELDS(epoch, round, ranks)
  };
  struct Withdraw {  // from the manager: receivers that do not get the model of this round
    LONGHAUL_MESSAGE(3, "withdraw");
    Epoch epoch = 0;
    Round round = 0;
    std::vector<Rank> ranks = {};
    LONGHAUL_FIELDS(epoch, round, ranks)
  };
  struct Slowest {  // from the manager
    LONGHAUL_MESSAGE(4, "slowest");
    Epoch epoch = 0;
    Round round = 0;
    LONGHAUL_FIELDS(epoch, (round, .doc = "that the slowest worker is in", .max = 0x1p50))
  };
  struct Got {  // to the sender of a model: the whole model has arrived
    LONGHAUL_MESSAGE(5, "got");
    Round round = 0;
    LONGHAUL_FIELDS((round, .doc = "of the sender", .max = 0x1p50))
  };
  using Messages = MessageList<Progress, Receivers, Withdraw, Slowest, Got>;

  explicit SspPlanning(SspConfig config) : config_(std::move(config)) {}

  // Starts `round`.
  void begin(Round round, Turn& turn) {
    own_.round = round;
    own_.stage = Stage::computing;
    own_.left.clear();
    own_.served.resize(turn.place().size());
    receivers_.reset();
    withdrawn_.clear();
    got_.clear();
    send_progress(turn);
  }

  bool may_compute() const { return own_.round <= slowest_ + config_.staleness; }
  // Asks for receivers, when the steps are done.
  void ready(Turn& turn) {
    own_.stage = Stage::ready;
    send_progress(turn);
  }

  // Sets the rates that this node has measured; sent with its next progress.
  void measured(MeasuredRates rates) { own_.rates = std::move(rates); }
  // Returns the receivers of this round, once.
  std::optional<std::vector<Rank>> take_receivers() {
    if (!receivers_ || own_.stage != Stage::ready) return std::nullopt;
    own_.stage = Stage::sending;
    return std::exchange(receivers_, std::nullopt);
  }

  // Returns the receivers that do not get the model of this round after all, each once.
  std::vector<Rank> take_withdrawn() {
    if (own_.stage != Stage::sending) return {};  // the receivers are not taken yet
    return std::exchange(withdrawn_, {});
  }

  // Reports to a sender that this node has all of its model of that round.
  void received(Rank sender, Round round, Turn& turn) {
    if (turn.view().has(sender)) turn.send(sender, Got{round}, {}, kControl);
  }

  // Returns the workers that have confirmed this node's model of this round, each once.
  std::set<Rank> take_got() { return std::exchange(got_, {}); }
  // Reports the values that each receiver does not have yet. A receiver with none left is served.
  void sending(std::vector<Left> left, Turn& turn) {
    for (const Left& one : left)
      if (one.values == 0) own_.served.at(one.to) = own_.round + 1;
    own_.left = std::move(left);
    send_progress(turn);
  }

  std::string waiting_for(const Place& place) const {
    if (own_.stage == Stage::computing)
      return "the slowest worker, to reach round " +
             std::to_string(own_.round - std::min<Round>(own_.round, config_.staleness));
    std::string text = "the receivers of round " + std::to_string(own_.round);
    if (workers_.empty()) return text;
    text += "; known:";
    for (const auto& [rank, worker] : workers_) text += " " + place.member(rank).site;
    return text;
  }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    return dispatch(Messages{}, message, [&](const auto& m) { return take(from, m, turn); });
  }

  void on_view(const View&, Turn& turn) override {
    workers_.clear();
    told_.reset();
    if (own_.served.empty()) return;  // not started
    // Receivers of the old manager that are not taken: the new manager does not know them.
    receivers_.reset();
    std::erase_if(own_.left, [&](const Left& one) { return !turn.view().has(one.to); });
    send_progress(turn);
  }

  void state(Archive& ar) override {
    ar(own_, receivers_, withdrawn_, got_, slowest_, workers_, told_);
  }

 private:
  static constexpr std::size_t kRoundsRemembered = 8;
  static constexpr double kBytesOfAValue = 4;

  static std::vector<Rank> ranks_of(const std::vector<Left>& left) {
    std::vector<Rank> ranks;
    for (const auto& one : left) ranks.push_back(one.to);
    return ranks;
  }

  // The manager's record of a worker.
  struct Worker {
    Progress progress;
    Time round_since{0};                  // start of this round
    std::deque<Time> rounds;              // durations of its last rounds
    std::optional<Round> planned;         // last round with assigned receivers
    std::set<Rank> receivers, withdrawn;  // ranks of that round
    void state(Archive& ar) { ar(progress, round_since, rounds, planned, receivers, withdrawn); }
  };
  using Workers = std::map<Rank, Worker>;

  Status take(Rank from, const Progress& said, Turn& turn) {
    LH_TRY(check(from, said, turn));
    if (said.epoch < turn.view().epoch || manager_of(turn) != turn.self()) return Ok{};
    note(workers_[from], said, turn);
    const std::vector<Rank> live = live_workers(turn);
    if (workers_.size() < live.size()) return Ok{};  // an epoch starts with every progress
    tell_slowest(turn);
    for (const Rank rank : live) {
      const Worker& worker = workers_.at(rank);
      if (worker.progress.stage == Stage::ready && worker.planned != worker.progress.round)
        plan(rank, turn);
    }
    return Ok{};
  }

  Status take(Rank from, const Receivers& plan, Turn& turn) {
    if (plan.epoch > turn.view().epoch || !are_workers(plan.ranks, turn.place()) ||
        std::ranges::count(plan.ranks, turn.self()))
      return malformed("receivers that are none of this job");
    if (plan.epoch < turn.view().epoch) return Ok{};  // the current manager plans again
    if (from != manager_of(turn)) return malformed("receivers that are not from the manager");
    if (own_.stage == Stage::ready && plan.round == own_.round && !receivers_)
      receivers_ = plan.ranks;
    return Ok{};
  }

  Status take(Rank from, const Withdraw& gone, Turn& turn) {
    if (gone.epoch > turn.view().epoch || !are_workers(gone.ranks, turn.place()))
      return malformed("withdrawn receivers that are none of this job");
    if (gone.epoch < turn.view().epoch || gone.round != own_.round) return Ok{};
    if (from != manager_of(turn)) return malformed("a withdrawal that is not from the manager");
    for (const Rank rank : gone.ranks)
      if (!std::ranges::count(withdrawn_, rank)) withdrawn_.push_back(rank);
    return Ok{};
  }

  Status take(Rank from, const Slowest& slowest, Turn& turn) {
    if (slowest.epoch > turn.view().epoch)
      return malformed("a round of an epoch that has not begun");
    if (slowest.epoch < turn.view().epoch) return Ok{};
    if (from != manager_of(turn)) return malformed("the slowest round, not from the manager");
    slowest_ = std::max(slowest_, slowest.round);
    return Ok{};
  }

  Status take(Rank from, const Got& got, Turn& turn) {
    const bool was_sent =
        own_.stage == Stage::sending ? got.round <= own_.round : got.round < own_.round;
    if (!was_sent || !turn.place().member(from).is(Role::worker))
      return malformed("a receipt of a model that was not sent");
    if (got.round == own_.round) got_.insert(from);
    return Ok{};
  }

  Status check(Rank from, const Progress& said, const Turn& turn) const {
    const Place& place = turn.place();
    std::vector<Rank> receivers = ranks_of(said.left);
    const bool has_left = std::ranges::all_of(
        said.left, [&](const Left& one) { return one.values <= place.layout->size(); });
    if (!place.member(from).is(Role::worker) || said.served.size() != place.size() ||
        said.epoch > turn.view().epoch || !has_left || said.rates.pairs.size() > place.size() ||
        !are_workers(receivers, place) || std::ranges::count(receivers, from))
      return malformed("a progress that is none of a worker of this job");
    return Ok{};
  }

  void send_progress(Turn& turn) {
    own_.epoch = turn.view().epoch;
    turn.send(manager_of(turn), own_, {}, kControl);
  }

  void note(Worker& worker, const Progress& said, const Turn& turn) const {
    const bool is_known = !worker.progress.served.empty();
    if (!is_known || said.round > worker.progress.round) {
      if (is_known) worker.rounds.push_back(turn.now() - worker.round_since);
      if (worker.rounds.size() > kRoundsRemembered) worker.rounds.pop_front();
      worker.round_since = turn.now();
      worker.planned.reset();
      worker.receivers.clear();
      worker.withdrawn.clear();
    }
    worker.progress = said;
  }

  void tell_slowest(Turn& turn) {
    Slowest slowest{turn.view().epoch, workers_.begin()->second.progress.round};
    for (const auto& [rank, worker] : workers_)
      slowest.round = std::min(slowest.round, worker.progress.round);
    if (told_ && slowest.round <= *told_) return;
    told_ = slowest.round;
    for (const auto& [rank, worker] : workers_) turn.send(rank, slowest, {}, kControl);
  }

  void plan(Rank ready, Turn& turn) {
    std::vector<Rank> live;
    for (const auto& [rank, worker] : workers_) live.push_back(rank);
    const auto place_of = std::uint32_t(std::ranges::find(live, ready) - live.begin());
    const flow::MulticastUpdate update = choose(live, place_of, turn);
    Worker& worker = workers_.at(ready);
    Receivers plan{turn.view().epoch, worker.progress.round, {}};
    for (const std::uint32_t j : update.receivers) plan.ranks.push_back(live[j]);
    worker.planned = plan.round;
    worker.receivers = {plan.ranks.begin(), plan.ranks.end()};
    turn.send(ready, plan, {}, kControl);

    std::map<Rank, Withdraw> withdrawn;
    for (const auto& [i, j] : update.cancelled) {
      Worker& sender = workers_.at(live[i]);
      sender.withdrawn.insert(live[j]);
      Withdraw& one = withdrawn[live[i]];
      one.epoch = turn.view().epoch;
      one.round = sender.progress.round;
      one.ranks.push_back(live[j]);
    }
    for (const auto& [rank, one] : withdrawn) turn.send(rank, one, {}, kControl);
  }

  flow::MulticastUpdate choose(const std::vector<Rank>& live, std::uint32_t ready,
                               Turn& turn) const {
    const auto n = std::uint32_t(live.size());
    const double volume = double(turn.place().layout->size()) * kBytesOfAValue;
    const std::uint32_t share = at_least(config_.plan, n);
    std::vector<flow::MulticastSender> senders(n);
    std::vector<flow::WorkerPair> overdue;
    std::vector<double> ages;
    for (std::uint32_t i = 0; i < n; ++i) {
      const Worker& worker = workers_.at(live[i]);
      flow::MulticastSender& sender = senders[i];
      sender = {.sending = worker.progress.stage == Stage::sending ||
                           (worker.planned == worker.progress.round && i != ready),
                .volume = volume,
                .at_least = share,
                .blocked_s = blocked_s(worker, turn),
                .left = std::vector<double>(n, volume),
                .chosen = std::vector<bool>(n, false)};
      std::map<Rank, double> left;  // bytes by receiver
      if (worker.progress.stage == Stage::sending)
        for (const Left& one : worker.progress.left)
          left[one.to] = double(one.values) * kBytesOfAValue;
      else  // the sender does not have its receivers yet
        for (const Rank rank : worker.receivers) left[rank] = volume;
      for (std::uint32_t j = 0; j < n; ++j) {
        const Round age = age_of(worker.progress.served[live[j]], worker.progress.round);
        ages.push_back(double(age));
        if (i != j && is_overdue(config_.plan, age)) overdue.emplace_back(i, j);
        const auto found = left.find(live[j]);
        if (found == left.end() || worker.withdrawn.contains(live[j])) continue;
        sender.chosen[j] = true;
        sender.left[j] = found->second;
      }
    }
    flow::MulticastNetwork network = network_of(config_.plan, live);
    if (config_.plan.is_measured) {
      std::vector<const MeasuredRates*> measured;
      for (const Rank rank : live) measured.push_back(&workers_.at(rank).progress.rates);
      network = network_of(measured, live);
      network.by_network = config_.plan.network.by_network;
    }
    if (config_.plan.receivers == PlanConfig::Receivers::selected)
      return flow::replan_multicast(network, std::move(senders), ready, overdue, ages,
                                    config_.keep_below);
    // The baselines choose for one sender as for every sender, and cancel nothing.
    flow::MulticastRound round{.volumes = std::vector<double>(n, 1),
                               .at_least = std::vector<std::uint32_t>(n, share),
                               .overdue = std::move(overdue)};
    Random random =
        turn.random(Purpose::members, workers_.at(live[ready]).progress.round, live[ready]);
    const bool to_all = config_.plan.receivers == PlanConfig::Receivers::all;
    const flow::MulticastPlan all = to_all ? flow::plan_broadcast(network, round)
                                           : flow::plan_random_multicast(network, round, random);
    return {.receivers = all.receivers[ready], .cancelled = {}};
  }

  // Returns tau of a sender: the time that it would still be blocked if its multicast ended now.
  // The estimate uses the rounds of the slowest worker.
  double blocked_s(const Worker& worker, const Turn& turn) const {
    const Worker* slowest = &worker;
    for (const auto& [rank, other] : workers_)
      if (other.progress.round < slowest->progress.round) slowest = &other;
    if (worker.progress.round + 1 <= slowest->progress.round + config_.staleness ||
        slowest->rounds.empty())
      return 0;
    double mean = 0;
    for (const Time round : slowest->rounds)
      mean += seconds(round) / double(slowest->rounds.size());
    return std::max(0.0, mean - seconds(turn.now() - slowest->round_since));
  }

  const SspConfig config_;
  Progress own_;
  std::optional<std::vector<Rank>> receivers_;  // arrived, not taken
  std::vector<Rank> withdrawn_;                 // the same
  std::set<Rank> got_;                          // the same
  Round slowest_ = 0;
  Workers workers_;            // at the manager: workers of this epoch
  std::optional<Round> told_;  // slowest round that was sent in this epoch
};

}  // namespace longhaul::sync::selmcast
