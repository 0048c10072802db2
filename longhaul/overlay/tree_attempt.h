#pragma once
// The attempt of all overlays that work along trees (tree.h). A node sends up, piece by piece, the
// mean of the nodes below it and its own part, first its own and then its children's in ascending
// order,
//     m <- m + (a / A) (z - m)    A: sum of the weights so far, with a
// in double, rounded once a node. A node without contributions below it sends its own bytes. The
// root has the mean, whose bytes go down as the root wrote them.
//
// An announcement goes to all nodes above. So every node knows the weight below each child before
// it mixes, and does not wait for nodes without a contribution.
#include <algorithm>
#include <map>

#include "longhaul/core/registry.h"
#include "longhaul/overlay/attempt.h"
#include "longhaul/overlay/reduction.h"

namespace longhaul::overlay {

class TreeAttempt final : public Attempt {
  static constexpr std::uint32_t kMostLinks = 64;  // links of a path that affect the order

 public:
  // streamed: a piece is sent on when it is mixed or has arrived; else when all pieces of its tree
  // are. interleaved: waiting pieces go in the order of the vector, whatever their trees, and later
  // the more links they have crossed (Forest::lag); else tree by tree.
  TreeAttempt(const ExchangeSpec& spec, bool streamed, bool interleaved = false)
      : Attempt(spec),
        streamed_(streamed),
        interleaved_(interleaved),
        self_(spec.team->place_of(spec.team->self).value()),
        weights_(spec.team->nodes(), kUnknownWeight),
        pending_weights_(std::uint32_t(spec.team->members.size())),
        known_(tree_set().trees()),
        to_reduce_(spec.plan->pieces_of(spec.team->self).size()),
        mixed_(spec.grid().pieces()) {
    // A server that is no member does not contribute.
    for (std::size_t place = pending_weights_; place < weights_.size(); ++place)
      weights_[place] = 0;
    for (std::uint32_t tree = 0; tree < known_.size(); ++tree) recount(tree);
  }

  void contribute(std::uint64_t length, double weight, AttemptContext& context) override {
    set_contribution(weight);
    for (const std::uint32_t place : tree_set().above())
      context.shares.emplace_back(spec_.team->node(place), share(length));
    set_weight(self_, weight, context);
  }

  Status take_announcement(Rank from, const Announcement& share, AttemptContext& context) override {
    const auto place = spec_.team->index_of(from);
    if (!place || place == self_) return refuse(from, "a share of who is no member");
    bool below = false;
    for (std::uint32_t tree = 0; tree < tree_set().trees() && !below; ++tree)
      below = stands_below(*place, tree);
    if (!below) return refuse(from, "a share for a node that does not stand above it");
    if (weights_[*place] != kUnknownWeight) return refuse(from, "a second share");
    set_weight(*place, share.weight, context);
    return Ok{};
  }

  Result<bool> admit(Rank from, const TransferKey& key, std::size_t piece) const override {
    const TreeNode& branch = branch_of(piece);
    const auto place = spec_.team->place_of(from);
    if (Phase(key.phase) == Phase::mean) {
      const Rank owner = spec_.plan->owner(piece);
      if (key != this->key(Phase::mean, Coding::down, owner) || is_root(branch) ||
          place != branch.spread_from)
        return refuse(from, "a mean that does not come this way, or in another coding");
      if (!contributed()) return refuse(from, "a mean of a round that lacks this node's part");
      return true;
    }
    const auto child = upstream_child_of(branch, place);
    if (!child) return refuse(from, "a part from who does not stand below");
    // A node with children may send a mean so far, or its own bytes if they do not contribute.
    const bool mixed = branch.upstream_children[*child].below.size() > 1 &&
                       key == this->key(Phase::part, Coding::down, from);
    if (key != this->key(Phase::part, Coding::up, from) && !mixed)
      return refuse(from, "a part that is not its own, or in another coding");
    if (weights_[*place] == kUnknownWeight) return refuse(from, "a part without a share before it");
    if (mixed_[piece] || is_here(piece, *place)) return refuse(from, "a part for the second time");
    const Known& known = known_[tree_set().tree_of(piece)];
    if (known.unknown == 0 && known.upstream_children[*child] == 0)
      return refuse(from, "a part of those who bring nothing");
    return true;
  }

  Status take(Arrival&& arrival, std::size_t piece, AttemptContext& context) override {
    if (Phase(arrival.key.phase) == Phase::mean) {
      Payload bytes = context.arrived;
      context.means[piece] = std::move(arrival.values);
      spread(arrival.key, piece, std::move(bytes), arrival.weight, context);
      return Ok{};
    }
    const std::uint32_t place = *spec_.team->place_of(arrival.from);
    const Known& known = known_[tree_set().tree_of(piece)];
    if (mixed_[piece]) return refuse(arrival.from, "a part that nobody waits for");
    // Parts that arrive before all announcements get their weights from these later.
    if (known.unknown == 0 &&
        arrival.weight != known.upstream_children[*upstream_child_of(branch_of(piece), place)])
      return refuse(arrival.from, "a weight unlike the shares of those below it");
    waiting_[std::uint32_t(piece)][place] = std::move(arrival.values);
    if (knows(tree_set().tree_of(piece))) advance(piece, context);
    return Ok{};
  }

  Payload encoded(const TransferKey& key, std::size_t piece, AttemptContext& context) override {
    const auto out = outbox_.find({key.phase, std::uint32_t(piece)});
    if (out == outbox_.end()) {
      LH_CHECK(Phase(key.phase) == Phase::part && weight() > 0);
      return context.buffers.own_bytes(piece);
    }
    Payload bytes = out->second.bytes;
    if (--out->second.left == 0) outbox_.erase(out);
    return bytes;
  }

  Progress progress() const override { return {to_reduce_ == 0, outbox_.empty()}; }
  std::string waiting_for(const std::vector<bool>& mean_pieces) const override {
    if (const auto ranks = silent(); !ranks.empty())
      return round_text() + ": shares of " + named_ranks(ranks);
    if (const auto ranks = slow_children(); !ranks.empty())
      return round_text() + ": parts of " + named_ranks(ranks);
    std::set<Rank> sources;
    for (std::uint32_t piece = 0; piece < mixed_.size(); ++piece)
      if (piece >= mean_pieces.size() || !mean_pieces[piece])
        if (const TreeNode& branch = branch_of(piece); !is_root(branch))
          sources.insert(spec_.team->node(branch.spread_from));
    return round_text() + (sources.empty()
                               ? ": roster of rank " + std::to_string(spec_.plan->root())
                               : ": means of " + named_ranks({sources.begin(), sources.end()}));
  }

  void state(Archive& ar) override {
    Attempt::state(ar);
    ar(weights_, pending_weights_, to_reduce_, mixed_, waiting_, outbox_, held_);
    if (!ar.loading()) return;
    if (weights_.size() != spec_.team->nodes() || mixed_.size() != spec_.grid().pieces())
      return ar.fail("holds an attempt along other trees");
    for (std::uint32_t tree = 0; tree < known_.size(); ++tree) recount(tree);
  }

 private:
  struct Known {                              // state of a tree
    std::uint32_t unknown = 0;                // nodes below whose weight is unknown
    std::vector<double> upstream_children{};  // weight of each, once all are known
    double all = 0;                           // sum, with this node's own weight
  };
  struct Out {
    Payload bytes;
    std::uint32_t left = 0;  // sends to come
    void state(auto& ar) { ar(bytes, left); }
  };

  const TreeSet& tree_set() const { return spec_.plan->tree_set(); }
  const TreeNode& branch_of(std::size_t piece) const {
    return tree_set().branch(tree_set().tree_of(piece));
  }
  bool is_root(const TreeNode& branch) const { return branch.root == self_; }
  bool is_teller() const { return spec_.plan->root() == spec_.team->self; }
  // Returns the child's number in the branch, if it is one.
  static std::optional<std::size_t> upstream_child_of(const TreeNode& branch,
                                                      std::optional<std::uint32_t> place) {
    for (std::size_t i = 0; i < branch.upstream_children.size(); ++i)
      if (branch.upstream_children[i].place == place) return i;
    return std::nullopt;
  }

  bool stands_below(std::uint32_t place, std::uint32_t tree) const {
    const auto& below = tree_set().branch(tree).below;
    return std::ranges::binary_search(below, place);
  }

  bool is_here(std::size_t piece, std::uint32_t place) const {
    const auto parts = waiting_.find(std::uint32_t(piece));
    return parts != waiting_.end() && parts->second.contains(place);
  }

  // Returns true if all weights that it needs to begin are known.
  bool knows(std::uint32_t tree) const {
    return known_[tree].unknown == 0 && weights_[self_] != kUnknownWeight;
  }

  // Sums in ascending order, so that child and parent get the same result.
  void recount(std::uint32_t tree) {
    const TreeNode& branch = tree_set().branch(tree);
    Known known;
    for (const std::uint32_t one : branch.below) {
      known.unknown += one != self_ && weights_[one] == kUnknownWeight;
      known.all += weights_[one];
    }
    for (const UpstreamChild& child : branch.upstream_children) {
      double sum = 0;
      for (const std::uint32_t one : child.below) sum += weights_[one];
      known.upstream_children.push_back(sum);
    }
    known_[tree] = std::move(known);
  }

  void set_weight(std::uint32_t place, double weight, AttemptContext& context) {
    weights_[place] = weight;
    if (--pending_weights_ == 0 && is_teller())
      tell_contributors(std::span(weights_).first(spec_.team->members.size()), context);
    for (std::uint32_t tree = 0; tree < tree_set().trees(); ++tree) {
      if (!stands_below(place, tree)) continue;
      if (place == self_ || --known_[tree].unknown == 0) recount(tree);
      if (knows(tree)) begin(tree, context);
    }
  }

  // Called when all weights are known.
  void begin(std::uint32_t tree, AttemptContext& context) {
    const Known& known = known_[tree];
    const auto pieces = tree_set().pieces(tree);
    const auto brings = [](double weight) { return weight > 0; };
    if (std::ranges::any_of(known.upstream_children, brings)) {
      for (const std::uint32_t piece : pieces) advance(piece, context);
      return;
    }
    for (const std::uint32_t piece : pieces) mixed_[piece] = true, waiting_.erase(piece);
    if (weights_[self_] > 0) return begin_alone(tree, context);
    if (is_root(tree_set().branch(tree))) to_reduce_ -= pieces.size();  // an empty mean
  }

  // Called when no node below contributes: this node's own bytes are the whole part.
  void begin_alone(std::uint32_t tree, AttemptContext& context) {
    const TreeNode& branch = tree_set().branch(tree);
    const auto pieces = tree_set().pieces(tree);
    if (is_root(branch)) {
      for (const std::uint32_t piece : pieces)
        finish(piece, context.buffers.own_values(piece), weight(), context);
      return;
    }
    const TransferKey key = this->key(Phase::part, Coding::up, spec_.team->self);
    send(key, branch.reduce_to, spec_.plan->ranges(pieces), weight(), branch.way, context);
  }

  // Mixes a piece when the parts of all children have arrived, at once and in one order.
  void advance(std::size_t piece, AttemptContext& context) {
    const std::uint32_t tree = tree_set().tree_of(piece);
    const TreeNode& branch = tree_set().branch(tree);
    const Known& known = known_[tree];
    for (std::size_t i = 0; i < branch.upstream_children.size(); ++i)
      if (known.upstream_children[i] > 0 && !is_here(piece, branch.upstream_children[i].place))
        return;
    const std::vector<float> mean = mix(piece, context);
    mixed_[piece] = true;
    if (is_root(branch)) return finish(piece, mean, known.all, context);
    const TransferKey key = this->key(Phase::part, Coding::down, spec_.team->self);
    outbox_[{key.phase, std::uint32_t(piece)}] = {context.buffers.write(piece, key.coding, mean),
                                                  1};
    if (auto ranges = ready(Phase::part, piece); !ranges.empty())
      send(key, branch.reduce_to, ranges, known.all, branch.way, context);
  }

  // `way`: number of links ahead.
  void send(const TransferKey& key, std::uint32_t place, const std::vector<Range>& ranges,
            double weight, std::uint32_t way, AttemptContext& context) {
    const Rank to = spec_.team->node(place);
    const std::uint32_t hops = tree_set().hops(), hop = hops - way;
    if (!interleaved_) return post(key, to, ranges, weight, hop, hops, context);
    // All rounds have one stride whatever their trees, so that older ones go first.
    const auto stride = kMostLinks * std::uint32_t(spec_.grid().pieces());
    for (const Range& range : ranges) {
      const auto piece = std::uint32_t(spec_.grid().find(range).value());
      // A piece that no node passes on can wait until all else is sent: then there is something to
      // send while the last pieces are in transit.
      const auto lag = way > 1 ? tree_set().lag() : std::uint32_t(spec_.grid().pieces());
      const std::uint32_t place_in_line = std::min(hop * lag + piece, stride - 1);
      post(key, to, {range}, weight, place_in_line, stride, context);
    }
  }

  std::vector<float> mix(std::size_t piece, AttemptContext& context) {
    const std::uint32_t tree = tree_set().tree_of(piece);
    auto parts = waiting_.extract(std::uint32_t(piece));
    std::vector<double> mean;
    double sum = 0;
    const auto add = [&](const std::vector<float>& part, double weight) {
      sum += weight;
      const double share = weight / sum;
      if (mean.empty()) return mean.assign(part.begin(), part.end());
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += share * (double(part[i]) - mean[i]);
    };
    if (weights_[self_] > 0) add(context.buffers.own_values(piece), weights_[self_]);
    const auto& upstream_children = tree_set().branch(tree).upstream_children;
    for (std::size_t i = 0; i < upstream_children.size(); ++i)
      if (known_[tree].upstream_children[i] > 0)
        add(parts.mapped().at(upstream_children[i].place), known_[tree].upstream_children[i]);
    return {mean.begin(), mean.end()};
  }

  // The root, too, uses the mean as the others will read it.
  void finish(std::size_t piece, std::span<const float> mean, double weight,
              AttemptContext& context) {
    const TransferKey key = this->key(Phase::mean, Coding::down, spec_.team->self);
    Payload bytes = context.buffers.write(piece, key.coding, mean);
    --to_reduce_;
    if (spec_.team->takes_part())
      context.means[piece] = context.buffers.read(piece, key.coding, bytes);
    spread(key, piece, std::move(bytes), weight, context);
  }

  void spread(const TransferKey& key, std::size_t piece, Payload bytes, double weight,
              AttemptContext& context) {
    const std::vector<DownstreamChild>& downstream_children = branch_of(piece).downstream_children;
    if (downstream_children.empty()) return;
    outbox_[{key.phase, std::uint32_t(piece)}] = {std::move(bytes),
                                                  std::uint32_t(downstream_children.size())};
    const std::vector<Range> ranges = ready(Phase::mean, piece);
    if (ranges.empty()) return;
    for (const DownstreamChild& child : downstream_children)
      send(key, child.place, ranges, weight, child.way, context);
  }

  // Returns the ranges that may be sent with this piece: it alone, or all of its tree with the last
  // piece.
  std::vector<Range> ready(Phase phase, std::size_t piece) {
    if (streamed_) return {spec_.grid().range(piece)};
    const std::uint32_t tree = tree_set().tree_of(piece);
    const auto pieces = tree_set().pieces(tree);
    if (++held_[{std::uint8_t(phase), tree}] < pieces.size()) return {};
    return spec_.plan->ranges(pieces);
  }

  // Returns the nodes below this one whose announcements have not arrived.
  std::vector<Rank> silent() const {
    std::vector<Rank> ranks;
    for (std::uint32_t place = 0; place < weights_.size(); ++place) {
      if (weights_[place] != kUnknownWeight) continue;
      for (std::uint32_t tree = 0; tree < tree_set().trees(); ++tree) {
        if (!stands_below(place, tree)) continue;
        ranks.push_back(spec_.team->node(place));
        break;
      }
    }
    return ranks;
  }

  // Returns the children that owe parts of some piece.
  std::vector<Rank> slow_children() const {
    std::set<Rank> ranks;
    for (std::uint32_t piece = 0; piece < mixed_.size(); ++piece) {
      if (mixed_[piece]) continue;
      const std::uint32_t tree = tree_set().tree_of(piece);
      const auto& upstream_children = tree_set().branch(tree).upstream_children;
      for (std::size_t i = 0; i < upstream_children.size(); ++i)
        if (known_[tree].upstream_children[i] > 0 && !is_here(piece, upstream_children[i].place))
          ranks.insert(spec_.team->node(upstream_children[i].place));
    }
    return {ranks.begin(), ranks.end()};
  }

  const bool streamed_;
  const bool interleaved_;
  const std::uint32_t self_;           // place of this node
  std::vector<double> weights_;        // by place
  std::uint32_t pending_weights_ = 0;  // members whose weight is missing for the roster
  std::vector<Known> known_;           // by tree; follows from weights_
  std::size_t to_reduce_ = 0;          // pieces whose root is this node
  std::vector<bool> mixed_;            // pieces that need no more parts
  std::map<std::uint32_t, std::map<std::uint32_t, std::vector<float>>> waiting_;  // piece, place
  std::map<std::pair<std::uint8_t, std::uint32_t>, Out> outbox_;                  // (phase, piece)
  // sequential: number of pieces of (phase, tree) that wait to be sent on
  std::map<std::pair<std::uint8_t, std::uint32_t>, std::uint64_t> held_;
};

}  // namespace longhaul::overlay
