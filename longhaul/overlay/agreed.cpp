#include "longhaul/overlay/agreed.h"

#include <algorithm>

#include "longhaul/overlay/rank_bits.h"

namespace longhaul::overlay {
namespace {

View all_of_job(const Place& place) { return {0, place.members.all(), {}, place.size()}; }

}  // namespace

AgreedMean::AgreedMean(const Place& place, OverlayParts parts, std::unique_ptr<Topology> path)
    : common_{.place = place,
              .transfer = std::move(parts.transfer),
              .topology = std::move(path),
              .coder = Coder(place.phantom, parts.make_codec(true), parts.make_codec(false)),
              .workers = place.members.with(Role::worker),
              .view = all_of_job(place),
              .changed = {}} {
  LH_CHECK(common_.transfer && common_.topology);
  own(*common_.transfer);
  common_.transfer->attach(*this);
  groups_.try_emplace(0, common_, std::uint32_t{0}, common_.workers);
}

Status AgreedMean::begin(const VectorId& key, const std::vector<Rank>& members,
                         const Contribution& given, Turn& turn) {
  LH_CHECK(given.length > 0 && given.length <= common_.longest_vector());
  LH_CHECK(!given.contributes || (given.weight > 0 && given.weight <= kMostWeight));
  LH_CHECK(!given.contributes || given.values.size() == (common_.place.phantom ? 0 : given.length));
  if (given.contributes && !all_finite(given.values))
    return not_finite(
        "its contribution to round " + std::to_string(key.round) +
        " has values that are not finite; look at its data, or lower [optimizer] rate");
  const RankList named = members.empty() ? common_.workers : RankList(members);
  LH_CHECK(includes(common_.workers, named));
  Group& group = groups_.try_emplace(key.group, common_, key.group, named).first->second;
  if (group.team().workers != named)
    return malformed("group " + std::to_string(key.group) + " is begun with the members " +
                     list_ranks(named) + "; it has " + list_ranks(group.team().workers));
  if (given.loss) common_.transfer->training_loss(*given.loss);
  GroupTurn both = this->both(turn);
  LH_TRY(group.begin(key, given, both));
  measure(turn);
  finish(turn);
  return Ok{};
}

std::optional<Round> AgreedMean::next_round(std::uint32_t group, std::uint32_t range) const {
  const Group* known = find(group);
  if (known) return known->next_round(range);
  return common_.newcomer() && common_.view.epoch == 0 ? std::nullopt : std::optional(Round{0});
}

std::optional<Outcome> AgreedMean::poll(const VectorId& key) {
  Group* group = find(key.group);
  auto outcome = group ? group->poll(key) : std::nullopt;
  if (outcome && key == given_.id) outcome->gave = given_.took;
  return outcome;
}

void AgreedMean::close(std::uint32_t group, Turn& turn) {
  LH_CHECK(group != 0);
  Group* known = find(group);
  if (!known) return;
  GroupTurn both = this->both(turn);
  known->close(both);
  finish(turn);
}

Group* AgreedMean::find(std::uint32_t group) {
  const auto it = groups_.find(group);
  return it == groups_.end() ? nullptr : &it->second;
}

const Group* AgreedMean::find(std::uint32_t group) const {
  const auto it = groups_.find(group);
  return it == groups_.end() ? nullptr : &it->second;
}

std::size_t AgreedMean::opened_by(Rank peer) const {
  std::size_t count = 0;
  for (const auto& [number, group] : groups_) count += group.opened_by(peer);
  return count;
}

// --- what peers say

Status AgreedMean::on_message(Rank from, const Message& message, Turn& turn) {
  const Status taken = dispatch(Messages{}, message,
                                [&](const auto& one) -> Status { return take(from, one, turn); });
  finish(turn);
  return taken;
}

Result<Group*> AgreedMean::open(Rank from, std::uint32_t number,
                                const std::vector<std::uint8_t>& members, Epoch epoch) {
  const RankList named = members.empty() ? common_.workers : RankList(from_bits(members));
  if (!includes(common_.workers, named) || !named.has(from))
    return malformed("group " + std::to_string(number) +
                     " of members that cannot be: " + list_ranks(named));
  const Epoch here = common_.epoch_of(named);
  if (epoch > here) return malformed("message of an epoch to come");
  if (epoch < here) return static_cast<Group*>(nullptr);
  Group& group = groups_.try_emplace(number, common_, number, named).first->second;
  group.set_opener(from);
  if (group.team().takes_part() || group.team().server == common_.place.self) return &group;
  drop(number);
  return malformed("message for a node without a part in group " + std::to_string(number));
}

Status AgreedMean::take(Rank from, const Announcement& share, Turn& turn) {
  if (share.vector.origin != from) return malformed("share of somebody else");
  Group* group = find(share.vector.group);
  const bool is_new = !group;
  if ((is_new || !group->has(share.vector.range)) && opened_by(from) >= kMostOpened)
    return malformed("too many groups and ranges");
  if (is_new) {
    LH_LET(opened, open(from, share.vector.group, share.members, share.epoch));
    group = opened;
  }
  GroupTurn both = this->both(turn);
  if (!group) {
    both.late(share.vector.round);
    return Ok{};
  }
  const Status taken = group->take(from, share, both);
  if (is_new && !taken) drop(share.vector.group);
  return taken;
}

Status AgreedMean::take(Rank from, const Report& report, Turn& turn) {
  Group* group = find(report.group);
  const bool is_new = !group;
  if (is_new && opened_by(from) >= kMostOpened) return malformed("too many groups and ranges");
  if (is_new) {
    LH_LET(opened, open(from, report.group, report.members, report.epoch));
    group = opened;
  }
  GroupTurn both = this->both(turn);
  if (!group) {
    both.late(0);
    return Ok{};
  }
  if (is_new && common_.newcomer()) group->recover(both);
  const Status taken = group->take(from, report, both);
  if (is_new && !taken) drop(report.group);
  return taken;
}

// Of a group that is not here. What an epoch that is over has left may come when the group is
// dropped, or after an announcement that was late itself.
bool AgreedMean::is_over(Epoch epoch) const { return epoch < common_.view.epoch; }

template <class M>
Status AgreedMean::pass_on(Rank from, const M& one, Turn& turn) {
  const std::uint32_t group = one.vector.group;
  GroupTurn both = this->both(turn);
  Group* known = find(group);
  if (known) return known->take(from, one, both);
  if (is_over(one.epoch)) {
    both.late(one.vector.round);
    return Ok{};
  }
  return malformed(std::string(M::kName) + " of group " + std::to_string(group) +
                   ", which nobody has begun");
}

Status AgreedMean::take(Rank from, const Contributors& roster, Turn& turn) {
  return pass_on(from, roster, turn);
}

Status AgreedMean::take(Rank from, const Fetch& fetch, Turn& turn) {
  return pass_on(from, fetch, turn);
}

// All members may have closed a group, and this node have dropped it, when the last notes come.
Status AgreedMean::take(Rank from, const AttemptMessage& note, Turn& turn) {
  if (find(note.vector.group)) return pass_on(from, note, turn);
  both(turn).late(note.vector.round);
  return Ok{};
}

Status AgreedMean::take(Rank from, const Closed& closed, Turn& turn) {
  GroupTurn both = this->both(turn);
  if (Group* group = find(closed.group)) return group->take(from, closed, both);
  both.late(0);
  return Ok{};
}

Status AgreedMean::take(Rank from, const TopologyMessage& notice, Turn& turn) {
  Group& all = groups_.at(0);
  const GroupMembers& team = all.team();
  ReplanningTopology* const replanning = common_.topology->replanning();
  GroupTurn both = this->both(turn);
  if (!replanning)
    return malformed("notice of rank " + std::to_string(from) + ", which this overlay has none of");
  if (notice.epoch > team.epoch) return malformed("notice of an epoch to come");
  if (notice.epoch < team.epoch) {
    both.late(0);
    return Ok{};
  }
  if (!team.index_of(from) || !team.takes_part() || from == team.self)
    return malformed("notice of who takes no part");
  TopologyOutput output;
  LH_TRY(replanning->take(from, notice, output));
  output.carry_out(team.epoch, turn);
  all.contribute_held(both);
  return Ok{};
}

// --- pieces

Status AgreedMean::admit(Rank from, const TransferKey& key, Range range) {
  if (const Group* group = find(key.vector.group)) return group->admit(from, key, range);
  if (is_over(key.epoch)) return Ok{};  // decode() makes nothing of it
  return malformed("piece of a vector nobody has spoken of");
}

Result<std::vector<float>> AgreedMean::decode(const TransferKey& key, Range range,
                                              const Payload& bytes) {
  const Group* group = find(key.vector.group);
  if (!group) return std::vector<float>{};
  return group->decode(key, range, bytes);
}

Payload AgreedMean::encoded(const TransferKey& key, Range range) {
  return groups_.at(key.vector.group).encoded(key, range);
}

std::span<const float> AgreedMean::part_values(const TransferKey& key, Range range) {
  return groups_.at(key.vector.group).part_values(key, range);
}

Payload AgreedMean::encode_part(const TransferKey& key, Range range,
                                std::span<const float> values) {
  return groups_.at(key.vector.group).encode_part(key, range, values);
}

// What went to the host. The slowest receiver's time is that of a contribution.
void AgreedMean::measure(Turn& turn) {
  while (const auto sent = common_.transfer->sent()) {
    if (ReplanningTopology* const replanning = common_.topology->replanning())
      replanning->on_moved({sent->to, true, sent->bytes, sent->elapsed}, turn.now());
    const VectorId& id = sent->key.vector;
    const bool is_old = id.group == given_.id.group && id.round < given_.id.round;
    if (Phase(sent->key.phase) != Phase::part || id.range != 0 || is_old) continue;
    if (id != given_.id) given_ = {id, Time{0}};
    given_.took = std::max(given_.took, sent->elapsed);
  }
}

void AgreedMean::on_progress(Turn& turn) {
  GroupTurn both = this->both(turn);
  while (auto arrival = common_.transfer->arrived()) {
    Group* group = find(arrival->key.vector.group);
    group ? group->take(std::move(*arrival), both) : both.late(arrival->key.vector.round);
  }
  measure(turn);
  common_.arrived.clear();
  for (auto& [number, group] : groups_) group.settle(both);
  finish(turn);
}

// --- views and time

void AgreedMean::on_view(const View& before, Turn& turn) {
  const View& now = turn.view();
  for (Rank rank = 0; rank < common_.place.size(); ++rank)
    if (before.has(rank) != now.has(rank) || before.since(rank) != now.since(rank))
      common_.changed[rank] = now.epoch;
  common_.view = now;
  GroupTurn both = this->both(turn);
  for (auto& [number, group] : groups_) group.on_view(both);
  finish(turn);
}

void AgreedMean::on_timer(TimerId, Turn& turn) {
  alarm_.reset();
  GroupTurn both = this->both(turn);
  for (auto& [number, group] : groups_) group.on_time(both);
  finish(turn);
}

// Drops groups that are over, and winds the one timer for whatever is due first.
void AgreedMean::finish(Turn& turn) {
  GroupTurn both = this->both(turn);
  std::vector<std::uint32_t> over;
  std::optional<Time> first;
  for (auto& [number, group] : groups_) {
    group.tell_closed(both);
    if (group.over()) over.push_back(number);
    if (const auto due = group.due(); due && (!first || *due < *first)) first = due;
  }
  for (const std::uint32_t number : over) drop(number);
  if (first == alarm_) return;
  alarm_ = first;
  first ? turn.set_timer(*this, TimerId{0}, *first) : turn.cancel_timer(*this, TimerId{0});
}

void AgreedMean::drop(std::uint32_t group) {
  groups_.at(group).end_attempts();
  groups_.erase(group);
  common_.topology->on_team(group, nullptr);
  common_.coder.forget(group);
}

std::string AgreedMean::waiting_for() const {
  for (const bool frozen : {true, false})
    for (const auto& [number, group] : groups_)
      if (const std::string text = group.waiting_for(); group.frozen() == frozen && !text.empty())
        return text;
  return "";
}

// Groups are made before the topology's state is read: making them tells it of teams.
void AgreedMean::state(Archive& ar) {
  ar.expect("agreed mean");
  ar(common_.view, common_.changed, alarm_, given_);
  std::vector<std::pair<std::uint32_t, RankList>> known;
  for (const auto& [number, group] : groups_) known.emplace_back(number, group.team().workers);
  ar(known);
  const auto& changed = common_.changed;
  if (ar.failed() || (!changed.empty() && changed.rbegin()->first >= common_.place.size()))
    return ar.fail("holds an overlay of another job");
  if (ar.loading()) {
    groups_.clear();
    for (auto& [number, workers] : known) {
      if (number == 0) workers = common_.workers;
      if (!includes(common_.workers, workers)) return ar.fail("holds a group of another job");
      groups_.try_emplace(number, common_, number, workers);
    }
    if (!groups_.contains(0)) return ar.fail("holds no group of all workers");
  }
  common_.topology->state(ar);
  common_.coder.state(ar);
  for (auto& [number, group] : groups_) group.state(ar);
}

}  // namespace longhaul::overlay
