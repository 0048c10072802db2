#pragma once
// The attempt of all overlays that are plans (tree.h). Every piece goes up its tree as parts, and
// down again as a mean, in the bytes that the root wrote. Inner nodes reduce the parts.
//
// mixed: A node sends up the mean of the nodes below it and its own part, first its own and then
// its children's in ascending order,
//     m <- m + (a / A) (z - m)    A: sum of the weights so far, with a
// in double, rounded once a node. A node without contributions below it sends its own bytes.
//
// in_turn: The node adds its own part to the one that arrives (ring: Patarasu and Yuan, "Bandwidth
// optimal all-reduce algorithms for clusters of workstations", 2009). The first node of the path
// sends zeros of weight 0 if it has no contribution.
//
// by_rank: The root adds up all parts in rank order (reduction.h). everywhere: Every node does so,
// and sends no mean.
//
// An announcement goes to all nodes above. So every node knows the weight below each child before
// it mixes, and does not wait for nodes without a contribution.
#include <algorithm>
#include <map>

#include "longhaul/overlay/attempt.h"
#include "longhaul/overlay/reduction.h"

namespace longhaul::overlay {

class PlanAttempt final : public Attempt {
  static constexpr std::uint32_t kMostLinks = 64;  // links of a path that affect the order

 public:
  explicit PlanAttempt(const ExchangeSpec& spec)
      : Attempt(spec),
        trees_(spec.plan->tree_set()),
        how_(spec.plan->how()),
        self_(spec.team->place_of(spec.team->self).value()),
        to_reduce_(is(Sums::everywhere) ? spec.grid().pieces()
                                        : spec.plan->pieces_of(spec.team->self).size()),
        done_(spec.grid().pieces()) {
    if (adds_up() && to_reduce_ == 0) return;  // leaves know no weights: there may be many
    weights_.assign(spec.team->nodes(), kUnknownWeight);
    pending_weights_ = std::uint32_t(spec.team->members.size());
    // A server that is no member does not contribute.
    std::fill(weights_.begin() + pending_weights_, weights_.end(), 0.0);
    recount_all();
  }

  // --- weights
  void contribute(std::uint64_t length, double weight, AttemptContext& context) override {
    set_contribution(weight);
    for (const std::uint32_t place : trees_.above())
      context.shares.emplace_back(spec_.team->node(place), share(length));
    if (is(Sums::everywhere)) send_own(0, context);
    if (!weights_.empty()) set_weight(self_, weight, context);
    for (const std::uint32_t tree : trees_.order()) go_on(tree, context);
  }

  Status take_announcement(Rank from, const Announcement& share, AttemptContext& context) override {
    const auto place = spec_.team->index_of(from);
    if (!place || place == self_) return refuse(from, "a share of who is no member");
    const auto below = [&](std::uint32_t tree) { return stands_below(*place, tree); };
    if (is(Sums::in_turn) ? place != trees_.previous() && !is_teller()
                          : std::ranges::none_of(trees_.inner(), below))
      return refuse(from, "a share for a node that does not stand above it");
    if (weights_[*place] != kUnknownWeight) return refuse(from, "a second share");
    set_weight(*place, share.weight, context);
    for (const std::uint32_t tree : trees_.inner())
      if (!is(Sums::in_turn) && below(tree) && (share.weight == 0 || knows(tree)))
        go_on(tree, context);
    return Ok{};
  }

  // --- pieces
  Result<bool> admit(Rank from, const TransferKey& key, std::size_t piece) const override {
    const TreeNode& branch = branch_of(piece);
    const auto place = spec_.team->place_of(from);
    if (Phase(key.phase) == Phase::mean) {
      if (key != mean_key(spec_.plan->owner(piece)) || is_root(branch) ||
          place != branch.spread_from)
        return refuse(from, "a mean that does not come this way, or in another coding");
      if (!contributed()) return refuse(from, "a mean of a round that lacks this node's part");
      return true;
    }
    const auto child = upstream_child_of(branch, place);
    if (!child) return refuse(from, "a part from who does not stand below");
    // A node with children may send a mean so far, or its own bytes if they do not contribute. In
    // turn, zeros must not enter a codec's memory, and are no first part.
    const bool leaf = branch.upstream_children[*child].leaf;
    const bool own =
        key == this->key(Phase::part, Coding::up, from) && (leaf || !is(Sums::in_turn));
    const bool mixed =
        key == this->key(Phase::part, Coding::down, from) && (!leaf || is(Sums::in_turn));
    if (!own && !mixed) return refuse(from, "a part that is not its own, or in another coding");
    if (weights_[*place] == kUnknownWeight) return refuse(from, "a part before its share");
    if (done_[piece] || is_here(piece, *place)) return refuse(from, "a part for the second time");
    if (announced(piece, *child) == 0.0) return refuse(from, "a part of those who bring nothing");
    return true;
  }

  Status take(Arrival&& arrival, std::size_t piece, AttemptContext& context) override {
    if (Phase(arrival.key.phase) == Phase::mean) {
      context.means[piece] = std::move(arrival.values);
      spread(arrival.key, piece, context.arrived, arrival.weight, context);
      if (how_.window > 0 && weight() > 0) send_own(0, context);
      return Ok{};
    }
    const std::uint32_t place = *spec_.team->place_of(arrival.from);
    if (done_[piece]) return refuse(arrival.from, "a part that was not awaited");
    // Parts that arrive before all announcements get their weights from these later.
    const std::size_t child = *upstream_child_of(branch_of(piece), place);
    const auto weight = announced(piece, child);
    const bool fits = weight ? arrival.weight == *weight : counts_sender(arrival, piece, child);
    if (!fits) return refuse(arrival.from, "a weight unlike the shares of those below it");
    if (adds_up()) {
      sum_of(piece).add(place, std::move(arrival.values), weights_);
    } else {
      waiting_[std::uint32_t(piece)][place] = {std::move(arrival.values), arrival.weight};
    }
    advance(piece, context);
    return Ok{};
  }

  Payload encoded(const TransferKey& key, std::size_t piece, AttemptContext& context) override {
    const auto out = outbox_.find({key.phase, std::uint32_t(piece)});
    if (out != outbox_.end()) {
      Payload bytes = write(out->second, piece, context);
      if (--out->second.left == 0) outbox_.erase(out);
      return bytes;
    }
    LH_CHECK(Phase(key.phase) == Phase::part && (weight() > 0 || is(Sums::in_turn)));
    if (weight() > 0) return context.buffers.own_bytes(piece);
    const std::vector<float> zeros(spec_.grid().range(piece).length);
    return context.buffers.write(piece, key.coding, zeros);
  }

  Progress progress() const override { return {to_reduce_ == 0, outbox_.empty()}; }
  std::string waiting_for(const std::vector<bool>& mean_pieces) const override {
    const std::string shares = ": shares of ";
    if (const auto ranks = silent(); is(Sums::mixed) && !ranks.empty())
      return round_text() + shares + named_ranks(ranks);
    if (const auto ranks = slow_children(); !ranks.empty())
      return round_text() + ": parts of " + named_ranks(ranks);
    std::set<Rank> sources;
    for (std::uint32_t piece = 0; piece < done_.size(); ++piece)
      if (piece >= mean_pieces.size() || !mean_pieces[piece])
        if (const TreeNode& branch = branch_of(piece); !is_root(branch))
          sources.insert(spec_.team->node(branch.spread_from));
    if (!sources.empty())
      return round_text() + ": means of " + named_ranks({sources.begin(), sources.end()});
    if (const auto ranks = silent(); is_teller() && !ranks.empty())
      return round_text() + shares + named_ranks(ranks);
    return round_text() + ": roster of rank " + std::to_string(spec_.plan->root());
  }

  void state(Archive& ar) override {
    Attempt::state(ar);
    const std::size_t nodes = weights_.size(), pieces = done_.size();
    ar(weights_, pending_weights_, to_reduce_, begun_parts_, done_, waiting_, sums_, outbox_,
       held_);
    if (!ar.loading()) return;
    if (weights_.size() != nodes || done_.size() != pieces)
      return ar.fail("holds an attempt along other trees");
    if (!weights_.empty()) recount_all();
  }

 private:
  struct Known {                              // weights of a tree in which this node is no leaf
    std::uint32_t unknown = 0;                // nodes below whose weight is unknown
    std::vector<double> upstream_children{};  // weight of each, once all are known
    double all = 0;                           // sum, with this node's own weight
  };
  struct Part {
    std::vector<float> values;
    double weight = 0;
    void state(auto& ar) { ar(values, weight); }
  };
  struct Out {
    std::optional<Payload> bytes;  // absent: this node's own part, until it is written
    std::uint32_t left = 0;        // sends to come
    void state(auto& ar) { ar(bytes, left); }
  };

  bool is(Sums sums) const { return how_.sums == sums; }
  bool adds_up() const { return is(Sums::by_rank) || is(Sums::everywhere); }
  const TreeNode& branch_of(std::size_t piece) const {
    return trees_.branch(trees_.tree_of(piece));
  }
  bool is_root(const TreeNode& branch) const { return branch.root == self_; }
  bool is_teller() const { return spec_.plan->root() == spec_.team->self; }
  TransferKey mean_key(Rank owner) const { return key(Phase::mean, how_.means, owner); }

  // Returns the child's number in the branch, if it is one.
  static std::optional<std::size_t> upstream_child_of(const TreeNode& branch,
                                                      std::optional<std::uint32_t> place) {
    const auto& children = branch.upstream_children;
    const auto at =
        std::ranges::lower_bound(children, place.value_or(~0u), {}, &UpstreamChild::place);
    if (at == children.end() || at->place != place) return std::nullopt;
    return std::size_t(at - children.begin());
  }

  bool stands_below(std::uint32_t place, std::uint32_t tree) const {
    return std::ranges::binary_search(trees_.branch(tree).below, place);
  }

  bool is_here(std::size_t piece, std::uint32_t place) const {
    const auto sum = sums_.find(std::uint32_t(piece));
    if (sum != sums_.end()) return sum->second.has(place);
    const auto parts = waiting_.find(std::uint32_t(piece));
    return parts != waiting_.end() && parts->second.contains(place);
  }

  // Returns true if all weights in a tree in which this node is no leaf are known.
  bool knows(std::uint32_t tree) const {
    return known_.at(tree).unknown == 0 && weights_[self_] != kUnknownWeight;
  }

  // Returns the weight of the parts of a child, if announcements tell.
  std::optional<double> announced(std::size_t piece, std::size_t child) const {
    if (is(Sums::in_turn)) return std::nullopt;
    if (adds_up()) return weights_[branch_of(piece).upstream_children[child].place];
    const Known& known = known_.at(trees_.tree_of(piece));
    if (known.unknown > 0) return std::nullopt;
    return known.upstream_children[child];
  }

  // in_turn: Returns true if the sum of weights that came with a part contains the sender's.
  bool counts_sender(const Arrival& part, std::size_t piece, std::size_t child) const {
    if (!is(Sums::in_turn)) return true;
    const UpstreamChild& sender = branch_of(piece).upstream_children[child];
    const double own = weights_[sender.place];
    return sender.leaf ? part.weight == own : part.weight >= own;
  }

  // in_turn: the weight of a part comes with it.
  void recount_all() {
    if (is(Sums::in_turn)) return;
    for (const std::uint32_t tree : trees_.inner()) recount(tree);
  }

  // Sums in ascending order, so that child and parent get the same result.
  void recount(std::uint32_t tree) {
    const TreeNode& branch = trees_.branch(tree);
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
    if (--pending_weights_ == 0 && is_teller() && !adds_up()) tell(context);
    if (is(Sums::in_turn)) return;
    for (const std::uint32_t tree : trees_.inner())
      if (stands_below(place, tree) && (place == self_ || --known_.at(tree).unknown == 0))
        recount(tree);
  }

  void tell(AttemptContext& context) {
    tell_contributors(std::span(weights_).first(spec_.team->members.size()), context);
  }

  // Called when this node contributes, and when an announcement may complete what pieces need.
  void go_on(std::uint32_t tree, AttemptContext& context) {
    const TreeNode& branch = trees_.branch(tree);
    const auto pieces = trees_.pieces(tree);
    const bool leaf = branch.upstream_children.empty() && !is_root(branch);
    if (leaf) return send_own(tree, context);
    if (is(Sums::in_turn)) {
      for (const std::uint32_t piece : pieces) advance(piece, context);
      return;
    }
    const bool all_known = knows(tree);
    const Known& known = known_.at(tree);
    if (adds_up()) {
      if (all_known && known.all == 0) {  // an empty mean
        to_reduce_ = 0;
        if (is_teller()) tell(context);
        return;
      }
      std::vector<std::uint32_t> open;
      for (const auto& [piece, sum] : sums_) open.push_back(piece);
      // No part will arrive to open a piece if this node is the only one that contributes.
      if (all_known && known.all == weight()) open.assign(pieces.begin(), pieces.end());
      for (const std::uint32_t piece : open) advance(piece, context);
      return;
    }
    if (!all_known) return;
    const auto brings = [](double weight) { return weight > 0; };
    if (std::ranges::any_of(known.upstream_children, brings)) {
      for (const std::uint32_t piece : pieces) advance(piece, context);
      return;
    }
    // No node below contributes: this node's own bytes are the whole part.
    for (const std::uint32_t piece : pieces) done_[piece] = true, waiting_.erase(piece);
    if (!is_root(branch)) return send_own(tree, context);
    for (const std::uint32_t piece : pieces)
      if (weight() > 0) finish(piece, context.buffers.own_values(piece), weight(), context);
    if (weight() == 0) to_reduce_ -= pieces.size();  // an empty mean
  }

  // Sends this node's own part to the next, or everywhere.
  void send_own(std::uint32_t tree, AttemptContext& context) {
    if (weight() == 0 && !is(Sums::in_turn)) return;
    const TreeNode& branch = trees_.branch(tree);
    std::span<const std::uint32_t> pieces = trees_.pieces(tree);
    const TransferKey key =
        this->key(Phase::part, weight() > 0 ? Coding::up : Coding::down, spec_.team->self);
    if (is(Sums::everywhere)) {
      const auto& others = branch.downstream_children;
      if (others.empty()) return;
      for (const std::uint32_t piece : pieces)
        outbox_[{key.phase, piece}] = {std::nullopt, std::uint32_t(others.size())};
      for (const DownstreamChild& to : others)
        send(key, to.place, spec_.plan->ranges(pieces), weight(), to.way, context);
      return;
    }
    if (how_.window == 0)
      return send(key, branch.reduce_to, spec_.plan->ranges(pieces), weight(), branch.way, context);
    // One owner, and means arrive in the order of the pieces.
    const std::size_t count = begun_parts_ == 0 ? how_.window : 1;
    for (std::size_t i = 0; i < count && begun_parts_ < pieces.size(); ++i)
      send(key, branch.reduce_to, spec_.plan->ranges(pieces.subspan(begun_parts_++, 1)), weight(),
           branch.way, context);
  }

  // Reduces and sends a piece if all its parts have arrived.
  void advance(std::size_t piece, AttemptContext& context) {
    if (done_[piece]) return;
    if (adds_up()) return add_up(piece, context);
    const std::uint32_t tree = trees_.tree_of(piece);
    const TreeNode& branch = trees_.branch(tree);
    if (is(Sums::in_turn) ? !contributed() : !knows(tree)) return;
    for (std::size_t i = 0; i < branch.upstream_children.size(); ++i)
      if (owes(piece, i)) return;
    auto [mean, weight] = mix(piece, context);
    done_[piece] = true;
    if (is_root(branch)) {
      if (weight > 0) finish(piece, std::move(mean), weight, context);  // else: an empty mean
      return;
    }
    const TransferKey key = this->key(Phase::part, Coding::down, spec_.team->self);
    outbox_[{key.phase, std::uint32_t(piece)}] = {context.buffers.write(piece, key.coding, mean),
                                                  1};
    if (auto ranges = ready(Phase::part, piece); !ranges.empty())
      send(key, branch.reduce_to, ranges, weight, branch.way, context);
  }

  // This node encodes its own part only in its turn, so that it is not kept twice.
  void add_up(std::size_t piece, AttemptContext& context) {
    Reduction& sum = sum_of(piece);
    if (weight() > 0 && sum.wants(self_, weights_)) {
      // After its mean this node's vector may be gone.
      const auto own = outbox_.find({std::uint8_t(Phase::part), std::uint32_t(piece)});
      if (own != outbox_.end()) write(own->second, piece, context);
      sum.add(self_, context.buffers.own_values(piece), weights_);
    }
    if (!sum.advance(weights_)) return;
    const double weight = known_.at(trees_.tree_of(piece)).all;
    std::vector<float> mean = sum.mean(weight);
    sums_.erase(std::uint32_t(piece));
    finish(piece, std::move(mean), weight, context);
  }

  Reduction& sum_of(std::size_t piece) {
    return sums_.try_emplace(std::uint32_t(piece), spec_.of_senders).first->second;
  }

  // Returns true if this child has a part to send that is not here.
  bool owes(std::size_t piece, std::size_t child) const {
    const std::uint32_t place = branch_of(piece).upstream_children[child].place;
    const auto weight = announced(piece, child);
    return (!weight || *weight != 0) && !is_here(piece, place);
  }

  // Returns the mean of this node's own part and its children's, and their weight.
  std::pair<std::vector<float>, double> mix(std::size_t piece, AttemptContext& context) {
    const bool in_turn = is(Sums::in_turn);
    std::vector<double> mean;
    double sum = 0;
    const auto add = [&](const std::vector<float>& part, double weight) {
      sum += weight;
      if (mean.empty()) return mean.assign(part.begin(), part.end());
      const double share = weight / sum;
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += share * (double(part[i]) - mean[i]);
    };
    const auto add_own = [&] {
      if (weight() > 0) add(context.buffers.own_values(piece), weight());
    };
    if (!in_turn) add_own();
    const auto& children = branch_of(piece).upstream_children;
    for (std::size_t i = 0; i < children.size(); ++i) {
      const Part& part = waiting_[std::uint32_t(piece)][children[i].place];
      const double weight = announced(piece, i).value_or(part.weight);
      if (in_turn || weight > 0) add(part.values, weight);
    }
    if (in_turn) add_own();
    waiting_.erase(std::uint32_t(piece));
    return {{mean.begin(), mean.end()}, in_turn ? sum : known_.at(trees_.tree_of(piece)).all};
  }

  // The root, too, uses the mean as the others will read it.
  void finish(std::size_t piece, std::vector<float> mean, double weight, AttemptContext& context) {
    done_[piece] = true;
    --to_reduce_;
    if (piece == 0 && adds_up() && is_teller()) tell(context);
    if (is(Sums::everywhere)) return void(context.means[piece] = std::move(mean));
    const TransferKey key = mean_key(spec_.team->self);
    Payload bytes = context.buffers.write(piece, key.coding, mean);
    if (spec_.team->takes_part())
      context.means[piece] = context.buffers.read(piece, key.coding, bytes);
    spread(key, piece, std::move(bytes), weight, context);
  }

  void spread(const TransferKey& key, std::size_t piece, Payload bytes, double weight,
              AttemptContext& context) {
    const std::vector<DownstreamChild>& children = branch_of(piece).downstream_children;
    if (children.empty()) return;
    outbox_[{key.phase, std::uint32_t(piece)}] = {std::move(bytes), std::uint32_t(children.size())};
    const std::vector<Range> ranges = ready(Phase::mean, piece);
    if (ranges.empty()) return;
    for (const DownstreamChild& child : children)
      send(key, child.place, ranges, weight, child.way, context);
  }

  // Returns the ranges that may be sent with this piece: it alone, or all of its tree with the last
  // piece.
  std::vector<Range> ready(Phase phase, std::size_t piece) {
    if (how_.streamed) return {spec_.grid().range(piece)};
    const std::uint32_t tree = trees_.tree_of(piece);
    const auto pieces = trees_.pieces(tree);
    if (++held_[{std::uint8_t(phase), tree}] < pieces.size()) return {};
    return spec_.plan->ranges(pieces);
  }

  // `way`: number of links ahead.
  void send(const TransferKey& key, std::uint32_t place, const std::vector<Range>& ranges,
            double weight, std::uint32_t way, AttemptContext& context) {
    const Rank to = spec_.team->node(place);
    const std::uint32_t hops = trees_.hops(), hop = hops - way;
    if (!how_.interleaved)
      return post(key, to, ranges, weight, hop, hops + (is(Sums::in_turn) ? 2 : 0), context);
    // All rounds have one stride whatever their trees, so that older ones go first.
    const auto stride = kMostLinks * std::uint32_t(spec_.grid().pieces());
    for (const Range& range : ranges) {
      const auto piece = std::uint32_t(spec_.grid().find(range).value());
      // A piece that no node passes on can wait until all else is sent: then there is something to
      // send while the last pieces are in transit.
      const auto lag = way > 1 ? trees_.lag() : std::uint32_t(spec_.grid().pieces());
      const std::uint32_t place_in_line = std::min(hop * lag + piece, stride - 1);
      post(key, to, {range}, weight, place_in_line, stride, context);
    }
  }

  const Payload& write(Out& out, std::size_t piece, AttemptContext& context) {
    if (!out.bytes) out.bytes = context.buffers.own_bytes(piece);
    return *out.bytes;
  }

  // Returns the nodes whose announcements this node lacks.
  std::vector<Rank> silent() const {
    std::vector<Rank> ranks;
    for (std::uint32_t place = 0; place < weights_.size(); ++place) {
      const auto below = [&](std::uint32_t tree) { return stands_below(place, tree); };
      if (weights_[place] == kUnknownWeight &&
          (is(Sums::in_turn) || std::ranges::any_of(trees_.inner(), below)))
        ranks.push_back(spec_.team->node(place));
    }
    return ranks;
  }

  // Returns the children that owe parts of some piece.
  std::vector<Rank> slow_children() const {
    std::set<Rank> ranks;
    for (std::uint32_t piece = 0; piece < done_.size(); ++piece) {
      const auto& children = branch_of(piece).upstream_children;
      for (std::size_t i = 0; i < children.size() && !done_[piece]; ++i)
        if (owes(piece, i)) ranks.insert(spec_.team->node(children[i].place));
    }
    return {ranks.begin(), ranks.end()};
  }

  const TreeSet& trees_;
  const ReducePlan::How& how_;
  const std::uint32_t self_;              // place of this node
  std::vector<double> weights_;           // by place; by_rank: only at roots
  std::uint32_t pending_weights_ = 0;     // members whose weight is missing for the roster
  std::map<std::uint32_t, Known> known_;  // by tree; follows from weights_
  std::size_t to_reduce_ = 0;             // pieces whose root is this node
  std::uint64_t begun_parts_ = 0;         // with a window: pieces posted so far
  std::vector<bool> done_;                // pieces that need no more parts
  std::map<std::uint32_t, std::map<std::uint32_t, Part>> waiting_;  // by piece, place
  std::map<std::uint32_t, Reduction> sums_;  // by piece, from its first part on
  std::map<std::pair<std::uint8_t, std::uint32_t>, Out> outbox_;  // (phase, piece)
  // sequential: number of pieces of (phase, tree) that wait to be sent on
  std::map<std::pair<std::uint8_t, std::uint32_t>, std::uint64_t> held_;
};

}  // namespace longhaul::overlay
