#pragma once
// A Group is a set of workers that form means among themselves. Groups of one overlay are
// independent of each other: each has its own rounds, epoch, attempts and recovery. AgreedMean
// (agreed.h) owns a node's groups and gives them their inputs.
//
// Epochs. The epoch of a group is the newest view in which one of its members, or a server, was
// lost or returned. It is a function of the views and the members alone, so it is equal at all
// members, whichever newer view they have reached. A view that changes no member of the group
// leaves its epoch, and its attempts continue. A message of a later epoch than this node's cannot
// arrive: the Node holds messages of a later view until it has that view.
//
// Recovery. In a new epoch attempts end, and all members report the number of rounds whose mean
// they have. With all reports in: if any has the mean of the round, the others fetch it from the
// lowest such rank. If none has it, all repeat with the same values. Every live member with the
// mean reports it; a member without it is frozen until all reports are in. A member contributes to
// round r+1 only after it has the mean of r. So a piece of the mean of r+1 proves that no member
// will fetch r again.
//
// Rejoin. A returned node knows nothing: it takes part from the round in the others' reports, and
// starts again in every epoch until it has had a mean (below). It is no member of a group that was
// made before it returned (core/group_number.h).
//
// Lengths. Before this node begins the exchange of a range, its peers may announce it with unlike
// lengths. Each length has an exchange of its own here, so that a wrong one spoils no other;
// without plans, the first one alone. The length that this node begins with decides; at a server,
// that of most members. The others end.
//
// End. A member that has closed the group answers reports and fetches. It keeps the last mean until
// all live members have closed the group; then its owner drops the Group.
#include <algorithm>

#include "longhaul/core/group_number.h"
#include "longhaul/overlay/exchange.h"
#include "longhaul/overlay/messages.h"

namespace longhaul::overlay {

class Group {
  static constexpr std::size_t kMostRanges = 64;

  static auto* first_of(auto& exchanges, std::uint32_t range) {
    const auto at = exchanges.lower_bound(range);
    return at == exchanges.end() || at->first != range ? nullptr : &at->second;
  }

 public:
  // `members`: workers of the job, live or lost, ascending. Group 0 has all.
  Group(Common& common, std::uint32_t number, RankList members) : common_(common), number_(number) {
    team_.self = common.place.self;
    team_.workers = std::move(members);
    if (team_.workers != common.workers) team_.name = to_bits(team_.workers);
    form_team();
  }

  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // --- the owner of the overlay
  Status begin(const VectorId& key, const Contribution& given, Turn& turn) {
    LH_CHECK(team_.takes_part() && !closed_);
    LH_LET(found, exchange(key, given.length, given.exact, {}));
    decide(key.range, *found, turn);
    opener_.reset();
    const bool again = found->begun();
    if (given.knows_round && found->is_told() && !again && found->next() != key.round) {
      found->end_attempts();  // no report yet, or a wrong one
      found->follow(key.round);
    }
    found->begin(key.round, given);
    if (!again && !frozen()) found->contribute(turn);
    return Ok{};
  }

  std::optional<Round> next_round(std::uint32_t range) const {
    const Exchange* exchange = find(range);
    if (exchange && !exchange->is_told()) return exchange->next();
    if (common_.newcomer() && (team_.epoch == 0 || frozen())) return std::nullopt;
    return told(range);
  }

  void close() {  // tell_closed() follows
    for (const auto& [range, exchange] : exchanges_) LH_CHECK(!exchange.begun());
    closed_ = true;
  }

  // "": nothing
  std::string waiting_for() const {
    if (frozen())
      return (number_ == 0 ? "" : "group " + std::to_string(number_) + ", ") + "epoch " +
             std::to_string(team_.epoch) + ": reports of " +
             named_ranks({awaiting_reports_.begin(), awaiting_reports_.end()});
    for (const auto& [range, exchange] : exchanges_) {
      if (!exchange.begun()) continue;
      return exchange.waiting_for() + (number_ == 0 && range == 0
                                           ? ""
                                           : " (group " + std::to_string(number_) + ", range " +
                                                 std::to_string(range) + ")");
    }
    return "";
  }

  // --- inputs
  Status take(Rank from, const Announcement& share, Turn& turn) {
    LH_TRY(check_members(from, share.members));
    if (common_.newcomer()) LH_TRY(follow(share, from));
    LH_LET(is_late, this->is_late(share.epoch, share.vector, find(share)));
    if (is_late) return late(share.vector.round, turn);
    if (!team_.takes_part() && team_.server != team_.self)
      return malformed("share for a node without a part in this exchange");
    if (closed_) return malformed("share for a group that is closed");
    LH_LET(found, exchange(share.vector, share.length, share.exact, from));
    LH_TRY(found->take(from, share, turn));
    const bool serves = !team_.takes_part();
    if (serves && 2 * found->announced() > team_.members.size())
      decide(share.vector.range, *found, turn);
    return Ok{};
  }

  Status take(Rank from, const Contributors& roster, Turn& turn) {
    LH_LET(exchange, current(from, roster.epoch, roster.vector));
    return exchange ? exchange->take(from, roster, turn) : late(roster.vector.round, turn);
  }

  // Takes a note. A note to the own node stands in no queue, but a view may overtake it.
  Status take(Rank from, const AttemptMessage& note, Turn& turn) {
    if (note.vector.origin != from) return malformed("note in another's name");
    Exchange* exchange = find(note.vector.range, from);
    LH_LET(is_late, this->is_late(note.epoch, note.vector, exchange));
    if (!team_.index_of(from) && team_.server != from)
      return malformed("note of who takes no part");
    if (exchange && note.epoch == team_.epoch) return exchange->take(from, note, turn);
    if (!is_late && from != team_.self) return malformed("note without a share before");
    return late(note.vector.round, turn);
  }

  // Takes a report. A node that began nothing before this epoch answers and waits for no report: no
  // mean was formed without it. A node that has closed the group does not wait either: it has had
  // every mean.
  Status take(Rank from, const Report& report, Turn& turn) {
    LH_TRY(check_members(from, report.members));
    if (report.epoch > team_.epoch) return malformed("report of an epoch to come");
    if (report.epoch < team_.epoch) return late(0, turn);
    if (team_.epoch == 0 || !team_.takes_part() || !team_.index_of(from) || from == team_.self ||
        heard_.contains(from))
      return malformed("report that was not awaited");
    std::map<std::uint32_t, Round> rounds;
    for (const Report::Standing& standing : report.standings) {
      const Exchange* exchange = find(standing.range);
      const bool given = exchange && exchange->begun() && !exchange->held();
      const Round most = exchange ? exchange->next() + (given ? 1 : 0) : 0;
      if (standing.rounds > most && !(common_.newcomer() && (!exchange || exchange->borrowed)))
        return malformed("report of round " + std::to_string(standing.rounds) +
                         ", which lacks this node's part");
      if (!rounds.emplace(standing.range, standing.rounds).second)
        return malformed("report with a repetition");
    }
    heard_.insert(from);
    if (!reported_to_.contains(from)) this->report(from, turn);
    if (awaiting_reports_.erase(from) == 0) return Ok{};
    reports_[from] = std::move(rounds);
    if (!frozen()) resolve(turn);
    return Ok{};
  }

  Status take(Rank from, const Fetch& fetch, Turn& turn) {
    if (fetch.epoch < team_.epoch) return late(fetch.vector.round, turn);
    Exchange* exchange = find(fetch.vector.range);
    if (fetch.epoch > team_.epoch || !team_.index_of(from) || !exchange ||
        !exchange->can_give(fetch.vector))
      return malformed("fetch of a mean that is not here");
    return exchange->repair(from, turn);
  }

  Status take(Rank from, const Closed&) {
    if (!team_.workers.has(from) || number_ == 0)
      return malformed("a group closed by who is no member");
    if (team_.index_of(from) && !closed_by_.insert(from).second)
      return malformed("a group closed for the second time");
    return Ok{};
  }

  // Returns the exchange of a peer's message or piece of an attempt; null: it is late. An Error:
  // only a broken peer sends it.
  Result<Exchange*> current(Rank from, Epoch epoch, const VectorId& vector) {
    Exchange* const exchange = find(vector.range, from);
    LH_LET(is_late, this->is_late(epoch, vector, exchange));
    if (!exchange && !is_late) return malformed("message of a vector that no node has announced");
    return is_late ? nullptr : exchange;
  }

  void on_view(Turn& turn) {
    if (common_.epoch_of(team_.workers) == team_.epoch)
      return;  // none of its members was lost or returned
    for (auto& [range, exchange] : exchanges_) exchange.forget_unfinished();
    forget_borrowed();
    form_team();
    std::erase_if(closed_by_, [&](Rank rank) { return !team_.index_of(rank); });
    reports_.clear();
    awaiting_reports_.clear();
    heard_.clear();
    reported_to_.clear();
    if (!team_.takes_part()) return;
    if (closed_) return;  // members that have not closed it get answers
    recover(turn);
  }

  // Contributes where the topology held this node back, if it may now.
  void contribute_held(Turn& turn) {
    for (auto& [range, exchange] : exchanges_)
      if (exchange.begun() && exchange.held() && !frozen()) exchange.contribute(turn);
  }

  // Reports to all others, and awaits their reports.
  void recover(Turn& turn) {
    for (const Rank to : team_.others()) {
      awaiting_reports_.insert(to);
      report(to, turn);
    }
    if (!frozen()) resolve(turn);
  }

  // Sends Closed to the others, once nothing of the group is in transit. With the service of
  // announcements and pieces and behind them: nothing of the group follows from this node.
  void tell_closed(Turn& turn) {
    const auto idle = [](const auto& one) { return one.second.idle(); };
    if (!closed_ || closed_told_ || !std::ranges::all_of(exchanges_, idle)) return;
    closed_told_ = true;
    for (const Rank to : team_.others()) turn.send(to, Closed{number_}, {}, kBulk);
    if (team_.server && !team_.index_of(*team_.server))
      turn.send(*team_.server, Closed{number_}, {}, kBulk);
  }

  const GroupMembers& team() const { return team_; }
  std::multimap<std::uint32_t, Exchange>& exchanges() { return exchanges_; }  // by range
  // Returns the first exchange of the range; null: there is none.
  Exchange* find(std::uint32_t range) { return first_of(exchanges_, range); }
  bool frozen() const { return !awaiting_reports_.empty(); }
  // Returns true if all live members have closed it, or none lives: no node will ask for anything.
  bool over() const {
    if (number_ == 0) return false;
    if (!team_.takes_part() && team_.server != team_.self) return true;
    if (team_.takes_part() && !closed_told_) return false;
    return std::ranges::all_of(
        team_.members, [&](Rank rank) { return rank == team_.self || closed_by_.contains(rank); });
  }

  // Returns the exchange that the announcement fits; null: there is none.
  Exchange* find(const Announcement& share) {
    return find(share.vector.range, share.length, share.exact);
  }
  // Returns the number of exchanges that this peer has begun and this node has not, with the group
  // itself if it is one.
  std::size_t opened_by(Rank peer) const {
    std::size_t count = opener_ == peer ? 1 : 0;
    for (const auto& [range, exchange] : exchanges_) count += exchange.opener == peer ? 1 : 0;
    return count;
  }

  void set_opener(Rank peer) { opener_ = peer; }
  std::optional<Rank> opener() const { return opener_; }
  void state(Archive& ar) {
    ar(team_, opener_, awaiting_reports_, heard_, reported_to_, reports_, told_);
    ar(closed_, closed_told_, closed_by_);
    std::uint64_t count = exchanges_.size();
    ar(count);
    if (ar.loading()) exchanges_.clear();
    auto known = exchanges_.begin();
    for (std::uint64_t i = 0; i < count && !ar.failed(); ++i) {
      std::uint32_t range = ar.loading() ? 0 : known->first;
      std::uint64_t length = ar.loading() ? 0 : known->second.length();
      bool exact = !ar.loading() && known->second.exact();
      ar(range, length, exact);
      if (ar.failed() || length == 0) return ar.fail("holds an exchange without values");
      const auto exchange = this->exchange({0, number_, range}, length, exact, {});
      if (!exchange) return ar.fail("holds an exchange that does not fit the model");
      (*exchange)->state(ar);
      if (!ar.loading()) ++known;
    }
  }

 private:
  Result<Exchange*> exchange(const VectorId& key, std::uint64_t length, bool exact,
                             std::optional<Rank> opener) {
    if (Exchange* known = find(key.range, length, exact)) return known;
    const Exchange* other = opener ? find(key.range, *opener) : find(key.range);
    const bool may_be_several = common_.topology->has_plans();
    if (other && (other->decided || (opener && (other->has_announced(*opener) || !may_be_several))))
      return invalid("vectors of " + std::to_string(other->length()) + " and of " +
                     std::to_string(length) +
                     " values, or unlike codings, in one mean; run the same job on all sites");
    const auto decided = [](const auto& one) { return one.second.decided; };
    if (!opener && std::size_t(std::ranges::count_if(exchanges_, decided)) >= kMostRanges)
      return malformed("too many ranges");
    if (length == 0 || length > common_.longest_vector())
      return malformed("vector of " + std::to_string(length) + " values, longer than the model");
    const Round first = told(key.range);
    Exchange& fresh =
        exchanges_
            .emplace(std::piecewise_construct, std::forward_as_tuple(key.range),
                     std::forward_as_tuple(common_, team_, VectorId{first, number_, key.range},
                                           length, exact))
            ->second;
    fresh.borrowed = common_.newcomer() && (number_ == 0 || first > 0);
    fresh.opener = opener;
    return &fresh;
  }

  const Exchange* find(std::uint32_t range) const { return first_of(exchanges_, range); }
  Exchange* find(std::uint32_t range, std::uint64_t length, bool exact) {
    return find_if(
        range, [&](const Exchange& one) { return one.length() == length && one.exact() == exact; });
  }
  // Returns the exchange that this peer has announced; else any.
  Exchange* find(std::uint32_t range, Rank peer) {
    Exchange* announced =
        find_if(range, [&](const Exchange& one) { return one.has_announced(peer); });
    return announced ? announced : find(range);
  }
  Exchange* find_if(std::uint32_t range, auto&& is_it) {
    for (auto [at, end] = exchanges_.equal_range(range); at != end; ++at)
      if (is_it(at->second)) return &at->second;
    return nullptr;
  }

  // Ends the other exchanges of this range.
  void decide(std::uint32_t range, Exchange& right, Turn& turn) {
    if (std::exchange(right.decided, true)) return;
    for (auto [at, end] = exchanges_.equal_range(range); at != end;) {
      Exchange& one = at->second;
      if (&one == &right) {
        ++at;
        continue;
      }
      turn.record("refused", one.next(), double(one.announced()));
      one.end_attempts();
      at = exchanges_.erase(at);
    }
  }

  // Returns an Error if only a broken peer sends a message of this attempt.
  Result<bool> is_late(Epoch epoch, const VectorId& vector, const Exchange* exchange) const {
    if (epoch > team_.epoch) return malformed("message of an epoch to come");
    const Round lowest = exchange ? exchange->lowest() : told(vector.range);
    if (epoch < team_.epoch || vector.round < lowest) return true;
    if (vector.round > lowest + 1)
      return malformed("message of round " + std::to_string(vector.round) + "; a peer can be in " +
                       std::to_string(lowest) + " or in the next");
    return false;
  }

  Status check_members(Rank from, const std::vector<std::uint8_t>& members) const {
    if (members == team_.name) return Ok{};
    const auto names = [&](const std::vector<std::uint8_t>& bits) {
      return bits.empty() ? "all" : list_ranks(from_bits(bits));
    };
    return malformed("rank " + std::to_string(from) + " says that the members of group " +
                     std::to_string(number_) + " are " + names(members) + "; here they are " +
                     names(team_.name));
  }

  // Returns the workers that are live, and have been since the group was made. While all members of
  // the job live, this is the list that all nodes share.
  RankList living(const RankList& workers) const {
    const RankList& live = common_.view.live;
    if (live.shares(common_.place.members.all())) return workers;
    std::vector<Rank> ranks;
    std::set_intersection(workers.begin(), workers.end(), live.begin(), live.end(),
                          std::back_inserter(ranks));
    if (number_ != 0)
      std::erase_if(ranks, [&](Rank rank) {
        return common_.view.since(rank) > epoch_of_group(number_, common_.view.epoch);
      });
    return ranks;
  }

  void form_team() {
    team_.epoch = common_.epoch_of(team_.workers);
    if (number_ == 0) team_.founders = common_.view.founders;
    team_.members = living(team_.workers);
    team_.server = team_.members.empty() ? std::nullopt
                                         : common_.topology->server(team_.members, common_.view);
    common_.topology->on_team(number_, &team_);
  }

  // --- recovery
  void report(Rank to, Turn& turn) {
    Report report{team_.epoch, number_, team_.name, {}};
    for (const auto& [range, exchange] : exchanges_)
      if (exchange.next() > 0 && !exchange.borrowed)
        report.standings.push_back({range, exchange.next()});
    reported_to_.insert(to);
    turn.send(to, report, {}, kControl);
  }

  // Called when all survivors have reported: fetches the mean from one that has it, or repeats the
  // round.
  void resolve(Turn& turn) {
    if (common_.newcomer()) be_told();
    for (auto& [range, exchange] : exchanges_) {
      for (const auto& [rank, rounds] : reports_) {
        const auto had = rounds.find(range);
        if (exchange.fetching() || had == rounds.end() || had->second <= exchange.next()) continue;
        exchange.fetch_from(rank, turn);
      }
      if (exchange.begun() && !exchange.fetching()) exchange.contribute(turn);
    }
    reports_.clear();
  }

  // --- rejoin
  // A server gets no reports: it learns the round from announcements.
  Status follow(const Announcement& share, Rank from) {
    const bool must_hear = frozen() || !team_.takes_part();
    if (share.epoch != team_.epoch || find(share) || !must_hear) return Ok{};
    LH_LET(found, exchange(share.vector, share.length, share.exact, from));
    found->follow(share.vector.round);
    return Ok{};
  }

  void forget_borrowed() {
    std::erase_if(exchanges_, [](const auto& entry) { return entry.second.is_told(); });
    told_.clear();
  }

  void be_told() {
    for (const auto& [rank, rounds] : reports_)
      for (const auto& [range, round] : rounds) told_[range] = std::max(told_[range], round);
    for (auto& [range, exchange] : exchanges_) {
      if (!exchange.is_told() || exchange.next() == told(range)) continue;
      exchange.end_attempts();
      exchange.follow(told(range));  // an announcement was wrong
    }
  }

  Round told(std::uint32_t range) const {
    const auto it = told_.find(range);
    return it == told_.end() ? 0 : it->second;
  }

  Common& common_;
  const std::uint32_t number_;
  GroupMembers team_;
  std::multimap<std::uint32_t, Exchange> exchanges_;  // by range
  std::optional<Rank> opener_;  // rank that first sent something of it; absent: this node
  // In this epoch: ranks whose reports are awaited or have arrived, and ranks that have this
  // node's.
  std::set<Rank> awaiting_reports_, heard_, reported_to_;
  std::map<Rank, std::map<std::uint32_t, Round>> reports_;  // until all are in
  std::map<std::uint32_t, Round> told_;  // returned node: rounds whose mean the others have had
  bool closed_ = false, closed_told_ = false;  // by this node
  std::set<Rank> closed_by_;                   // other members
};

}  // namespace longhaul::overlay
