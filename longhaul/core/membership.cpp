#include "longhaul/core/membership.h"

#include <algorithm>
#include <cmath>

namespace longhaul {
namespace {
constexpr std::size_t kHistory = 64;
constexpr TimerId kRetry{1}, kLetIn{2};
constexpr std::uint32_t kTriesWithoutMajority = 5;
constexpr std::size_t kMostNamed = 8;
}  // namespace

Membership::Membership(const Place& place, Time retry, Time let_in)
    : retry_(retry), let_in_(let_in), members_(place.members), outside_(place.comes_back()) {
  view_.founders = place.size();
  view_.live = place.members.all();
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
  if (excluded_ || peer == turn.self() || !(outside_ || view_.has(peer))) return;
  unreachable ? (void)unreachable_.insert(peer) : (void)unreachable_.erase(peer);
  propose(turn);
}

void Membership::on_returned(Rank peer, Turn& turn) {
  if (excluded_ || outside_ || view_.has(peer) || peer >= members_->size()) return;
  calling_.insert(peer);
  propose(turn);
}

void Membership::on_start(Turn& turn) {
  if (outside_) turn.set_timer(*this, kLetIn, turn.now() + let_in_);
}

void Membership::propose(Turn& turn) {
  if (outside_) return;
  proposing_ = !(unreachable_.empty() && calling_.empty()) && !excluded_;
  if (!proposing_) {
    waits_ = 0;
    return turn.cancel_timer(*this, kRetry);
  }
  const std::vector<Rank> left = reachable();
  // Later ranks wait longer, so that two proposers do not keep overtaking each other.
  const auto turn_in_line =
      std::uint32_t(std::find(left.begin(), left.end(), turn.self()) - left.begin());
  turn.set_timer(*this, kRetry, turn.now() + retry_ + retry_ / 4 * turn_in_line);
  // Those before it in line may reach everybody, and see no reason to propose.
  if (turn_in_line > waits_) return;
  mine_ = {++highest_seen_, turn.self()};
  best_ = {};
  wanted_.clear();
  std::set_union(left.begin(), left.end(), calling_.begin(), calling_.end(),
                 std::back_inserter(wanted_));
  promises_.clear();
  accepts_.clear();
  tell_all(Prepare{view_.epoch + 1, mine_}, turn);
}

void Membership::on_timer(TimerId id, Turn& turn) {
  if (id == kLetIn && outside_)
    return turn.fail("the other sites have not let this one in within " +
                     std::to_string(std::llround(seconds(let_in_))) + " s");
  if (!proposing_) return;
  ++waits_;
  tries_ = reachable().size() < majority() ? tries_ + 1 : 0;
  if (tries_ >= kTriesWithoutMajority) return turn.fail("lost " + waiting_for());
  propose(turn);
}

bool Membership::is_old(Rank from, Epoch epoch, Turn& turn) {
  if (epoch == view_.epoch + 1) return false;
  if (auto past = history_.find(epoch); past != history_.end())
    turn.send(from, decided(past->second), {}, kControl);
  return true;  // or of an epoch this node has not reached: whoever decided it tells all
}

Status Membership::check_list(const std::vector<Rank>& live) const {
  const bool ascending =
      std::adjacent_find(live.begin(), live.end(), std::greater_equal<>()) == live.end();
  if (live.empty() || !ascending || live.back() >= members_->size())
    return malformed("a list of members that is empty or not of this job");
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
  if (outside_) return be_let_in(m, turn);
  if (m.epoch != view_.epoch + 1) return Ok{};
  LH_TRY(check_list(m.live));
  decide(m.live, turn);
  return Ok{};
}

// Everybody who learns of a decision tells all once: the proposer may die while telling. (Not who
// is let in by it.)
void Membership::decide(const std::vector<Rank>& live, Turn& turn) {
  const View before =
      std::exchange(view_, View{view_.epoch + 1, live, view_.returned, view_.founders});
  std::erase_if(view_.returned, [this](const auto& entry) { return !view_.has(entry.first); });
  for (Rank rank : live)
    if (!before.has(rank)) view_.returned[rank] = view_.epoch;
  std::vector<Rank> hear;  // the living, and those who are to know that they are not
  std::set_union(before.live.begin(), before.live.end(), live.begin(), live.end(),
                 std::back_inserter(hear));
  for (Rank rank : hear)
    if (rank != turn.self()) turn.send(rank, decided(view_), {}, kControl);
  history_[view_.epoch] = view_;
  if (history_.size() > kHistory) history_.erase(history_.begin());
  excluded_ = !view_.has(turn.self());
  std::erase_if(unreachable_, [this](Rank rank) { return !view_.has(rank); });
  std::erase_if(calling_, [this](Rank rank) { return view_.has(rank); });
  promised_ = accepted_ = mine_ = best_ = {};
  accepted_live_.clear();
  promises_.clear();
  accepts_.clear();
  tries_ = waits_ = 0;
  if (excluded_) return turn.fail("the other sites have declared this one lost; restart it");
  propose(turn);
}

Membership::Decided Membership::decided(const View& view) {
  Decided decided{view.epoch, view.live, {}, view.founders};
  for (const auto& [rank, epoch] : view.returned) decided.returned.push_back({rank, epoch});
  return decided;
}

// The list that brings this node back is where it begins; any other speaks of others, or of the
// incarnation before.
Status Membership::be_let_in(const Decided& m, Turn& turn) {
  LH_TRY(check_list(m.live));
  if (m.founders == 0 || m.founders > members_->size())
    return malformed("a run that began with no node, or with more than the job has");
  View view{m.epoch, m.live, {}, m.founders};
  for (const Return& back : m.returned)
    if (view.has(back.rank)) view.returned[back.rank] = back.epoch;
  if (!view.has(turn.self()) || view.since(turn.self()) != m.epoch) return Ok{};
  outside_ = false;
  turn.cancel_timer(*this, kLetIn);
  view_ = history_[m.epoch] = std::move(view);
  std::erase_if(unreachable_, [this](Rank rank) { return !view_.has(rank); });
  propose(turn);
  return Ok{};
}

Status Membership::on_message(Rank from, const Message& message, Turn& turn) {
  if (excluded_ || (outside_ && message.kind != Decided::kKind)) return Ok{};
  return dispatch(Messages{}, message,
                  [&](const auto& m) -> Status { return take(from, m, turn); });
}

std::string Membership::waiting_for() const {
  if (outside_) return "the other sites to let it in";
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
  if (view_.live.size() == 2)
    text += "; a third site with roles = [\"witness\"] would let one of two go on";
  return text;
}

void Membership::state(Archive& ar) {
  ar(view_, history_, unreachable_, calling_, excluded_, outside_, promised_, accepted_,
     accepted_live_, proposing_, mine_, best_, wanted_, promises_, accepts_, highest_seen_, tries_,
     waits_);
}

}  // namespace longhaul
