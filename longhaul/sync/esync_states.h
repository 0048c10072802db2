#pragma once
// The state server of ESync and those who ask it: one machine on every node. Where it stands all
// nodes know from the view: the lowest live node with the role state_server, else with the role
// server, else the lowest live worker. A new one knows nothing, and is asked again what the old one
// was.
#include <optional>

#include "longhaul/core/machine.h"
#include "longhaul/sync/esync_reach.h"

namespace longhaul::sync::esync {

class States final : public Machine {
 public:
  struct Query {
    static constexpr std::uint16_t kKind = 1;
    static constexpr std::string_view kName = "query";
    Round round = 0;
    std::uint32_t steps = 0, ahead = 0;
    double step_s = 0, push_s = 0, rtt_s = 0;
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(round);
      LONGHAUL_FIELD(steps, .doc = "local steps when those granted are done", .max = 1e9);
      LONGHAUL_FIELD(ahead, .doc = "of them, still to be done", .max = 1e6);
      LONGHAUL_FIELD(step_s, .min = 0, .max = 1e9);
      LONGHAUL_FIELD(push_s, .min = 0, .max = 1e9);
      LONGHAUL_FIELD(rtt_s, .doc = "from a query to its grant", .min = 0, .max = 1e9);
    }
  };
  struct Grant {
    static constexpr std::uint16_t kKind = 2;
    static constexpr std::string_view kName = "grant";
    Round round = 0;
    std::uint32_t steps = 0;  // of the query
    std::uint32_t more = 0;   // 0: give the update
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(round);
      LONGHAUL_FIELD(steps);
      LONGHAUL_FIELD(more, .doc = "steps; 0: give the update", .max = 1e6);
    }
  };
  // Of a worker that has missed the deadline of a round: nobody is to wait for it until it asks.
  struct Late {
    static constexpr std::uint16_t kKind = 3;
    static constexpr std::string_view kName = "late";
    Round round = 0;
    LONGHAUL_FIELDS(round)
  };
  using Messages = MessageList<Query, Grant, Late>;

  // `with_delay`: a query counts from when it was sent, half the round trip ago.
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
  // The answer to the last question, once.
  std::optional<std::uint32_t> granted() { return std::exchange(answer_, std::nullopt); }

  // What comes is ignored, and what has come.
  void give_up() {
    asked_.reset();
    answer_.reset();
  }
  void tell_late(Round round, Turn& turn) {
    give_up();
    late_ = Late{round};
    send_late(turn);
  }

  Time rtt() const { return rtt_; }  // of the last question; 0: none is answered yet
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
        // Else it was sent to the state server of another view.
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

  // Those that can be, in order of rank; the others when it is known, or due.
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
    // Not before it: rounded up.
    if (next) turn.set_timer(*this, kDue, std::max(from_seconds(*next) + Time{1}, turn.now()));
  }

  void meet(const Turn& turn) {
    std::set<Rank> training;
    for (const Rank rank : live_with(Role::worker, turn.place(), turn.view()))
      if (!absent_.contains(rank)) training.insert(rank);
    reach_.members(std::move(training));
  }

  ReachTime reach_;         // at the state server: questions come in order, once
  std::set<Rank> waiting_;  // for an answer
  // Workers that have come back or are late, and have asked nothing since: who takes no steps of
  // the round is waited for by none.
  std::set<Rank> absent_;
  const bool with_delay_;
  std::optional<Query> asked_;
  std::optional<Late> late_;  // until this worker asks again
  Rank asks_ = 0;             // whom
  std::optional<std::uint32_t> answer_;
  Time since_{0};
  Time rtt_{0};
};

}  // namespace longhaul::sync::esync
