#pragma once
// The agreed mean, the basis of every synchronous strategy (docs/overlay/README.md).
//
// agreed_mean(G, round, z, a) = sum a_i z_i / sum a_i over exactly the members of G, or no node
// gets one. G are the live members of a group in one epoch. A Topology combines the parts while no
// node is lost; the Group handles losses (group.h).
//
// An AgreedMean owns the groups of a node and the objects they share (transfer, topology, codecs),
// passes messages and pieces to their group, and keeps one timer. Group 0 are all workers, from the
// beginning. A peer can make a node keep kMostOpened exchanges or groups that the node itself has
// not begun.
#include <algorithm>

#include "longhaul/core/registry.h"
#include "longhaul/overlay/group.h"
#include "longhaul/overlay/messages.h"

namespace longhaul::overlay {

class AgreedMean final : public Overlay, private VectorPort {
  static View all_of_job(const Place& place) { return {0, place.members.all(), {}, place.size()}; }

 public:
  using Messages = overlay::Messages;
  static constexpr std::size_t kMostOpened = 64;

  AgreedMean(const Place& place, OverlayParts parts, std::unique_ptr<Topology> path)
      : common_{.place = place,
                .transfer = std::move(parts.transfer),
                .topology = std::move(path),
                .coder = Coder(place.phantom, parts.make_codec(true), parts.make_codec(false)),
                .workers = place.members.with(Role::worker),
                .view = all_of_job(place),
                .changed = {}} {
    LH_CHECK(common_.transfer && common_.topology);
    own(*common_.transfer, {Common::kTransfer, ""});
    common_.transfer->attach(*this);
    groups_.try_emplace(0, common_, std::uint32_t{0}, common_.workers);
  }

  Status begin(const VectorId& key, const std::vector<Rank>& members, const Contribution& given,
               Turn& turn) override {
    LH_CHECK(given.length > 0 && given.length <= common_.longest_vector());
    LH_CHECK(!given.contributes || (given.weight > 0 && given.weight <= kMostOwnWeight));
    LH_CHECK(!given.contributes ||
             given.values.size() == (common_.place.phantom ? 0 : given.length));
    if (given.contributes && !all_finite(given.values))
      return not_finite(
          "its contribution to round " + std::to_string(key.round) +
          " has values that are not finite; look at its data, or lower [optimizer] rate");
    const RankList named = members.empty() ? common_.workers : RankList(members);
    LH_CHECK(includes(common_.workers, named));
    // What peers say of a group before this node does may be false, and must not end its run.
    if (const Group* known = find(key.group); known && known->opener()) {
      if (known->team().workers != named) drop(key.group);
    }
    Group& group = groups_.try_emplace(key.group, common_, key.group, named).first->second;
    if (group.team().workers != named)
      return malformed("group " + std::to_string(key.group) + " is begun with the members " +
                       list_ranks(named) + "; it has " + list_ranks(group.team().workers));
    if (given.loss) common_.transfer->training_loss(*given.loss);
    LH_TRY(group.begin(key, given, turn));
    measure(turn);
    finish(turn);
    return Ok{};
  }

  std::optional<Round> next_round(std::uint32_t group, std::uint32_t range) const override {
    const Group* known = find(group);
    if (known) return known->next_round(range);
    return common_.newcomer() && common_.view.epoch == 0 ? std::nullopt : std::optional(Round{0});
  }

  std::optional<Outcome> poll(const VectorId& key) override {
    Group* group = find(key.group);
    Exchange* exchange = group ? group->find(key.range) : nullptr;
    auto outcome = exchange ? exchange->poll(key.round) : std::nullopt;
    if (outcome && key == given_.id) outcome->gave = given_.took;
    return outcome;
  }

  void close(std::uint32_t group, Turn& turn) override {
    LH_CHECK(group != 0);
    Group* known = find(group);
    if (!known) return;
    known->close();
    finish(turn);
  }

  std::string waiting_for() const override {
    for (const bool frozen : {true, false})
      for (const auto& [number, group] : groups_)
        if (const std::string text = group.waiting_for(); group.frozen() == frozen && !text.empty())
          return text;
    return "";
  }

  std::optional<Traffic> planned(std::uint64_t length) const override {
    LH_CHECK(length > 0);
    const GroupMembers& team = groups_.at(0).team();
    if (team.members.empty()) return std::nullopt;
    const Topology& topology = *common_.topology;
    const Partition grid = topology.cut(length, team.shards(), common_.place.longest_piece());
    const auto plan = topology.plan(grid, team);
    if (!plan) return std::nullopt;
    struct Sum {
      std::uint64_t values = 0, part = 0, mean = 0;  // bytes of a part and of the mean
    };
    Traffic traffic;
    std::vector<Sum> sums(plan->trees.size());
    for (std::size_t piece = 0; piece < grid.pieces(); ++piece) {
      Sum& sum = sums[plan->tree_of[piece]];
      const std::uint64_t values = grid.range(piece).length;
      sum.values += values;
      sum.part += common_.coder.size(Coding::up, grid.range(piece));
      sum.mean += common_.coder.size(plan->how.means, grid.range(piece));
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const Tree& tree = plan->trees[i];
      if (sums[i].values == 0) continue;
      if (plan->how.sums == Sums::everywhere) {
        for (const Rank from : team.members)
          for (const Rank to : team.members)
            if (from != to) traffic.loads[{from, to}].reduce += sums[i].part;
        continue;
      }
      for (std::uint32_t place = 0; place < team.nodes(); ++place) {
        if (place == tree.root) continue;
        const Rank self = team.node(place);
        traffic.loads[{self, team.node(tree.up(place))}].reduce += sums[i].part;
        traffic.loads[{team.node(tree.down(place)), self}].spread += sums[i].mean;
      }
      const Depths depths = depths_of(tree, team.nodes());
      traffic.trees.push_back(
          {team.node(tree.root), double(sums[i].values) / double(length), depths.up, depths.down});
    }
    std::ranges::stable_sort(traffic.trees,
                             [](const auto& a, const auto& b) { return a.share > b.share; });
    return traffic;
  }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    const Status taken = dispatch(Messages{}, message,
                                  [&](const auto& one) -> Status { return take(from, one, turn); });
    finish(turn);
    return taken;
  }

  void on_view(const View& before, Turn& turn) override {
    const View& now = turn.view();
    for (Rank rank = 0; rank < common_.place.size(); ++rank)
      if (before.has(rank) != now.has(rank) || before.since(rank) != now.since(rank))
        common_.changed[rank] = now.epoch;
    common_.view = now;
    for (auto& [number, group] : groups_) group.on_view(turn);
    finish(turn);
  }

  void on_timer(TimerId, Turn& turn) override {
    alarm_.reset();
    each([&](Exchange& exchange) { exchange.on_time(turn); });
    finish(turn);
  }

  void on_progress(Turn& turn) override {
    while (auto arrival = common_.transfer->arrived()) {
      const auto exchange = current(arrival->from, arrival->key);
      if (exchange && *exchange)
        (*exchange)->take(std::move(*arrival), turn);
      else
        (void)late(arrival->key.vector.round, turn);
    }
    measure(turn);
    common_.arrived.clear();
    each([&](Exchange& exchange) {
      if (!exchange.idle()) exchange.settle(turn);  // some may have been sent out
    });
    finish(turn);
  }

  // Groups are made before the topology's state is read, because making them sets the topology's
  // teams.
  void state(Archive& ar) override {
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

  std::size_t groups() const { return groups_.size(); }
  Time gave() const { return given_.took; }  // that of the newest contribution sent

 private:
  // VectorPort
  Payload encoded(const TransferKey& key, Range range) override {
    return exchange_of(key).encoded(key, range);
  }

  Status admit(Rank from, const TransferKey& key, Range range) override {
    LH_LET(exchange, current(from, key));
    return exchange ? exchange->admit(from, key, range) : Status(Ok{});  // decode() ignores it
  }

  Result<std::vector<float>> decode(const TransferKey& key, Range range,
                                    const Payload& bytes) override {
    if (!find(key.vector.group)) return std::vector<float>{};
    LH_LET(exchange, current(key.vector.origin, key));
    if (!exchange) return std::vector<float>{};
    auto values = common_.coder.read(key.vector, key.coding, range, bytes);
    if (values && Phase(key.phase) == Phase::mean) common_.arrived.push_back({key, range, bytes});
    return values;
  }

  std::span<const float> part_values(const TransferKey& key, Range range) override {
    return exchange_of(key).part_values(key, range);
  }

  Payload encode_part(const TransferKey& key, Range range, std::span<const float> values) override {
    return common_.coder.write(key.vector, key.coding, range, values);
  }

  // Returns the exchange that this node sends for.
  Exchange& exchange_of(const TransferKey& key) {
    Exchange* const exchange = groups_.at(key.vector.group).find(key.vector.range);
    LH_CHECK(exchange);
    return *exchange;
  }

  // Returns the exchange of a piece that has arrived; null: it is late.
  Result<Exchange*> current(Rank from, const TransferKey& key) {
    if (Group* group = find(key.vector.group)) return group->current(from, key.epoch, key.vector);
    if (is_over(key.epoch)) return static_cast<Exchange*>(nullptr);
    return malformed("piece of a vector that no node has announced");
  }

  Status take(Rank from, const Announcement& share, Turn& turn) {
    if (share.vector.origin != from) return malformed("share of another node");
    Group* group = find(share.vector.group);
    const bool opens = !group || !group->find(share);
    return take_or_open(from, share.vector.group, opens, share.vector.round, share, turn);
  }

  Status take(Rank from, const Report& report, Turn& turn) {
    return take_or_open(from, report.group, !find(report.group), 0, report, turn);
  }

  // Passes `one` to its group, which it may open. `opens`: it begins a group or range here.
  template <class M>
  Status take_or_open(Rank from, std::uint32_t number, bool opens, Round round, const M& one,
                      Turn& turn) {
    if (opens && opened_by(from) >= kMostOpened) return malformed("too many groups and ranges");
    Group* group = find(number);
    const bool is_new = !group;
    if (is_new) {
      LH_LET(opened, open(from, number, one.members, one.epoch));
      group = opened;
    }
    if (!group) return late(round, turn);
    if (std::is_same_v<M, Report> && is_new && common_.newcomer()) group->recover(turn);
    const Status taken = group->take(from, one, turn);
    if (is_new && !taken) drop(number);
    return taken;
  }

  Status take(Rank from, const TopologyMessage& notice, Turn& turn) {
    Group& all = groups_.at(0);
    const GroupMembers& team = all.team();
    if (notice.epoch > team.epoch) return malformed("notice of an epoch to come");
    if (notice.epoch < team.epoch) return late(0, turn);
    if (!team.index_of(from) || !team.takes_part() || from == team.self)
      return malformed("notice of who takes no part");
    TopologyOutput output;
    LH_TRY(common_.topology->take(from, notice, output));
    output.carry_out(team.epoch, turn);
    if (Exchange* parameters = all.find(0); parameters && output.planned_from)
      parameters->end_attempts_from(*output.planned_from);
    all.contribute_held(turn);
    return Ok{};
  }

  Status take(Rank from, const Closed& closed, Turn& turn) {
    Group* group = find(closed.group);
    return group ? group->take(from, closed) : late(0, turn);
  }

  // Takes a note, a roster or a request. A note may be the last one after all members have closed
  // the group and this node has dropped it.
  template <class M>
  Status take(Rank from, const M& one, Turn& turn) {
    if (Group* group = find(one.vector.group)) return group->take(from, one, turn);
    if (std::is_same_v<M, AttemptMessage> || is_over(one.epoch))
      return late(one.vector.round, turn);
    return malformed(std::string(M::kName) + " of group " + std::to_string(one.vector.group) +
                     ", which no node has begun");
  }

  // Returns true if a message of an unknown group is of an earlier epoch. It may arrive after the
  // group was dropped, or after an announcement that was late itself.
  bool is_over(Epoch epoch) const { return epoch < common_.view.epoch; }

  // Returns the group that a peer names, opened if it is new. Null: it is of an earlier epoch.
  Result<Group*> open(Rank from, std::uint32_t number, const std::vector<std::uint8_t>& members,
                      Epoch epoch) {
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

  Group* find(std::uint32_t group) { return find_in(groups_, group); }
  const Group* find(std::uint32_t group) const { return find_in(groups_, group); }

  std::size_t opened_by(Rank peer) const {
    std::size_t count = 0;
    for (const auto& [number, group] : groups_) count += group.opened_by(peer);
    return count;
  }

  void each(auto&& visit) {
    for (auto& [number, group] : groups_)
      for (auto& [range, exchange] : group.exchanges()) visit(exchange);
  }

  // Handles the vectors that the host has accepted. The slowest receiver's time is that of a
  // contribution.
  void measure(Turn& turn) {
    while (const auto sent = common_.transfer->sent()) {
      common_.topology->on_moved({sent->to, true, sent->bytes, sent->elapsed}, turn.now());
      const VectorId& id = sent->key.vector;
      const bool is_old = id.group == given_.id.group && id.round < given_.id.round;
      if (Phase(sent->key.phase) != Phase::part || id.range != 0 || is_old) continue;
      if (id != given_.id) given_ = {id, Time{0}};
      given_.took = std::max(given_.took, sent->elapsed);
    }
  }

  // Called after every input: drops groups that have ended, and sets the one timer for the earliest
  // due time.
  void finish(Turn& turn) {
    std::vector<std::uint32_t> over;
    for (auto& [number, group] : groups_) {
      group.tell_closed(turn);
      if (group.over()) over.push_back(number);
    }
    std::optional<Time> first;
    each([&](const Exchange& exchange) {
      if (const auto due = exchange.due(); due && (!first || *due < *first)) first = due;
    });
    for (const std::uint32_t number : over) drop(number);
    if (first == alarm_) return;
    alarm_ = first;
    first ? turn.set_timer(*this, TimerId{0}, *first) : turn.cancel_timer(*this, TimerId{0});
  }

  void drop(std::uint32_t group) {
    for (auto& [range, exchange] : groups_.at(group).exchanges()) exchange.end_attempts();
    groups_.erase(group);
    common_.topology->on_team(group, nullptr);
    common_.coder.forget(group);
  }

  Common common_;
  std::map<std::uint32_t, Group> groups_;  // by number
  std::optional<Time> alarm_;              // the timer that is set
  struct Given {                           // parts of range 0 that have left for all receivers
    VectorId id;
    Time took{0};
    void state(Archive& ar) { ar(id, took); }
  };
  Given given_;
};

}  // namespace longhaul::overlay
