#include "longhaul/overlay/group.h"

#include <algorithm>

#include "longhaul/core/group_number.h"
#include "longhaul/overlay/rank_bits.h"

namespace longhaul::overlay {
namespace {
constexpr std::size_t kMostRanges = 64;
}

Group::Group(Common& common, std::uint32_t number, RankList members)
    : common_(common), number_(number) {
  team_.self = common.place.self;
  team_.workers = std::move(members);
  if (team_.workers != common.workers) team_.name = to_bits(team_.workers);
  form_team();
}

// Who of them is alive, and has been since the group was made. While all members of the job live,
// the list that all nodes share.
RankList Group::living(const RankList& workers) const {
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

void Group::form_team() {
  team_.epoch = common_.epoch_of(team_.workers);
  if (number_ == 0) team_.founders = common_.view.founders;
  team_.members = living(team_.workers);
  team_.server =
      team_.members.empty() ? std::nullopt : common_.topology->server(team_.members, common_.view);
  common_.topology->on_team(number_, &team_);
}

// --- the owner

Status Group::begin(const VectorId& key, const Contribution& given, GroupTurn& turn) {
  LH_CHECK(team_.takes_part() && !closed_);
  LH_LET(found, exchange(key, given.length, given.exact, {}));
  opener_.reset();
  const bool again = found->begun();
  if (given.knows_round && found->is_told() && !again && found->next() != key.round) {
    found->end_attempts();  // the others have not said yet, or one of them was wrong
    found->follow(key.round);
  }
  found->begin(key.round, given);
  if (!again && !frozen()) found->contribute(turn);
  return Ok{};
}

std::optional<Outcome> Group::poll(const VectorId& key) {
  Exchange* exchange = find(key.range);
  return exchange ? exchange->poll(key.round) : std::nullopt;
}

void Group::close(GroupTurn& turn) {
  for (const auto& [range, exchange] : exchanges_) LH_CHECK(!exchange.begun());
  closed_ = true;
  tell_closed(turn);
}

// In the class of shares and pieces and behind them: nothing of the group follows from this node.
void Group::tell_closed(GroupTurn& turn) {
  const auto idle = [](const auto& one) { return one.second.idle(); };
  if (!closed_ || closed_told_ || !std::all_of(exchanges_.begin(), exchanges_.end(), idle)) return;
  closed_told_ = true;
  for (const Rank to : team_.others()) turn.own.send(to, Closed{number_}, {}, kBulk);
  if (team_.server && !team_.index_of(*team_.server))
    turn.own.send(*team_.server, Closed{number_}, {}, kBulk);
}

bool Group::over() const {
  if (number_ == 0) return false;
  if (!team_.takes_part() && team_.server != team_.self) return true;
  if (team_.takes_part() && !closed_told_) return false;
  return std::all_of(team_.members.begin(), team_.members.end(),
                     [&](Rank rank) { return rank == team_.self || closed_by_.contains(rank); });
}

void Group::end_attempts() {
  for (auto& [range, exchange] : exchanges_) exchange.end_attempts();
}

Exchange* Group::find(std::uint32_t range) {
  const auto it = exchanges_.find(range);
  return it == exchanges_.end() ? nullptr : &it->second;
}

const Exchange* Group::find(std::uint32_t range) const {
  const auto it = exchanges_.find(range);
  return it == exchanges_.end() ? nullptr : &it->second;
}

Result<Exchange*> Group::exchange(const VectorId& key, std::uint64_t length, bool exact,
                                  std::optional<Rank> opener) {
  if (Exchange* known = find(key.range)) {
    if (known->length() == length && known->exact() == exact) return known;
    return invalid("vectors of " + std::to_string(known->length()) + " and of " +
                   std::to_string(length) +
                   " values, or unlike codings, in one mean; run the same job on all sites");
  }
  if (exchanges_.size() >= kMostRanges) return malformed("too many ranges");
  if (length == 0 || length > common_.longest_vector())
    return malformed("vector of " + std::to_string(length) + " values, longer than the model");
  const Round first = told(key.range);
  Exchange& fresh = exchanges_
                        .try_emplace(key.range, common_, team_, VectorId{first, number_, key.range},
                                     length, exact)
                        .first->second;
  fresh.borrowed = common_.newcomer() && (number_ == 0 || first > 0);
  fresh.opener = opener;
  return &fresh;
}

std::size_t Group::opened_by(Rank peer) const {
  std::size_t count = opener_ == peer ? 1 : 0;
  for (const auto& [range, exchange] : exchanges_) count += exchange.opener == peer ? 1 : 0;
  return count;
}

// --- what peers say

Result<Group::When> Group::when(Epoch epoch, const VectorId& vector) const {
  if (epoch > team_.epoch) return malformed("message of an epoch to come");
  const Exchange* exchange = find(vector.range);
  const Round lowest = exchange ? exchange->lowest() : told(vector.range);
  if (epoch < team_.epoch || vector.round < lowest) return When::late;
  if (vector.round > lowest + 1)
    return malformed("message of round " + std::to_string(vector.round) + "; a peer can be in " +
                     std::to_string(lowest) + " or in the next");
  return When::now;
}

Status Group::check_members(Rank from, const std::vector<std::uint8_t>& members) const {
  if (members == team_.name) return Ok{};
  const auto names = [&](const std::vector<std::uint8_t>& bits) {
    return bits.empty() ? "all" : list_ranks(from_bits(bits));
  };
  return malformed("rank " + std::to_string(from) + " says that the members of group " +
                   std::to_string(number_) + " are " + names(members) + "; here they are " +
                   names(team_.name));
}

Status Group::take(Rank from, const Announcement& share, GroupTurn& turn) {
  LH_TRY(check_members(from, share.members));
  if (common_.newcomer()) LH_TRY(follow(share, from));
  LH_LET(when, this->when(share.epoch, share.vector));
  if (when == When::late) {
    turn.late(share.vector.round);
    return Ok{};
  }
  if (!team_.takes_part() && team_.server != team_.self)
    return malformed("share for a node without a part in this exchange");
  if (closed_) return malformed("share for a group that is closed");
  LH_LET(found, exchange(share.vector, share.length, share.exact, from));
  return found->take(from, share, turn);
}

Status Group::take(Rank from, const Contributors& roster, GroupTurn& turn) {
  LH_LET(when, this->when(roster.epoch, roster.vector));
  if (when == When::late) {
    turn.late(roster.vector.round);
    return Ok{};
  }
  Exchange* exchange = find(roster.vector.range);
  if (!exchange) return malformed("roster of a round that lacks this node's part");
  return exchange->take(from, roster, turn);
}

// What a node tells itself stands in no queue, but a view may overtake it.
Status Group::take(Rank from, const AttemptMessage& note, GroupTurn& turn) {
  if (note.vector.origin != from) return malformed("note in another's name");
  LH_LET(when, this->when(note.epoch, note.vector));
  if (!team_.index_of(from) && team_.server != from) return malformed("note of who takes no part");
  Exchange* exchange = find(note.vector.range);
  if (exchange && note.epoch == team_.epoch) return exchange->take(from, note, turn);
  if (when != When::late && from != team_.self) return malformed("note without a share before");
  turn.late(note.vector.round);
  return Ok{};
}

Status Group::take(Rank from, const Closed&, GroupTurn&) {
  if (!team_.workers.has(from) || number_ == 0)
    return malformed("a group closed by who is no member");
  if (team_.index_of(from) && !closed_by_.insert(from).second)
    return malformed("a group closed for the second time");
  return Ok{};
}

// --- pieces

Status Group::admit(Rank from, const TransferKey& key, Range range) const {
  LH_LET(when, this->when(key.epoch, key.vector));
  if (when == When::late) return Ok{};  // decode() makes nothing of it
  const Exchange* exchange = find(key.vector.range);
  if (!exchange) return malformed("piece of a vector nobody has spoken of");
  return exchange->admit(from, key, range);
}

Result<std::vector<float>> Group::decode(const TransferKey& key, Range range,
                                         const Payload& bytes) const {
  LH_LET(when, this->when(key.epoch, key.vector));
  if (when == When::late) return std::vector<float>{};
  auto values = common_.coder.read(key.vector, key.coding, range, bytes);
  if (values && Phase(key.phase) == Phase::mean) common_.arrived.push_back({key, range, bytes});
  return values;
}

void Group::take(Arrival&& arrival, GroupTurn& turn) {
  const auto when = this->when(arrival.key.epoch, arrival.key.vector);
  if (!when || *when == When::late) return turn.late(arrival.key.vector.round);
  find(arrival.key.vector.range)->take(std::move(arrival), turn);
}

Payload Group::encoded(const TransferKey& key, Range range) {
  Exchange* exchange = find(key.vector.range);
  LH_CHECK(exchange);
  return exchange->encoded(key, range);
}

std::span<const float> Group::part_values(const TransferKey& key, Range range) {
  return exchanges_.at(key.vector.range).part_values(key, range);
}

Payload Group::encode_part(const TransferKey& key, Range range, std::span<const float> values) {
  return exchanges_.at(key.vector.range).encode_part(key, range, values);
}

// --- time

std::optional<Time> Group::due() const {
  std::optional<Time> first;
  for (const auto& [range, exchange] : exchanges_)
    if (const auto due = exchange.due(); due && (!first || *due < *first)) first = due;
  return first;
}

void Group::on_time(GroupTurn& turn) {
  for (auto& [range, exchange] : exchanges_) exchange.on_time(turn);
}

void Group::settle(GroupTurn& turn) {
  for (auto& [range, exchange] : exchanges_)
    if (!exchange.idle()) exchange.settle(turn);  // some may have been sent out
  tell_closed(turn);
}

void Group::contribute_held(GroupTurn& turn) {
  for (auto& [range, exchange] : exchanges_)
    if (exchange.begun() && exchange.held() && !frozen()) exchange.contribute(turn);
}

std::string Group::waiting_for() const {
  if (frozen())
    return (number_ == 0 ? "" : "group " + std::to_string(number_) + ", ") + "epoch " +
           std::to_string(team_.epoch) + ": reports of " +
           named_ranks({awaiting_reports_.begin(), awaiting_reports_.end()});
  for (const auto& [range, exchange] : exchanges_) {
    if (!exchange.begun()) continue;
    return exchange.waiting_for() +
           (number_ == 0 && range == 0
                ? ""
                : " (group " + std::to_string(number_) + ", range " + std::to_string(range) + ")");
  }
  return "";
}

void Group::state(Archive& ar) {
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

}  // namespace longhaul::overlay
