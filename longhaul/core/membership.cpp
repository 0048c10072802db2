#include "longhaul/core/membership.h"

#include <algorithm>
#include <numeric>

namespace longhaul {
namespace {
constexpr std::size_t kHistory = 64;
constexpr TimerId kRetry{1};
constexpr std::uint32_t kTriesWithoutMajority = 5;
constexpr std::size_t kMostNamed = 8;
}  // namespace

Membership::Membership(const Place& place, Time retry) : retry_(retry), members_(place.members) {
  view_.live.resize(place.size());
  std::iota(view_.live.begin(), view_.live.end(), Rank{0});
}

std::vector<Rank> Membership::reachable() const {
  std::vector<Rank> ranks;
  for (Rank rank : view_.live)
    if (!unreachable_.contains(rank)) ranks.push_back(rank);
  return ranks;
}

template <class M>
void Membership::tell_all(const M& message, Turn& turn) {
  for (Rank rank : view_.live) turn.send(rank, message, {}, kControl);
}

void Membership::on_reachability(Rank peer, bool unreachable, Turn& turn) {
  if (excluded_ || !view_.has(peer) || peer == turn.self()) return;
  unreachable ? (void)unreachable_.insert(peer) : (void)unreachable_.erase(peer);
  propose(turn);
}

void Membership::propose(Turn& turn) {
  proposing_ = !unreachable_.empty() && !excluded_;
  if (!proposing_) {
    waits_ = 0;
    return turn.cancel_timer(kRetry);
  }
  const std::vector<Rank> left = reachable();
  // Later ranks wait longer, so that two proposers do not keep overtaking each other.
  const auto turn_in_line =
      std::uint32_t(std::find(left.begin(), left.end(), turn.self()) - left.begin());
  turn.set_timer(kRetry, turn.now() + retry_ + retry_ / 4 * turn_in_line);
  // Those before it in line may reach everybody, and see no reason to propose.
  if (turn_in_line > waits_) return;
  mine_ = {++highest_seen_, turn.self()};
  best_ = {};
  wanted_ = left;
  promises_.clear();
  accepts_.clear();
  tell_all(Prepare{view_.epoch + 1, mine_}, turn);
}

void Membership::on_timer(TimerId, Turn& turn) {
  if (!proposing_) return;
  ++waits_;
  tries_ = reachable().size() < majority() ? tries_ + 1 : 0;
  if (tries_ >= kTriesWithoutMajority) return turn.fail("lost " + waiting_for());
  propose(turn);
}

bool Membership::is_old(Rank from, Epoch epoch, Turn& turn) {
  if (epoch == view_.epoch + 1) return false;
  if (auto past = history_.find(epoch); past != history_.end())
    turn.send(from, Decided{epoch, past->second}, {}, kControl);
  return true;  // or of an epoch this node has not reached: whoever decided it tells all
}

Status Membership::check_list(const std::vector<Rank>& live) const {
  const bool ascending =
      std::adjacent_find(live.begin(), live.end(), std::greater_equal<>()) == live.end();
  if (live.empty() || !ascending ||
      !std::includes(view_.live.begin(), view_.live.end(), live.begin(), live.end()))
    return malformed("a list of members that is not a part of the last one");
  return Ok{};
}

Status Membership::take(Rank from, const Prepare& m, Turn& turn) {
  if (is_old(from, m.epoch, turn)) return Ok{};
  highest_seen_ = std::max(highest_seen_, m.ballot.number);
  if (m.ballot < promised_) return Ok{};
  promised_ = m.ballot;
  turn.send(from, Promise{m.epoch, m.ballot, accepted_, accepted_live_}, {}, kControl);
  return Ok{};
}

Status Membership::take(Rank from, const Promise& m, Turn& turn) {
  if (is_old(from, m.epoch, turn) || !proposing_ || m.ballot != mine_) return Ok{};
  if (m.accepted.number > 0) LH_TRY(check_list(m.live));
  if (!view_.has(from) || !promises_.insert(from).second) return Ok{};
  if (promises_.size() > majority()) return Ok{};  // the list is out already
  if (best_ < m.accepted) {
    best_ = m.accepted;
    wanted_ = m.live;
  }
  if (promises_.size() == majority()) tell_all(Accept{m.epoch, mine_, wanted_}, turn);
  return Ok{};
}

Status Membership::take(Rank from, const Accept& m, Turn& turn) {
  LH_TRY(is_old(from, m.epoch, turn) ? Status(Ok{}) : check_list(m.live));
  if (m.epoch != view_.epoch + 1) return Ok{};
  highest_seen_ = std::max(highest_seen_, m.ballot.number);
  if (m.ballot < promised_) return Ok{};
  promised_ = accepted_ = m.ballot;
  accepted_live_ = m.live;
  turn.send(from, Accepted{m.epoch, m.ballot}, {}, kControl);
  return Ok{};
}

Status Membership::take(Rank from, const Accepted& m, Turn& turn) {
  if (is_old(from, m.epoch, turn) || !proposing_ || m.ballot != mine_) return Ok{};
  if (promises_.size() < majority()) return malformed("accepted what was not proposed yet");
  if (!view_.has(from) || !accepts_.insert(from).second) return Ok{};
  if (accepts_.size() == majority()) decide(std::vector(wanted_), turn);
  return Ok{};
}

Status Membership::take(Rank, const Decided& m, Turn& turn) {
  if (m.epoch != view_.epoch + 1) return Ok{};
  LH_TRY(check_list(m.live));
  decide(m.live, turn);
  return Ok{};
}

// Everybody who learns of a decision tells all once: the proposer may die while telling.
void Membership::decide(const std::vector<Rank>& live, Turn& turn) {
  const Decided decided{view_.epoch + 1, live};
  for (Rank rank : view_.live)
    if (rank != turn.self()) turn.send(rank, decided, {}, kControl);
  view_ = {decided.epoch, live};
  history_[decided.epoch] = live;
  if (history_.size() > kHistory) history_.erase(history_.begin());
  excluded_ = !view_.has(turn.self());
  std::erase_if(unreachable_, [this](Rank rank) { return !view_.has(rank); });
  promised_ = accepted_ = mine_ = best_ = {};
  accepted_live_.clear();
  promises_.clear();
  accepts_.clear();
  tries_ = waits_ = 0;
  if (excluded_) return turn.fail("the other sites have declared this one lost; restart it");
  propose(turn);
}

Status Membership::on_message(Rank from, const Message& message, Turn& turn) {
  if (excluded_) return Ok{};
  return dispatch(Messages{}, message,
                  [&](const auto& m) -> Status { return take(from, m, turn); });
}

std::string Membership::waiting_for() const {
  if (unreachable_.empty()) return "";
  std::string text;
  std::size_t named = 0;
  for (Rank rank : unreachable_)
    if (named++ < kMostNamed)
      text += (text.empty() ? "rank " : ", rank ") + std::to_string(rank) + " (" +
              members_->at(rank).site + ")";
  if (named > kMostNamed) text += " and " + std::to_string(named - kMostNamed) + " more";
  text += "; agreement needs " + std::to_string(majority()) + " of the " +
          std::to_string(view_.live.size()) + " members of epoch " + std::to_string(view_.epoch) +
          ", this one reaches " + std::to_string(reachable().size());
  return text;
}

void Membership::state(Archive& ar) {
  ar(view_, history_, unreachable_, excluded_, promised_, accepted_, accepted_live_, proposing_,
     mine_, best_, wanted_, promises_, accepts_, highest_seen_, tries_, waits_);
}

}  // namespace longhaul
