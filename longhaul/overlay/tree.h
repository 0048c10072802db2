#pragma once
// A ReducePlan is an overlay as a value: trees along which the parts of a vector are reduced and
// their mean is spread, and how. It is made by a topology or read from a peer. A TreeSet is the
// view of one node; PlanAttempt (plan_attempt.h) carries it out.
//
// Nodes are numbered by their place in GroupMembers::members. A server that is no member has the
// place behind the last member.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/core/coder.h"

namespace longhaul::overlay {

struct Tree {
  std::uint32_t root = 0;
  // Receiver of a node's sum, and source of its mean; the root: itself. Both empty: a star, in
  // which all stand right below the root.
  std::vector<std::uint32_t> reduce_to, spread_from;
  std::uint32_t up(std::uint32_t place) const {
    return reduce_to.empty() ? root : reduce_to[place];
  }
  std::uint32_t down(std::uint32_t place) const {
    return reduce_to.empty() ? root : spread_from[place];
  }
  void state(auto& ar) { ar(root, reduce_to, spread_from); }
};

enum class Sums : std::uint8_t {
  mixed,    // a node sends up the mean of its own part and its children's, once it has all of them
  in_turn,  // the same along paths; the weight comes with the part, and not from an announcement
  by_rank,  // stars: the root adds up all parts in rank order, and rounds once
  everywhere  // every node does so, for all pieces; no mean is sent
};

struct ReducePlan {
  std::vector<Tree> trees;
  std::vector<std::uint32_t> tree_of;  // by piece; pieces of one vector may use different trees
  // For topologies that spread every range of the vector over all trees. Among pieces that wait for
  // a link, a piece stands this many pieces farther behind for each link that it has crossed.
  // Absent: behind all pieces that have crossed fewer links.
  std::optional<std::uint32_t> lag = {};
  struct How {
    Sums sums = Sums::mixed;
    bool streamed = true;  // a piece is sent on alone; else with the last piece of its tree
    // Waiting pieces go in the order of the vector, whatever their trees, and later the more links
    // they have crossed (lag); else tree by tree.
    bool interleaved = false;
    Coding means = Coding::down;  // coding of the mean
    // by_rank, one tree: pieces of a member in transit whose mean has not arrived; 0: no limit.
    std::uint32_t window = 0;
  };
  How how = {};
};

// Returns an Error unless every tree has a path from each of `nodes` places to the root, both ways,
// and every piece has a tree. A server that is no member (places from `members` on) must be the
// root. Plans may come from peers.
Status check_plan(const ReducePlan&, std::uint32_t members, std::uint32_t nodes,
                  std::size_t pieces);

// The child from which a node gets parts of a tree.
struct UpstreamChild {
  std::uint32_t place = 0;
  bool leaf = true;                       // it sends its own part only
  std::vector<std::uint32_t> below = {};  // nodes whose parts it sends, with its own; ascending
};
// The child to which a node passes means on, and the links on the longest path through it.
struct DownstreamChild {
  std::uint32_t place = 0;
  std::uint32_t way = 0;
};
// A tree as one of its nodes sees it. in_turn: without the lists `above` and `below`, which would
// take as much memory as there are pairs of nodes.
struct TreeNode {
  std::uint32_t root = 0;
  std::uint32_t reduce_to = 0;
  std::uint32_t spread_from = 0;
  std::vector<UpstreamChild> upstream_children = {};      // ascending
  std::vector<DownstreamChild> downstream_children = {};  // ascending
  std::vector<std::uint32_t> above = {};                  // all nodes on the path to the root
  std::vector<std::uint32_t> below = {};  // nodes whose parts go up from here; ascending
  std::uint32_t way = 0;  // links ahead of a part that leaves here: up, and down as a mean
};
// `nodes`: number of places; needed of a star only.
TreeNode branch_of(const Tree&, std::uint32_t place, std::uint32_t nodes = 0);

// The number of links on the longest path of a part up the tree, and of its mean down again.
struct Depths {
  std::uint32_t up = 0, down = 0;
};
Depths depths_of(const Tree&, std::uint32_t nodes = 0);
// Returns the sum of both.
std::uint32_t hops_of(const Tree&, std::uint32_t nodes = 0);

class TreeSet {
 public:
  TreeSet(const ReducePlan&, std::uint32_t place, std::uint32_t nodes = 0);

  std::uint32_t trees() const { return std::uint32_t(branches_.size()); }
  std::uint32_t tree_of(std::size_t piece) const { return tree_of_[piece]; }
  const TreeNode& branch(std::uint32_t tree) const { return branches_[tree]; }
  std::span<const std::uint32_t> pieces(std::uint32_t tree) const { return pieces_[tree]; }
  // Returns the trees with pieces, in the order in which this node sends its parts. by_rank: it
  // begins with the root after this node, so that traffic spreads if all do so.
  std::span<const std::uint32_t> order() const { return order_; }
  // Returns those in which this node is no leaf.
  std::span<const std::uint32_t> inner() const { return inner_; }
  std::uint32_t hops() const { return hops_; }  // the most that a piece crosses: see hops_of()
  std::uint32_t lag() const { return lag_; }    // see ReducePlan; absent: the number of pieces
  // Returns the nodes that need this node's weight: all above it in trees that have pieces, from
  // the place after this node on. in_turn: the next in the circle, and the root of the first piece.
  std::span<const std::uint32_t> above() const { return above_; }
  // in_turn: the node before this one in the circle.
  std::optional<std::uint32_t> previous() const { return previous_; }

 private:
  std::vector<TreeNode> branches_;  // by tree; empty for one without pieces
  std::vector<std::uint32_t> tree_of_, order_, inner_;
  std::vector<std::vector<std::uint32_t>> pieces_;
  std::vector<std::uint32_t> above_;
  std::optional<std::uint32_t> previous_;
  std::uint32_t hops_ = 0;
  std::uint32_t lag_ = 0;
};

}  // namespace longhaul::overlay
