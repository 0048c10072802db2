#pragma once
// Membership agrees by messages alone on the list of nodes in the job. It is the same in all hosts.
//
// The members agree on numbered epochs, each with one list. All nodes see the lists in order. The
// members of epoch e decide epoch e+1 by single-decree Paxos (Lamport, "Paxos made simple", 2001).
// The lowest reachable member (if it stays silent, the next) proposes the list without the members
// that it cannot reach. A quorum of epoch e (core/quorum.h) must promise and accept. So two parts
// of a partitioned network never decide differently. Without a reachable quorum the members keep
// their state and wait; after Place::majority_wait they fail. A node declared lost but alive is
// refused and must return with a new incarnation.
//
// A process that ends loses its model, but not its votes. The host keeps the votes (take_votes) and
// passes them to the next process (remember), which uses them until a list admits it. A process
// without votes is blank. Its answer counts only if every member answers: then no list is missed
// that a live member or a kept vote knows.
//
// A member's process is replaced in two epochs: the first removes the former process from the list,
// the second adds the new one.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "longhaul/core/machine.h"
#include "longhaul/core/quorum.h"

namespace longhaul {

class Membership final : public Machine {
  static constexpr std::size_t kHistory = 64;
  static constexpr TimerId kRetry{1}, kLetIn{2};
  static constexpr std::size_t kMostNamed = 8;

 public:
  // A ballot orders proposals for one epoch; unique by its proposer.
  struct Ballot {
    std::uint64_t number = 0;  // 0: none
    Rank proposer = 0;
    friend auto operator<=>(const Ballot&, const Ballot&) = default;
    LONGHAUL_FIELDS(number, proposer)
  };
  struct Prepare {
    LONGHAUL_MESSAGE(1, "prepare");
    Epoch epoch = 0;
    Ballot ballot;
    LONGHAUL_FIELDS(epoch, ballot)
  };
  struct Promise {
    LONGHAUL_MESSAGE(2, "promise");
    Epoch epoch = 0;
    Ballot ballot;
    Ballot accepted;         // number 0: nothing accepted yet
    std::vector<Rank> live;  // the list accepted
    bool blank = false;      // accepted lists of the previous process are unknown
    LONGHAUL_FIELDS(epoch, ballot, accepted, live, blank)
  };
  struct Accept {
    LONGHAUL_MESSAGE(3, "accept");
    Epoch epoch = 0;
    Ballot ballot;
    std::vector<Rank> live;
    LONGHAUL_FIELDS(epoch, ballot, live)
  };
  struct Accepted {
    LONGHAUL_MESSAGE(4, "accepted");
    Epoch epoch = 0;
    Ballot ballot;
    bool blank = false;
    LONGHAUL_FIELDS(epoch, ballot, blank)
  };
  struct Return {  // entry of View::returned
    Rank rank = 0;
    Epoch epoch = 0;
    LONGHAUL_FIELDS(rank, epoch)
  };
  struct Decided {  // also the answer to messages of a decided epoch
    LONGHAUL_MESSAGE(5, "decided");
    Epoch epoch = 0;
    std::vector<Rank> live;
    std::vector<Return> returned = {};  // members of `live`; for nodes that return with this list
    std::uint32_t founders = 0;         // see View::founders; for the same nodes
    LONGHAUL_FIELDS(epoch, live, returned, founders)
  };
  using Messages = MessageList<Prepare, Promise, Accept, Accepted, Decided>;

  // Durable state of an acceptor.
  struct Votes {
    Epoch epoch = 1;  // the open epoch
    Ballot promised, accepted;
    std::vector<Rank> live;  // the list accepted
    Decided last;            // previous epoch
    LONGHAUL_FIELDS(epoch, promised, accepted, live, last)
  };

  static constexpr Time kShortWait = std::chrono::seconds(10);
  // Epoch 0 is all members of the job. `wait`: a member without a quorum in reach, or a returned
  // node that no list admits, fails after this time; default: Place::majority_wait. `retry`: the
  // time until a proposal without progress is repeated.
  explicit Membership(const Place& place, std::optional<Time> wait = {},
                      Time retry = std::chrono::seconds(2))
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

  const View& view() const { return view_; }
  bool excluded() const { return excluded_; }  // this node was declared lost
  bool outside() const { return outside_; }    // returned, and in no list yet
  // The process of that member has ended, and a new one has called.
  bool has_ended(Rank rank) const { return ended_.contains(rank); }
  // Returns true if the reachable members form a quorum.
  bool has_quorum() const {
    return quorum_.decides(view_.live, [this](Rank rank) { return !unreachable_.contains(rank); });
  }

  // Returns "" if nothing is open.
  std::string waiting_for() const {
    if (outside_) return "the other sites to let it in";
    if (unreachable_.empty()) return "";
    const bool decides = quorum_.decides(view_.live, [this](Rank rank) {
      return !unreachable_.contains(rank) && !voteless_.contains(rank);
    });
    return (decides ? "" : "a majority: ") + named(unreachable_) + "; " + needs();
  }

  // Takes the votes of the former process; before on_start, at a returned node only.
  Status remember(std::span<const std::byte> votes) {
    if (!outside_) return malformed("votes of a process before, and this one is in the run");
    auto read = from_wire<Votes>(votes);
    if (!read) return read.error();
    if (!read->live.empty()) LH_TRY(check_list(read->live));
    LH_TRY(check_list(read->last.live));
    votes_ = *std::move(read);
    blank_ = false;
    return Ok{};
  }

  // Returns the votes if they have changed since the last call. The host must keep them before any
  // message that was sent after the change. A blank process has no votes for its successor.
  std::optional<Buffer> take_votes() {
    if (!std::exchange(votes_changed_, false) || blank_) return std::nullopt;
    return to_wire(votes_);
  }

  // Called when the run has ended at this node, which then admits no returned nodes.
  void close() {
    closed_ = true;
    calling_.clear();
    mine_ = {};
  }

  // Called by the host through the Node.
  void on_reachability(Rank peer, bool unreachable, Turn& turn) {
    if (excluded_ || peer == turn.self()) return;
    if (unreachable) calling_.erase(peer);
    if (!outside_ && !view_.has(peer)) return;
    const bool had_quorum = has_quorum();
    unreachable ? (void)unreachable_.insert(peer) : (void)unreachable_.erase(peer);
    if (!outside_ && !had_quorum && has_quorum() && !not_before_)
      not_before_ = turn.now() + retry_ * 3 / 2;
    propose(turn);
  }

  // Called when a new process of that node has called and the previous one has ended.
  void on_returned(Rank peer, Turn& turn) {
    if (excluded_ || outside_ || closed_ || peer >= members_->size()) return;
    calling_.insert(peer);
    if (view_.has(peer)) ended_.insert(peer);
    unreachable_.erase(peer);
    propose(turn);
  }

  void on_start(Turn& turn) override {
    if (outside_) turn.set_timer(*this, kLetIn, turn.now() + wait_);
  }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    if (excluded_) return Ok{};
    return dispatch(Messages{}, message,
                    [&](const auto& m) -> Status { return take(from, m, turn); });
  }

  void on_timer(TimerId id, Turn& turn) override {
    const std::string waited = std::to_string(std::llround(seconds(wait_))) + " s";
    if (id == kLetIn && outside_)
      return turn.fail("the other sites have not let this one in within " + waited);
    if (!proposing_) return;
    ++waits_;
    if (turn.now() - *open_since_ >= wait_)
      return turn.fail("lost " + named(unreachable_) + " for " + waited + "; " + needs());
    propose(turn);
  }

  void state(Archive& ar) override {
    ar(view_, history_, unreachable_, ended_, calling_, excluded_, closed_, outside_, votes_,
       blank_, proposing_, mine_, best_, wanted_, promises_, accepts_, asked_, highest_seen_,
       waits_, open_since_, not_before_);
    if (!ar.loading()) return;
    votes_changed_ = true;
    // The nodes have new processes now.
    ended_.clear();
    calling_.clear();
  }

 private:
  Status take(Rank from, const Prepare& m, Turn& turn) {
    if (is_old(from, m.epoch, turn)) return Ok{};
    highest_seen_ = std::max(highest_seen_, m.ballot.number);
    if (m.ballot < votes_.promised) return Ok{};
    votes_.promised = m.ballot;
    votes_changed_ = true;
    turn.send(from, Promise{m.epoch, m.ballot, votes_.accepted, votes_.live, blank_}, {}, kControl);
    return Ok{};
  }

  Status take(Rank from, const Promise& m, Turn& turn) {
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

  Status take(Rank from, const Accept& m, Turn& turn) {
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

  Status take(Rank from, const Accepted& m, Turn& turn) {
    if (is_old(from, m.epoch, turn) || mine_.number == 0 || m.ballot != mine_) return Ok{};
    if (!asked_) return malformed("accepted what was not proposed yet");
    if (!view_.has(from) || !accepts_.emplace(from, !m.blank).second) return Ok{};
    if (passed(accepts_)) decide(std::vector(wanted_), turn);
    return Ok{};
  }

  Status take(Rank, const Decided& m, Turn& turn) {
    if (outside_) return be_let_in(m, turn);
    if (m.epoch != view_.epoch + 1) return Ok{};
    LH_TRY(check_list(m.live));
    decide(m.live, turn);
    return Ok{};
  }

  Status check_list(const std::vector<Rank>& live) const {
    const bool ascending = std::ranges::adjacent_find(live, std::greater_equal<>()) == live.end();
    if (live.empty() || !ascending || live.back() >= members_->size())
      return malformed("a list of members that is empty or not of this job");
    return Ok{};
  }

  // Begins with the list that returns this node. Any other list is about other nodes or the
  // previous incarnation.
  Status be_let_in(const Decided& m, Turn& turn) {
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

  static Decided decided(const View& view) {
    Decided decided{view.epoch, view.live, {}, view.founders};
    for (const auto& [rank, epoch] : view.returned) decided.returned.push_back({rank, epoch});
    return decided;
  }

  bool is_old(Rank from, Epoch epoch, Turn& turn) {
    if (votes_on(epoch)) return false;
    if (outside_ && epoch == votes_.last.epoch) turn.send(from, votes_.last, {}, kControl);
    if (auto past = history_.find(epoch); past != history_.end())
      turn.send(from, decided(past->second), {}, kControl);
    return true;  // or a future epoch: the deciding nodes send it
  }

  // Returns true if the acceptor may answer for that epoch. An acceptor outside the list learns of
  // epochs only from proposals: it has voted on no epoch that it does not know.
  bool votes_on(Epoch epoch) {
    if (outside_ && epoch > votes_.epoch) {
      votes_ = {.epoch = epoch, .promised = {}, .accepted = {}, .live = {}, .last = votes_.last};
      votes_changed_ = true;
    }
    return epoch == votes_.epoch;
  }

  std::vector<Rank> reachable() const {
    return those_of(view_.live, [&](Rank rank) {
      return !unreachable_.contains(rank) && !ended_.contains(rank);
    });
  }

  bool passed(const std::map<Rank, bool>& answers) const {
    if (answers.size() == view_.live.size()) return true;
    return quorum_.decides(view_.live, [&](Rank rank) {
      const auto answer = answers.find(rank);
      return answer != answers.end() && answer->second;
    });
  }

  void propose(Turn& turn) {
    if (outside_) return;
    // The earlier proposal may be wrong by now, and its answers late.
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
    const auto turn_in_line = std::uint32_t(std::ranges::find(left, turn.self()) - left.begin());
    const bool held = not_before_ && turn.now() < *not_before_ && ended_.empty();
    turn.set_timer(*this, kRetry,
                   held ? *not_before_ : turn.now() + retry_ + retry_ / 4 * turn_in_line);
    // The nodes before it may reach all members, and see no reason to propose.
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

  // Applies a decision. Each node that learns of it sends it to all once, except a node that it
  // admits: the proposer may fail while sending.
  void decide(const std::vector<Rank>& live, Turn& turn) {
    const View before =
        std::exchange(view_, View{view_.epoch + 1, live, view_.returned, view_.founders});
    std::erase_if(view_.returned, [this](const auto& entry) { return !view_.has(entry.first); });
    for (Rank rank : live)
      if (!before.has(rank)) view_.returned[rank] = view_.epoch;
    std::vector<Rank> hear;  // live nodes, and nodes that must learn of their loss
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

  void begin_epoch() {
    const auto lost = [this](Rank rank) { return !view_.has(rank); };
    std::erase_if(unreachable_, lost);
    std::erase_if(ended_, lost);
    std::erase_if(calling_, [&](Rank rank) { return !lost(rank) && !ended_.contains(rank); });
    // A newly admitted node may have voted on a later epoch before it receives this one.
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

  std::string named(const std::set<Rank>& ranks) const {
    std::string text;
    std::size_t left = kMostNamed;
    for (const Rank rank : ranks) {
      if (left-- == 0) return text + " and " + std::to_string(ranks.size() - kMostNamed) + " more";
      text += (text.empty() ? "rank " : ", rank ") + std::to_string(rank) + " (" +
              members_->at(rank).site + ")";
    }
    return text;
  }

  // Returns what a decision without the unreachable members needs.
  std::string needs() const {
    const std::string without = voteless_.empty()
                                    ? ""
                                    : "; " + named(voteless_) +
                                          " was started again without its folder, and has no vote "
                                          "unless all members answer";
    if (!quorum_.named.empty())
      return "the part that holds site " + members_->at(quorum_.named.front()).site +
             " continues ([net] continue_with)" + without;
    std::string text = "agreement needs " + std::to_string(quorum_.needed(view_.live)) +
                       " of the " + std::to_string(view_.live.size()) + " members of epoch " +
                       std::to_string(view_.epoch) + ", this one reaches " +
                       std::to_string(view_.live.size() - unreachable_.size()) + without;
    if (view_.live.size() == 2)
      text +=
          "; a third site with roles = [\"witness\"], or [net] continue_with, would let one of two "
          "continue";
    return text;
  }

  void tell_all(const auto& message, Turn& turn) {
    for (Rank rank : view_.live) turn.send(rank, message, {}, kControl);
  }

  const Time wait_, retry_;
  const std::shared_ptr<const Members> members_;
  const Quorum quorum_;
  View view_;
  std::map<Epoch, View> history_;  // the last kHistory, for nodes that are behind
  std::set<Rank> unreachable_;     // members of the view
  std::set<Rank> ended_;           // in the view, but their processes have ended
  std::set<Rank> calling_;         // returned, for the next list
  bool excluded_ = false, closed_ = false;
  bool outside_;
  // As an acceptor, for epoch view_.epoch + 1; while outside, for the epoch of the last proposal.
  Votes votes_;
  bool votes_changed_ = true;
  bool blank_ = false;  // without the votes of the former process
  // As a proposer of that epoch.
  bool proposing_ = false;
  Ballot mine_, best_;
  std::vector<Rank> wanted_;
  std::map<Rank, bool> promises_, accepts_;  // by rank: the member knows its earlier votes
  std::set<Rank> voteless_;                  // members of the view without their earlier votes
  bool asked_ = false;                       // the list was sent
  std::uint64_t highest_seen_ = 0;
  std::uint32_t waits_ = 0;         // retries for the next epoch
  std::optional<Time> open_since_;  // time since the last decision
  // No proposal before this time: contact is returning, and suspicions may end soon.
  std::optional<Time> not_before_;
};

}  // namespace longhaul
