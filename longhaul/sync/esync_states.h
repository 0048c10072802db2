#pragma once
// The state server of ESync. ReachTime determines when each worker can be at the server, and how
// many local steps it can take until then. States sends the questions and answers.
//   Li et al., "ESync: accelerating intra-domain federated learning in heterogeneous data centers",
//   IEEE Transactions on Services Computing, 2020; the rule as in its authors' public code
//   (Lizonghang/ESync). The push time, smoothed figures, leases of several steps and early
//   questions are ours.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "longhaul/core/machine.h"

namespace longhaul::sync::esync {

struct Standing {  // report of a worker
  Round round = 0;
  std::uint32_t steps = 0;  // local steps of the round when the granted ones are done (k)
  std::uint32_t ahead = 0;  // granted steps to be done, with the current one
  double step_s = 0;        // c: time of a step
  double push_s = 0;        // d: time that its update needs to leave the worker
};

// All times are the state server's own, in seconds.
class ReachTime {
 public:
  struct Config {
    std::optional<double> margin_s = {};  // eps; null: kMargin of the slowest worker's step
    std::uint32_t lease = 16;             // maximum steps granted at a time
    double smoothing = 0.5;               // weight of a new c and d
    bool with_push = true;                // d is part of the rule
  };
  static constexpr double kMargin = 0.05;

  explicit ReachTime(const Config& config) : config_(config) {}

  // Sets the workers that train now. Forgets all others.
  void members(std::set<Rank> members) {
    members_ = std::move(members);
    const auto left = [&](Rank r) { return !members_.contains(r); };
    std::erase_if(known_, [&](const auto& one) { return left(one.first); });
    std::erase_if(order_, [&](const Reach& one) { return left(one.second); });
  }

  // Takes the question of member `r`: how many more steps it can take before it must contribute.
  // `r` asked at `sent` by this clock. The answer takes as long as the question: `now` - `sent`.
  void ask(Rank r, const Standing& asked, double sent, double now) {
    LH_CHECK(members_.contains(r));
    const bool first = !known_.contains(r);
    Known& known = known_[r];
    order_.erase(reach(r, known));
    const double weight = first ? 1 : config_.smoothing;
    known.step_s += weight * (asked.step_s - known.step_s);
    known.push_s += weight * ((config_.with_push ? asked.push_s : 0) - known.push_s);
    known.round = asked.round;
    known.steps = asked.steps;
    known.lead = now - sent;
    known.free = now + asked.ahead * known.step_s;
    known.ends = sent + asked.ahead * known.step_s;
    order_.insert(reach(r, known));
  }

  // Returns the number of steps, or 0. Null if not known yet, because the slowest worker has not
  // begun the round. Must then be called again when another worker has asked, or at due(). Answers
  // each question once.
  std::optional<std::uint32_t> answer(Rank r, double now) {
    Known& known = known_.at(r);
    const auto due = this->due(r);
    if (known.steps > 0 && !begun_by_the_slowest(known) && (!due || now < *due))
      return std::nullopt;
    const std::uint32_t more = decide(r, known, now);
    known.ends += more * known.step_s;
    return more;
  }

  // Returns the time at which `r` needs its answer; null if it can wait for workers that have not
  // begun.
  std::optional<double> due(Rank r) const {
    const Known& known = known_.at(r);
    if (known.step_s <= 0) return std::nullopt;
    return known.free - known.lead;
  }

  // Returns the round and the steps of the last question; null if there was none.
  std::optional<std::pair<Round, std::uint32_t>> asked(Rank r) const {
    const auto known = known_.find(r);
    if (known == known_.end()) return std::nullopt;
    return std::pair{known->second.round, known->second.steps};
  }

  void state(Archive& ar) { ar(members_, known_, order_); }

 private:
  struct Known {
    Round round = 0;  // round of the last question
    std::uint32_t steps = 0;
    double step_s = 0, push_s = 0;
    double lead = 0;  // transit time of an answer
    double free = 0;  // when it receives an answer, or has done its steps
    double ends = 0;  // when its granted steps will be done
    void state(Archive& ar) { ar(round, steps, step_s, push_s, lead, free, ends); }
  };
  using Reach = std::pair<double, Rank>;  // -(c + d): the slowest first; if equal, the lowest rank
  static Reach reach(Rank r, const Known& known) { return {-(known.step_s + known.push_s), r}; }
  Rank slowest() const { return order_.begin()->second; }  // argmax of c + d
  bool begun_by_the_slowest(const Known& mine) const {
    const bool all = known_.size() == members_.size();  // else the slowest may be unknown
    return all && known_.at(slowest()).round >= mine.round;
  }

  std::uint32_t decide(Rank r, const Known& mine, double now) const {
    if (mine.steps == 0) return 1;  // every worker does at least one step
    if (!begun_by_the_slowest(mine)) return 1;
    const Rank s = slowest();
    if (r == s || mine.step_s <= 0) return 0;
    const Known& slow = known_.at(s);
    if (slow.round > mine.round) return 0;  // that round has ended
    const double eps = config_.margin_s.value_or(kMargin * slow.step_s);
    const double arrive = slow.ends + slow.push_s;
    const double free = std::max(now, mine.free);
    if (free + mine.step_s + mine.push_s + eps > arrive) return 0;
    const double fit = std::floor((arrive - eps - mine.push_s - free) / mine.step_s);
    return std::uint32_t(std::clamp(fit, 1.0, double(config_.lease)));
  }

  const Config config_;
  std::set<Rank> members_;
  std::map<Rank, Known> known_;  // members only
  std::set<Reach> order_;        // all in known_
};

// The state server and its clients: one machine on every node. The view determines the state
// server: the lowest live node with the role state_server, else with the role server, else the
// lowest live worker. A new state server starts without data, and receives the open questions
// again.
class States final : public Machine {
 public:
  struct Query {
    LONGHAUL_MESSAGE(1, "query");
    Round round = 0;
    std::uint32_t steps = 0, ahead = 0;
    double step_s = 0, push_s = 0, rtt_s = 0;
    LONGHAUL_FIELDS(round, (steps, .doc = "local steps when those granted are done", .max = 1e9),
                    (ahead, .doc = "of them, still to be done", .max = 1e6),
                    (step_s, .min = 0, .max = 1e9), (push_s, .min = 0, .max = 1e9),
                    (rtt_s, .doc = "from a query to its grant", .min = 0, .max = 1e9))
  };
  struct Grant {
    LONGHAUL_MESSAGE(2, "grant");
    Round round = 0;
    std::uint32_t steps = 0;  // steps of the query
    std::uint32_t more = 0;   // 0: contribute the update
    LONGHAUL_FIELDS(round, steps, (more, .doc = "steps; 0: give the update", .max = 1e6))
  };
  // Report of a worker that has missed the deadline of a round. No worker waits for it until it
  // asks.
  struct Late {
    LONGHAUL_MESSAGE(3, "late");
    Round round = 0;
    LONGHAUL_FIELDS(round)
  };
  using Messages = MessageList<Query, Grant, Late>;

  // `with_delay`: a query counts from its start, half the round trip ago.
  States(const ReachTime::Config& config, bool with_delay)
      : reach_(config), with_delay_(with_delay) {}

  // --- for the strategy of this node
  void ask(const Standing& s, Turn& turn) {
    asked_ = {s.round, s.steps, s.ahead, s.step_s, s.push_s, seconds(rtt_)};
    answer_.reset();
    late_.reset();
    send_query(turn);
  }

  bool asking() const { return asked_.has_value(); }
  // Returns the answer to the last question, once.
  std::optional<std::uint32_t> granted() { return std::exchange(answer_, std::nullopt); }

  // Ignores the answer that has arrived or is still to arrive.
  void give_up() {
    asked_.reset();
    answer_.reset();
  }
  void tell_late(Round round, Turn& turn) {
    give_up();
    late_ = Late{round};
    send_late(turn);
  }

  Time rtt() const { return rtt_; }  // round trip of the last question; 0 before the first answer
  std::string waiting_for() const {
    return asked_ ? "a grant of rank " + std::to_string(asks_) + ", the state server" : "";
  }

  static Rank server(const Place& place, const View& view) {
    for (const Role role : {Role::state_server, Role::server, Role::worker})
      if (const auto there = live_with(role, place, view); !there.empty()) return there.front();
    return view.lowest();
  }

  void on_start(Turn& turn) override {
    for (const auto& [rank, epoch] : turn.view().returned) absent_.insert(rank);
    meet(turn);
  }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    return dispatch(Messages{}, message, [&](const auto& m) -> Status {
      if constexpr (std::is_same_v<std::decay_t<decltype(m)>, Grant>) {
        const bool expected = asked_ && m.round == asked_->round && m.steps == asked_->steps;
        if (!expected || from != asks_) return Ok{};  // late
        answer_ = m.more;
        rtt_ = turn.now() - since_;
        asked_.reset();
        return Ok{};
      } else {
        if (!turn.place().member(from).is(Role::worker)) return malformed("a query of no worker");
        // Otherwise it was sent to the state server of another view.
        const bool serves = server(turn.place(), turn.view()) == turn.self();
        return serves ? take(from, m, turn) : Ok{};
      }
    });
  }

  void on_view(const View&, Turn& turn) override {
    for (const auto& [rank, epoch] : turn.view().returned)
      if (epoch == turn.view().epoch) absent_.insert(rank);
    meet(turn);
    std::erase_if(waiting_,
                  [&](Rank rank) { return !turn.view().has(rank) || absent_.contains(rank); });
    answer_all(turn);
    if (asked_ && server(turn.place(), turn.view()) != asks_) send_query(turn);
    if (late_ && server(turn.place(), turn.view()) != asks_) send_late(turn);
  }

  void on_timer(TimerId, Turn& turn) override { answer_all(turn); }
  void state(Archive& ar) override {
    ar(reach_, waiting_, absent_, asked_, late_, asks_, answer_, since_, rtt_);
  }

 private:
  static constexpr TimerId kDue{1};
  void send_query(Turn& turn) {
    since_ = turn.now();
    asks_ = server(turn.place(), turn.view());
    turn.send(asks_, *asked_, {}, kControl);
  }

  void send_late(Turn& turn) {
    asks_ = server(turn.place(), turn.view());
    turn.send(asks_, *late_, {}, kControl);
  }

  Status take(Rank from, const Query& m, Turn& turn) {
    if (absent_.erase(from) > 0) meet(turn);
    const auto last = reach_.asked(from);
    if (last && std::pair{m.round, m.steps} <= *last) return malformed("a query that was answered");
    const double now = seconds(turn.now());
    const double sent = with_delay_ ? now - m.rtt_s / 2 : now;
    reach_.ask(from, {m.round, m.steps, m.ahead, m.step_s, m.push_s}, sent, now);
    waiting_.insert(from);
    answer_all(turn);
    return Ok{};
  }

  Status take(Rank from, const Late&, Turn& turn) {
    absent_.insert(from);
    waiting_.erase(from);
    meet(turn);
    answer_all(turn);
    return Ok{};
  }

  // Answers the questions that can be answered, in order of rank. Sets a timer for the next due
  // one.
  void answer_all(Turn& turn) {
    const double now = seconds(turn.now());
    std::optional<double> next;
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      const Rank rank = *it;
      if (const auto more = reach_.answer(rank, now)) {
        const auto [round, steps] = reach_.asked(rank).value();
        turn.send(rank, Grant{round, steps, *more}, {}, kControl);
        it = waiting_.erase(it);
        continue;
      }
      ++it;
      const auto due = reach_.due(rank);
      if (due && (!next || *due < *next)) next = due;
    }
    // Rounded up, so that the timer does not fire early.
    if (next) turn.set_timer(*this, kDue, std::max(from_seconds(*next) + Time{1}, turn.now()));
  }

  void meet(const Turn& turn) {
    std::set<Rank> training;
    for (const Rank rank : live_workers(turn))
      if (!absent_.contains(rank)) training.insert(rank);
    reach_.members(std::move(training));
  }

  ReachTime reach_;         // at the state server: questions arrive in order, once
  std::set<Rank> waiting_;  // workers that wait for an answer
  // Returned and late workers that have asked nothing since. They take no steps of the round, and
  // no worker waits for them.
  std::set<Rank> absent_;
  const bool with_delay_;
  std::optional<Query> asked_;
  std::optional<Late> late_;  // set until this worker asks again
  Rank asks_ = 0;             // rank of the state server
  std::optional<std::uint32_t> answer_;
  Time since_{0};
  Time rtt_{0};
};

}  // namespace longhaul::sync::esync
