#include "longhaul/core/membership.h"

#include <algorithm>
#include <cmath>

namespace longhaul {
namespace {
constexpr std::size_t kHistory = 64;
constexpr TimerId kRetry{1}, kLetIn{2};
constexpr std::size_t kMostNamed = 8;
}  // namespace

Membership::Membership(const Place& place, std::optional<Time> wait, Time retry)
    : wait_(wait.value_or(place.majority_wait)),
      retry_(retry),
      members_(place.members),
      quorum_(place.quorum),
      outside_(place.comes_back()),
      blank_(place.comes_back()) {
  view_.founders = place.size();
  view_.live = place.members.all();
  votes_.last = decided(view_);
}

// --- votes --------------------------------------------------------------------------------------

Status Membership::remember(std::span<const std::byte> votes) {
  if (!outside_) return malformed("votes of a process before, and this one is in the run");
  auto read = from_wire<Votes>(votes);
  if (!read) return read.error();
  if (!read->live.empty()) LH_TRY(check_list(read->live));
  LH_TRY(check_list(read->last.live));
  votes_ = *std::move(read);
  blank_ = false;
  return Ok{};
}

// A blank process has nothing that the next one may count on.
std::optional<Buffer> Membership::take_votes() {
  if (!std::exchange(votes_changed_, false) || blank_) return std::nullopt;
  return to_wire(votes_);
}

// Whether the acceptor may answer for that epoch. One that is outside learns of epochs by
// proposals alone: it has voted on none that it has not heard of.
bool Membership::votes_on(Epoch epoch) {
  if (outside_ && epoch > votes_.epoch) {
    votes_ = {.epoch = epoch, .promised = {}, .accepted = {}, .live = {}, .last = votes_.last};
    votes_changed_ = true;
  }
  return epoch == votes_.epoch;
}

bool Membership::passed(const std::map<Rank, bool>& answers) const {
  if (answers.size() == view_.live.size()) return true;
  return quorum_.decides(view_.live, [&](Rank rank) {
    const auto answer = answers.find(rank);
    return answer != answers.end() && answer->second;
  });
}

std::vector<Rank> Membership::reachable() const {
  std::vector<Rank> ranks;
  for (Rank rank : view_.live)
    if (!unreachable_.contains(rank) && !ended_.contains(rank)) ranks.push_back(rank);
  return ranks;
}

bool Membership::has_quorum() const {
  return quorum_.decides(view_.live, [this](Rank rank) { return !unreachable_.contains(rank); });
}

template <class M>
void Membership::tell_all(const M& message, Turn& turn) {
  for (Rank rank : view_.live) turn.send(rank, message, {}, kControl);
}

void Membership::on_reachability(Rank peer, bool unreachable, Turn& turn) {
  if (excluded_ || peer == turn.self()) return;
  if (unreachable) calling_.erase(peer);
  if (!outside_ && !view_.has(peer)) return;
  const bool had_quorum = has_quorum();
  unreachable ? (void)unreachable_.insert(peer) : (void)unreachable_.erase(peer);
  if (!outside_ && !had_quorum && has_quorum() && !not_before_)
    not_before_ = turn.now() + retry_ * 3 / 2;
  propose(turn);
}

void Membership::on_returned(Rank peer, Turn& turn) {
  if (excluded_ || outside_ || closed_ || peer >= members_->size()) return;
  calling_.insert(peer);
  if (view_.has(peer)) ended_.insert(peer);
  unreachable_.erase(peer);
  propose(turn);
}

void Membership::close() {
  closed_ = true;
  calling_.clear();
  mine_ = {};
}

void Membership::on_start(Turn& turn) {
  if (outside_) turn.set_timer(*this, kLetIn, turn.now() + wait_);
}

void Membership::propose(Turn& turn) {
  if (outside_) return;
  // What was proposed before may be wrong by now, and be answered late.
  mine_ = {};
  proposing_ = !(unreachable_.empty() && calling_.empty() && ended_.empty()) && !excluded_;
  if (!proposing_) {
    waits_ = 0;
    open_since_.reset();
    not_before_.reset();
    return turn.cancel_timer(*this, kRetry);
  }
  if (!open_since_) open_since_ = turn.now();
  const std::vector<Rank> left = reachable();
  // Later ranks wait longer, so that two proposers do not keep overtaking each other.
  const auto turn_in_line =
      std::uint32_t(std::find(left.begin(), left.end(), turn.self()) - left.begin());
  const bool held = not_before_ && turn.now() < *not_before_ && ended_.empty();
  turn.set_timer(*this, kRetry,
                 held ? *not_before_ : turn.now() + retry_ + retry_ / 4 * turn_in_line);
  // Those before it in line may reach everybody, and see no reason to propose.
  if (turn_in_line > waits_ || held || !has_quorum()) return;
  mine_ = {++highest_seen_, turn.self()};
  best_ = {};
  wanted_.clear();
  std::vector<Rank> back;
  std::ranges::set_difference(calling_, ended_, std::back_inserter(back));
  std::ranges::set_union(left, back, std::back_inserter(wanted_));
  promises_.clear();
  accepts_.clear();
  asked_ = false;
  tell_all(Prepare{view_.epoch + 1, mine_}, turn);
}

void Membership::on_timer(TimerId id, Turn& turn) {
  const std::string waited = std::to_string(std::llround(seconds(wait_))) + " s";
  if (id == kLetIn && outside_)
    return turn.fail("the other sites have not let this one in within " + waited);
  if (!proposing_) return;
  ++waits_;
  if (turn.now() - *open_since_ >= wait_)
    return turn.fail("lost " + named(unreachable_) + " for " + waited + "; " + needs());
  propose(turn);
}

bool Membership::is_old(Rank from, Epoch epoch, Turn& turn) {
  if (votes_on(epoch)) return false;
  if (outside_ && epoch == votes_.last.epoch) turn.send(from, votes_.last, {}, kControl);
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
  if (m.ballot < votes_.promised) return Ok{};
  votes_.promised = m.ballot;
  votes_changed_ = true;
  turn.send(from, Promise{m.epoch, m.ballot, votes_.accepted, votes_.live, blank_}, {}, kControl);
  return Ok{};
}

Status Membership::take(Rank from, const Promise& m, Turn& turn) {
  if (is_old(from, m.epoch, turn) || mine_.number == 0 || m.ballot != mine_) return Ok{};
  if (m.accepted.number > 0) LH_TRY(check_list(m.live));
  if (m.blank && view_.has(from)) voteless_.insert(from);
  if (asked_ || !view_.has(from) || !promises_.emplace(from, !m.blank).second) return Ok{};
  if (best_ < m.accepted) {
    best_ = m.accepted;
    wanted_ = m.live;
  }
  asked_ = passed(promises_);
  if (asked_) tell_all(Accept{m.epoch, mine_, wanted_}, turn);
  return Ok{};
}

Status Membership::take(Rank from, const Accept& m, Turn& turn) {
  LH_TRY(check_list(m.live));
  if (is_old(from, m.epoch, turn)) return Ok{};
  highest_seen_ = std::max(highest_seen_, m.ballot.number);
  if (m.ballot < votes_.promised) return Ok{};
  votes_.promised = votes_.accepted = m.ballot;
  votes_.live = m.live;
  votes_changed_ = true;
  turn.send(from, Accepted{m.epoch, m.ballot, blank_}, {}, kControl);
  return Ok{};
}

Status Membership::take(Rank from, const Accepted& m, Turn& turn) {
  if (is_old(from, m.epoch, turn) || mine_.number == 0 || m.ballot != mine_) return Ok{};
  if (!asked_) return malformed("accepted what was not proposed yet");
  if (!view_.has(from) || !accepts_.emplace(from, !m.blank).second) return Ok{};
  if (passed(accepts_)) decide(std::vector(wanted_), turn);
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
  begin_epoch();
  if (excluded_) return turn.fail("the other sites have declared this one lost");
  propose(turn);
}

void Membership::begin_epoch() {
  const auto lost = [this](Rank rank) { return !view_.has(rank); };
  std::erase_if(unreachable_, lost);
  std::erase_if(ended_, lost);
  std::erase_if(calling_, [&](Rank rank) { return !lost(rank) && !ended_.contains(rank); });
  // One that was let in may have voted on a later epoch before it hears of this one.
  if (votes_.epoch <= view_.epoch)
    votes_ = {.epoch = view_.epoch + 1, .promised = {}, .accepted = {}, .live = {}, .last = {}};
  votes_.last = decided(view_);
  votes_changed_ = true;
  mine_ = {};
  voteless_.clear();
  asked_ = proposing_ = false;
  waits_ = 0;
  open_since_.reset();
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
  if (m.epoch >= votes_.epoch) {
    votes_ = {.epoch = m.epoch + 1, .promised = {}, .accepted = {}, .live = {}, .last = m};
    votes_changed_ = true;
  }
  if (m.founders == 0 || m.founders > members_->size())
    return malformed("a run that began with no node, or with more than the job has");
  View view{m.epoch, m.live, {}, m.founders};
  for (const Return& back : m.returned)
    if (view.has(back.rank)) view.returned[back.rank] = back.epoch;
  if (!view.has(turn.self()) || view.since(turn.self()) != m.epoch) return Ok{};
  outside_ = blank_ = false;
  turn.cancel_timer(*this, kLetIn);
  view_ = history_[m.epoch] = std::move(view);
  begin_epoch();
  propose(turn);
  return Ok{};
}

Status Membership::on_message(Rank from, const Message& message, Turn& turn) {
  if (excluded_) return Ok{};
  return dispatch(Messages{}, message,
                  [&](const auto& m) -> Status { return take(from, m, turn); });
}

std::string Membership::named(const std::set<Rank>& ranks) const {
  std::string text;
  std::size_t left = kMostNamed;
  for (const Rank rank : ranks) {
    if (left-- == 0) return text + " and " + std::to_string(ranks.size() - kMostNamed) + " more";
    text += (text.empty() ? "rank " : ", rank ") + std::to_string(rank) + " (" +
            members_->at(rank).site + ")";
  }
  return text;
}

// What it takes to decide without them.
std::string Membership::needs() const {
  const std::string without = voteless_.empty()
                                  ? ""
                                  : "; " + named(voteless_) +
                                        " was started again without its folder, and has no vote "
                                        "unless all members answer";
  if (!quorum_.named.empty())
    return "the part that holds site " + members_->at(quorum_.named.front()).site +
           " continues ([net] continue_with)" + without;
  std::string text = "agreement needs " + std::to_string(quorum_.needed(view_.live)) + " of the " +
                     std::to_string(view_.live.size()) + " members of epoch " +
                     std::to_string(view_.epoch) + ", this one reaches " +
                     std::to_string(view_.live.size() - unreachable_.size()) + without;
  if (view_.live.size() == 2)
    text +=
        "; a third site with roles = [\"witness\"], or [net] continue_with, would let one of two "
        "continue";
  return text;
}

std::string Membership::waiting_for() const {
  if (outside_) return "the other sites to let it in";
  if (unreachable_.empty()) return "";
  const bool decides = quorum_.decides(view_.live, [this](Rank rank) {
    return !unreachable_.contains(rank) && !voteless_.contains(rank);
  });
  return (decides ? "" : "a majority: ") + named(unreachable_) + "; " + needs();
}

void Membership::state(Archive& ar) {
  ar(view_, history_, unreachable_, ended_, calling_, excluded_, closed_, outside_, votes_, blank_,
     proposing_, mine_, best_, wanted_, promises_, accepts_, asked_, highest_seen_, waits_,
     open_since_, not_before_);
  if (!ar.loading()) return;
  votes_changed_ = true;
  // Those are other processes now.
  ended_.clear();
  calling_.clear();
}

}  // namespace longhaul
