#pragma once
// Trees along which the parts of a vector are combined and their mean is distributed. A Forest is a
// plain value, made by a topology or read from a peer; a TreeSet is the view of one node.
//
// Nodes are numbered by their place in GroupMembers::members. A server that is no member has the
// place behind the last member.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "longhaul/base/result.h"

namespace longhaul::overlay {

struct Tree {
  std::uint32_t root = 0;
  std::vector<std::uint32_t> reduce_to;    // receiver of a node's sum; the root: itself
  std::vector<std::uint32_t> spread_from;  // source of a node's mean; the root: itself
  void state(auto& ar) { ar(root, reduce_to, spread_from); }
};

struct Forest {
  std::vector<Tree> trees;
  std::vector<std::uint32_t> tree_of;  // by piece; pieces of one vector may use different trees
  // For topologies that spread every range of the vector over all trees. Among pieces that wait for
  // a link, a piece stands this many pieces farther behind for each link that it has crossed.
  // Absent: behind all pieces that have crossed fewer links.
  std::optional<std::uint32_t> lag = {};
};

// Returns an Error unless every tree has a path from each of `nodes` places to the root, both ways,
// and every piece has a tree. A server that is no member (places from `members` on) must be the
// root. Plans may come from peers.
Status check_forest(const Forest&, std::uint32_t members, std::uint32_t nodes, std::size_t pieces);

// The child from which a node gets parts of a tree.
struct UpstreamChild {
  std::uint32_t place = 0;
  std::vector<std::uint32_t> below;  // nodes whose parts it sends, with its own; ascending
};
// The child to which a node passes means on, and the links on the longest path through it.
struct DownstreamChild {
  std::uint32_t place = 0;
  std::uint32_t way = 0;
};
// A tree as one of its nodes sees it.
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
TreeNode branch_of(const Tree&, std::uint32_t place);

// The number of links on the longest path of a part up the tree, and of its mean down again.
struct Depths {
  std::uint32_t up = 0, down = 0;
};
Depths depths_of(const Tree&);
// Returns the sum of both.
std::uint32_t hops_of(const Tree&);

class TreeSet {
 public:
  TreeSet(const Forest&, std::uint32_t place);

  std::uint32_t trees() const { return std::uint32_t(branches_.size()); }
  std::uint32_t tree_of(std::size_t piece) const { return tree_of_[piece]; }
  const TreeNode& branch(std::uint32_t tree) const { return branches_[tree]; }
  std::span<const std::uint32_t> pieces(std::uint32_t tree) const { return pieces_[tree]; }
  std::uint32_t hops() const { return hops_; }  // the most of any tree: see hops_of()
  std::uint32_t lag() const { return lag_; }    // see Forest; absent: the number of pieces
  // Returns all nodes above this one in trees that have pieces, from the place after this node on,
  // so that traffic spreads if all do so.
  std::span<const std::uint32_t> above() const { return above_; }

 private:
  std::vector<TreeNode> branches_;  // by tree; empty for one without pieces
  std::vector<std::uint32_t> tree_of_;
  std::vector<std::vector<std::uint32_t>> pieces_;
  std::vector<std::uint32_t> above_;
  std::uint32_t hops_ = 0;
  std::uint32_t lag_ = 0;
};

}  // namespace longhaul::overlay
