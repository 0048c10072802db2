#include "longhaul/sync/esync_states.h"

namespace longhaul::sync::esync {

Rank States::server(const Place& place, const View& view) {
  for (const Role role : {Role::state_server, Role::server, Role::worker})
    if (const auto there = live_with(role, place, view); !there.empty()) return there.front();
  return view.lowest();
}

void States::ask(const Standing& s, Turn& turn) {
  asked_ = {s.round, s.steps, s.ahead, s.step_s, s.push_s, seconds(rtt_)};
  answer_.reset();
  late_.reset();
  send_query(turn);
}

void States::tell_late(Round round, Turn& turn) {
  give_up();
  late_ = Late{round};
  send_late(turn);
}

void States::send_late(Turn& turn) {
  asks_ = server(turn.place(), turn.view());
  turn.send(asks_, *late_, {}, kControl);
}

void States::send_query(Turn& turn) {
  since_ = turn.now();
  asks_ = server(turn.place(), turn.view());
  turn.send(asks_, *asked_, {}, kControl);
}

void States::on_start(Turn& turn) {
  for (const auto& [rank, epoch] : turn.view().returned) absent_.insert(rank);
  meet(turn);
}

std::optional<std::uint32_t> States::granted() { return std::exchange(answer_, std::nullopt); }

Status States::on_message(Rank from, const Message& message, Turn& turn) {
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

Status States::take(Rank from, const Query& m, Turn& turn) {
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

Status States::take(Rank from, const Late&, Turn& turn) {
  absent_.insert(from);
  waiting_.erase(from);
  meet(turn);
  answer_all(turn);
  return Ok{};
}

void States::on_view(const View&, Turn& turn) {
  for (const auto& [rank, epoch] : turn.view().returned)
    if (epoch == turn.view().epoch) absent_.insert(rank);
  meet(turn);
  std::erase_if(waiting_,
                [&](Rank rank) { return !turn.view().has(rank) || absent_.contains(rank); });
  answer_all(turn);
  if (asked_ && server(turn.place(), turn.view()) != asks_) send_query(turn);
  if (late_ && server(turn.place(), turn.view()) != asks_) send_late(turn);
}

void States::meet(const Turn& turn) {
  std::set<Rank> training;
  for (const Rank rank : live_with(Role::worker, turn.place(), turn.view()))
    if (!absent_.contains(rank)) training.insert(rank);
  reach_.members(std::move(training));
}

// Those that can be, in order of rank; the others when it is known, or due.
void States::answer_all(Turn& turn) {
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

std::string States::waiting_for() const {
  return asked_ ? "a grant of rank " + std::to_string(asks_) + ", the state server" : "";
}

void States::state(Archive& ar) {
  ar(reach_, waiting_, absent_, asked_, late_, asks_, answer_, since_, rtt_);
}

}  // namespace longhaul::sync::esync
