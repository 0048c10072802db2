#pragma once
// Trees along which the parts of a vector come together and their mean goes back out. A Forest is a
// plain value, made by a topology or read from a peer; a TreeSet is what one node needs of it.
//
// Nodes go by their place: that in GroupMembers::members, and behind the last member a server that
// is none.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "longhaul/base/result.h"

namespace longhaul::overlay {

struct Tree {
  std::uint32_t root = 0;
  std::vector<std::uint32_t> reduce_to;    // whom a node's sum goes to; the root: itself
  std::vector<std::uint32_t> spread_from;  // from whom the mean comes; the root: itself
  void state(auto& ar) { ar(root, reduce_to, spread_from); }
};

struct Forest {
  std::vector<Tree> trees;
  std::vector<std::uint32_t> tree_of;  // by piece; pieces of one vector may use different trees
  // For those who deal the vector's stretches to all trees alike: in what waits for a link a piece
  // stands as far behind the others as this many pieces, for each link that it has crossed. Absent:
  // behind all that has crossed fewer.
  std::optional<std::uint32_t> lag = {};
};

// Is every tree one, both ways: from each of `nodes` places there is a way to the root? Does every
// piece have a tree, and is a server that is no member (places from `members` on) a root and
// nothing else? An Error says what is wrong: plans may come from peers.
Status check_forest(const Forest&, std::uint32_t members, std::uint32_t nodes, std::size_t pieces);

// Who gives a node parts of a tree, and on whose behalf.
struct UpstreamChild {
  std::uint32_t place = 0;
  std::vector<std::uint32_t> below;  // whose parts are in it, its own too; ascending
};
// Whom a node passes means on to, and how many links lie on the longest way that begins so.
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
  std::vector<std::uint32_t> above = {};                  // all on the way to the root
  std::vector<std::uint32_t> below = {};  // whose parts are in what goes up from here; ascending
  std::uint32_t way = 0;  // links before a part that leaves here: up, and out as a mean
};
TreeNode branch_of(const Tree&, std::uint32_t place);

// Links on the longest way of a part up the tree, and of its mean down again.
struct Depths {
  std::uint32_t up = 0, down = 0;
};
Depths depths_of(const Tree&);
// Both together.
std::uint32_t hops_of(const Tree&);

class TreeSet {
 public:
  TreeSet(const Forest&, std::uint32_t place);

  std::uint32_t trees() const { return std::uint32_t(branches_.size()); }
  std::uint32_t tree_of(std::size_t piece) const { return tree_of_[piece]; }
  const TreeNode& branch(std::uint32_t tree) const { return branches_[tree]; }
  std::span<const std::uint32_t> pieces(std::uint32_t tree) const { return pieces_[tree]; }
  std::uint32_t hops() const { return hops_; }  // of the tree with the longest way
  std::uint32_t lag() const { return lag_; }    // see Forest; absent: the number of pieces
  // All who stand above this node in some tree that has pieces; beginning after oneself, so that
  // traffic spreads if all do so.
  std::span<const std::uint32_t> above() const { return above_; }

 private:
  std::vector<TreeNode> branches_;  // by tree; of one without pieces: nothing
  std::vector<std::uint32_t> tree_of_;
  std::vector<std::vector<std::uint32_t>> pieces_;
  std::vector<std::uint32_t> above_;
  std::uint32_t hops_ = 0;
  std::uint32_t lag_ = 0;
};

}  // namespace longhaul::overlay
