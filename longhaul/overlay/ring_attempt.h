#pragma once
// The attempt of ring (Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations", 2009). Members form a circle. The pieces of owner k start at the member after k
// and go round once; every member mixes its own part into the mean so far,
//     m <- m + (a / A) (z - m)    A: sum of the weights so far, with a
// until the owner has the mean, which then goes round once more, unchanged. n - 1 and n - 1 hops.
#include <algorithm>
#include <map>

#include "longhaul/core/registry.h"
#include "longhaul/flow/circle.h"
#include "longhaul/overlay/attempt.h"
#include "longhaul/overlay/belief.h"
#include "longhaul/overlay/reduction.h"

namespace longhaul::overlay {

class RingAttempt final : public Attempt {
  static std::vector<std::uint32_t> stands_in(const std::vector<Rank>& circle,
                                              const GroupMembers& team) {
    LH_CHECK(circle.size() == team.members.size());
    std::vector<std::uint32_t> stands(circle.size());
    for (std::uint32_t i = 0; i < circle.size(); ++i) stands[team.index_of(circle[i]).value()] = i;
    return stands;
  }

 public:
  // streamed: every piece is passed on when it arrives; else when all pieces of its owner have
  // arrived. `circle`: all members in the order of the circle; empty: by rank.
  RingAttempt(const ExchangeSpec& spec, bool streamed, std::vector<Rank> circle = {})
      : Attempt(spec),
        streamed_(streamed),
        circle_(circle.empty() ? std::vector<Rank>(spec.team->members) : std::move(circle)),
        stands_(stands_in(circle_, *spec.team)),
        self_(stand_of(spec.team->self)),
        parts_(spec.grid().pieces()) {
    if (spec.plan->root() != spec.team->self) return;
    weights_.assign(size(), kUnknownWeight);
    unknown_ = size();
  }

  void contribute(std::uint64_t length, double weight, AttemptContext& context) override {
    set_contribution(weight);
    const Rank root = spec_.plan->root();
    if (size() > 1) context.shares.emplace_back(next(), share(length));
    if (root != spec_.team->self && root != next())
      context.shares.emplace_back(root, share(length));
    if (root == spec_.team->self) note_share(root, weight, context);
    start(context);
    for (auto& [piece, part] : std::exchange(early_, {}))
      mix(piece, std::move(part.values), part.weight, context);
  }

  Status take_announcement(Rank from, const Announcement& share, AttemptContext& context) override {
    const auto index = spec_.team->index_of(from);
    const bool is_root = spec_.plan->root() == spec_.team->self;
    if (!index || from == spec_.team->self || (from != previous() && !is_root))
      return refuse(from, "a share for a node that does not follow it");
    if (from == previous()) {
      if (previous_shares_ > 0) return refuse(from, "a second share");
      ++previous_shares_;
    }
    if (!is_root) return Ok{};
    if (weights_[*index] != kUnknownWeight) return refuse(from, "a second share");
    note_share(from, share.weight, context);
    return Ok{};
  }

  Result<bool> admit(Rank from, const TransferKey& key, std::size_t piece) const override {
    const Rank owner = spec_.plan->owner(piece);
    if (size() == 1 || from != previous())
      return refuse(from, "a piece from who stands not before");
    if (Phase(key.phase) == Phase::mean) {
      if (key != this->key(Phase::mean, Coding::down, owner) || owner == spec_.team->self)
        return refuse(from, "a mean that does not pass here, or in another coding");
      if (!contributed()) return refuse(from, "a mean of a round that lacks this node's part");
      return true;
    }
    const std::uint32_t before = (self_ + size() - 1) % size();
    // A member without a contribution starts with zeros, which must not enter a codec's memory.
    const bool zeros = key == this->key(Phase::part, Coding::down, from);
    if ((key != part_key(owner, before) && !zeros) || owner == from)
      return refuse(from, "a part that does not pass here, or in another coding");
    if (previous_shares_ == 0) return refuse(from, "a part without a share before it");
    if (parts_[piece]) return refuse(from, "a part for the second time");
    return true;
  }

  Status take(Arrival&& arrival, std::size_t piece, AttemptContext& context) override {
    if (Phase(arrival.key.phase) == Phase::mean) {
      const Rank owner = spec_.plan->owner(piece);
      const Payload bytes = context.arrived;
      context.means[piece] = std::move(arrival.values);
      if (next() != owner)
        pass_on(arrival.key, piece, bytes, arrival.weight, size() - 1 + (way(owner, self_) + 1),
                context);
      return Ok{};
    }
    parts_[piece] = true;
    if (contributed()) {
      mix(piece, std::move(arrival.values), arrival.weight, context);
    } else {
      early_[std::uint32_t(piece)] = {std::move(arrival.values), arrival.weight};
    }
    return Ok{};
  }

  Payload encoded(const TransferKey& key, std::size_t piece, AttemptContext& context) override {
    const auto out = outbox_.find({key.phase, std::uint32_t(piece)});
    if (out != outbox_.end()) {
      Payload bytes = std::move(out->second);
      outbox_.erase(out);
      return bytes;
    }
    LH_CHECK(Phase(key.phase) == Phase::part && spec_.plan->owner(piece) == previous());
    if (weight() > 0) return context.buffers.own_bytes(piece);
    const std::vector<float> zeros(spec_.grid().range(piece).length);
    return context.buffers.write(piece, key.coding, zeros);
  }

  // All owners are members: nothing is reduced for others alone.
  Progress progress() const override { return {false, outbox_.empty()}; }
  std::string waiting_for(const std::vector<bool>& mean_pieces) const override {
    for (std::size_t piece = 0; piece < parts_.size(); ++piece) {
      const Rank owner = spec_.plan->owner(piece);
      if (size() > 1 && owner != previous() && !parts_[piece])
        return round_text() + ": parts of " + named_ranks({previous()});
    }
    const bool all = std::ranges::find(mean_pieces, false) == mean_pieces.end();
    if (mean_pieces.empty() || !all)
      return round_text() + ": means of " + named_ranks({previous()});
    if (weights_.empty()) return round_text() + ": roster of " + named_ranks({spec_.plan->root()});
    std::vector<Rank> silent;
    for (std::uint32_t i = 0; i < weights_.size(); ++i)
      if (weights_[i] == kUnknownWeight) silent.push_back(spec_.team->members[i]);
    return round_text() + ": shares of " + named_ranks(silent);
  }

  void state(Archive& ar) override {
    Attempt::state(ar);
    ar(weights_, unknown_, previous_shares_, parts_, early_, outbox_, held_);
  }

 private:
  struct Early {  // a part that arrived before this node's contribution
    std::vector<float> values;
    double weight = 0;
    void state(auto& ar) { ar(values, weight); }
  };

  std::uint32_t size() const { return std::uint32_t(circle_.size()); }
  Rank member(std::uint32_t index) const { return circle_[index % size()]; }
  std::uint32_t stand_of(Rank rank) const { return stands_[*spec_.team->index_of(rank)]; }
  Rank next() const { return member(self_ + 1); }
  Rank previous() const { return member(self_ + size() - 1); }
  // Returns the number of links from the member where this owner's pieces start to `index`.
  std::uint32_t way(Rank owner, std::uint32_t index) const {
    return (index + size() - stand_of(owner) - 1 + size()) % size();
  }

  // Returns the key of a part: first one member's contribution, later a mean of several.
  TransferKey part_key(Rank owner, std::uint32_t index) const {
    return key(Phase::part, way(owner, index) == 0 ? Coding::up : Coding::down, member(index));
  }

  // Starts the pieces of the previous member as owner.
  void start(AttemptContext& context) {
    const Rank owner = previous();
    const auto pieces = spec_.plan->pieces_of(owner);
    if (size() == 1) {
      for (const std::uint32_t piece : pieces)
        if (weight() > 0) finish(piece, context.buffers.own_values(piece), weight(), context);
      return;
    }
    TransferKey key = part_key(owner, self_);
    if (weight() == 0) key = this->key(Phase::part, Coding::down, spec_.team->self);
    if (!pieces.empty())
      post(key, next(), spec_.plan->ranges(pieces), weight(), 0, 2 * size(), context);
  }

  void note_share(Rank from, double weight, AttemptContext& context) {
    weights_[*spec_.team->index_of(from)] = weight;
    if (--unknown_ == 0) tell_contributors(weights_, context);
  }

  void mix(std::size_t piece, std::vector<float> values, double before, AttemptContext& context) {
    const double sum = before + weight();
    if (weight() > 0) {
      const std::vector<float> own = context.buffers.own_values(piece);
      const double share = weight() / sum;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double mean = double(values[i]);
        values[i] = float(mean + share * (double(own[i]) - mean));
      }
    }
    const Rank owner = spec_.plan->owner(piece);
    if (owner == spec_.team->self) {
      if (sum > 0) finish(piece, values, sum, context);  // else: an empty mean, see the roster
      return;
    }
    const TransferKey key = this->key(Phase::part, Coding::down, spec_.team->self);
    pass_on(key, piece, context.buffers.write(piece, key.coding, values), sum, way(owner, self_),
            context);
  }

  // The owner, too, uses the mean as the others will read it.
  void finish(std::size_t piece, std::span<const float> mean, double weight,
              AttemptContext& context) {
    const TransferKey key = this->key(Phase::mean, Coding::down, spec_.team->self);
    Payload bytes = context.buffers.write(piece, key.coding, mean);
    context.means[piece] = context.buffers.read(piece, key.coding, bytes);
    if (size() > 1) pass_on(key, piece, std::move(bytes), weight, size() - 1, context);
  }

  void pass_on(const TransferKey& key, std::size_t piece, Payload bytes, double weight,
               std::uint32_t hop, AttemptContext& context) {
    outbox_[{key.phase, std::uint32_t(piece)}] = std::move(bytes);
    if (streamed_) {
      post(key, next(), {spec_.grid().range(piece)}, weight, hop, 2 * size(), context);
      return;
    }
    const Rank owner = spec_.plan->owner(piece);
    const auto pieces = spec_.plan->pieces_of(owner);
    std::uint64_t& held = held_[{key.phase, owner}];
    if (++held == pieces.size())
      post(key, next(), spec_.plan->ranges(pieces), weight, hop, 2 * size(), context);
  }

  const bool streamed_;
  const std::vector<Rank> circle_;
  std::vector<std::uint32_t> stands_;  // by member: its index in the circle
  const std::uint32_t self_;           // index of this node
  std::vector<double> weights_;        // by member; only at the root, for the roster
  std::uint32_t unknown_ = 0;          // members whose weight the root does not know
  std::uint32_t previous_shares_ = 0;
  std::vector<bool> parts_;  // pieces of which a part has arrived
  std::map<std::uint32_t, Early> early_;
  std::map<std::pair<std::uint8_t, std::uint32_t>, Payload> outbox_;  // (phase, piece)
  // sequential: number of pieces of (phase, owner) that wait to be passed on
  std::map<std::pair<std::uint8_t, Rank>, std::uint64_t> held_;
};

// All members in a circle: reduce-scatter, then all-gather. docs/overlay/ring.md
class Ring final : public Topology {
 public:
  struct Config {
    std::string phases = "streamed";
    std::string order = "id";
    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(phases,
                   "streamed: a piece is passed on when it comes; sequential: when its whole "
                   "segment has arrived",
                   .choices = {"streamed", "sequential"});
      LONGHAUL_KEY(order,
                   "order of the workers: by rank; or so that the slowest hop is as fast as can "
                   "be, by the rates of [wan]",
                   .choices = {"id", "bandwidth"});
    }
  };

  Ring(const Config& config, const OverlayParts& parts, const Place& place)
      : Ring(config, config.order == "bandwidth" ? rates_of(parts.network, place) : RateBelief{},
             place) {}
  // `rate`: the assumed rates, the same at all nodes; empty: unknown, and the order is that of the
  // ranks. The order covers all workers of the job; lost workers are left out.
  Ring(const Config& config, const RateBelief& rate, const Place& place)
      : streamed_(config.phases == "streamed") {
    if (config.order == "id" || !rate) return;
    std::vector<Rank> workers;
    for (Rank rank = 0; rank < place.size(); ++rank)
      if (place.member(rank).is(Role::worker)) workers.push_back(rank);
    const flow::Circle best = flow::best_circle(
        std::uint32_t(workers.size()),
        [&](std::uint32_t from, std::uint32_t to) { return rate(workers[from], workers[to]); });
    for (const std::uint32_t worker : best.order) order_.push_back(workers[worker]);
  }

  Partition cut(std::uint64_t length, std::uint32_t workers, std::uint64_t chunk) const override {
    return {length, workers, chunk};
  }
  // Returns paths once round to the owner, the last in line, and once round from it.
  std::optional<RoutePlan> routes(const Partition& grid, const GroupMembers& team) const override {
    auto routes = Topology::routes(grid, team);
    std::vector<std::uint32_t> places;
    for (const Rank rank : circle(team)) places.push_back(team.place_of(rank).value());
    for (Tree& tree : routes->forest.trees)
      for (std::size_t i = 0; i < places.size(); ++i) {
        const std::uint32_t from = places[i], to = places[(i + 1) % places.size()];
        if (from != tree.root) tree.reduce_to[from] = to;
        if (to != tree.root) tree.spread_from[to] = from;
      }
    return routes;
  }
  std::unique_ptr<Attempt> open(const ExchangeSpec& spec) const override {
    return std::make_unique<RingAttempt>(spec, streamed_, circle(*spec.team));
  }

  // Returns all members in the order of the circle.
  std::vector<Rank> circle(const GroupMembers& team) const {
    if (order_.empty()) return team.members;
    return those_of(order_, [&](Rank rank) { return team.index_of(rank); });
  }

 private:
  const bool streamed_;
  std::vector<Rank> order_;  // empty: by rank
};

}  // namespace longhaul::overlay
