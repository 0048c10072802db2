#include "longhaul/overlay/tree.h"

#include <algorithm>
#include <set>
#include <utility>

#include "longhaul/base/check.h"

namespace longhaul::overlay {
namespace {

using Places = std::vector<std::uint32_t>;
constexpr std::uint32_t kNobody = ~0u;

// One direction of a tree, in which every node but the root has a `towards`.
struct Levels {
  Levels(std::uint32_t root, const Places& towards)
      : depth(towards.size()), height(towards.size()) {
    Places child(towards.size(), kNobody), sibling(towards.size(), kNobody);  // lists, ascending
    for (auto place = std::uint32_t(towards.size()); place-- > 0;)
      if (place != root) sibling[place] = std::exchange(child[towards[place]], place);
    order.push_back(root);
    for (std::size_t i = 0; i < order.size(); ++i)
      for (std::uint32_t one = child[order[i]]; one != kNobody; one = sibling[one]) {
        depth[one] = depth[order[i]] + 1;
        order.push_back(one);
      }
    for (auto place = order.rbegin(); *place != root; ++place)
      height[towards[*place]] = std::max(height[towards[*place]], height[*place] + 1);
  }
  Places order;          // from the root on, without nodes that have no path to it
  Places depth, height;  // links to the root, and to the farthest node below
};

Status check_direction(std::uint32_t root, const Places& towards, std::uint32_t nodes) {
  if (towards.size() != nodes)
    return malformed("of " + std::to_string(towards.size()) + " nodes, not of " +
                     std::to_string(nodes));
  for (const std::uint32_t place : towards)
    if (place >= nodes) return malformed("place " + std::to_string(place) + " is nobody's");
  if (towards[root] != root) return malformed("the root stands below another");
  const Levels levels(root, towards);
  if (levels.order.size() == nodes) return Ok{};
  for (std::uint32_t place = 0; place < nodes; ++place)
    if (place != root && levels.depth[place] == 0)
      return malformed("place " + std::to_string(place) + " is on no way to the root");
  return Ok{};
}

Status check_tree(const Tree& tree, std::uint32_t members, std::uint32_t nodes) {
  if (tree.root >= nodes) return malformed("its root is nobody");
  if (!tree.reduce_to.empty() || !tree.spread_from.empty()) {
    LH_TRY(check_direction(tree.root, tree.reduce_to, nodes));
    LH_TRY(check_direction(tree.root, tree.spread_from, nodes));
  }
  for (std::uint32_t server = members; server < nodes; ++server)
    if (tree.root != server) return malformed("a server that is no member is not its root");
  return Ok{};
}

// The branch of a node in a star, also of many thousands of nodes. Its receivers begin after the
// root, so that traffic spreads over them if many are roots.
TreeNode star_branch(std::uint32_t root, std::uint32_t place, std::uint32_t nodes) {
  TreeNode branch{.root = root, .reduce_to = root, .spread_from = root};
  branch.way = place == root ? 1 : 2;
  if (place != root) branch.above = {root};
  for (std::uint32_t i = 0; i < nodes && place == root; ++i) {
    branch.below.push_back(i);
    if (i != root) branch.upstream_children.push_back({i, true, {i}});
    if (i > 0) branch.downstream_children.push_back({(root + i) % nodes, 1});
  }
  return branch;
}

// The circle of a plan with in_turn, seen from one node: every tree is the path that ends at its
// root.
class Circle {
 public:
  Circle(const ReducePlan& plan, std::uint32_t place) {
    const Tree& tree = plan.trees.front();
    nodes_ = std::uint32_t(tree.reduce_to.size());
    distance_.resize(nodes_);
    // The root's next is the start of its path, the only place that no other sends to.
    std::vector<bool> is_next(nodes_);
    for (std::uint32_t one = 0; one < nodes_; ++one)
      if (one != tree.root) is_next[tree.reduce_to[one]] = true;
    const auto start = std::uint32_t(std::ranges::find(is_next, false) - is_next.begin());
    std::uint32_t at = place;
    for (std::uint32_t steps = 0; steps < nodes_; ++steps) {
      distance_[at] = steps;
      previous_ = at;
      at = nodes_ > 1 && at == tree.root ? start : tree.reduce_to[at];
      if (steps == 0) next_ = at;
    }
  }
  std::uint32_t nodes() const { return nodes_; }
  std::uint32_t next() const { return next_; }
  std::uint32_t previous() const { return previous_; }

  TreeNode branch(std::uint32_t root) const {
    const std::uint32_t ahead = distance_[root], last = nodes_ - 1;
    TreeNode branch{.root = root,
                    .reduce_to = ahead == 0 ? root : next_,
                    .spread_from = ahead == 0 ? root : previous_};
    branch.way = ahead + last;
    if (ahead != last) branch.upstream_children = {{previous_, ahead + 1 == last}};
    if (last > 0 && ahead != 1)
      branch.downstream_children = {{next_, ahead == 0 ? last : ahead - 1}};
    return branch;
  }

 private:
  std::uint32_t nodes_ = 0, next_ = 0, previous_ = 0;
  std::vector<std::uint32_t> distance_;  // links from this node, by place
};

}  // namespace

Status check_plan(const ReducePlan& plan, std::uint32_t members, std::uint32_t nodes,
                  std::size_t pieces) {
  for (std::size_t i = 0; i < plan.trees.size(); ++i)
    if (const Status good = check_tree(plan.trees[i], members, nodes); !good)
      return malformed("tree " + std::to_string(i) + ": " + good.error().what);
  if (plan.tree_of.size() != pieces) return malformed("a plan for another number of pieces");
  for (const std::uint32_t tree : plan.tree_of)
    if (tree >= plan.trees.size()) return malformed("a piece without a tree");
  return Ok{};
}

Depths depths_of(const Tree& tree, std::uint32_t nodes) {
  if (tree.reduce_to.empty()) return nodes > 1 ? Depths{1, 1} : Depths{};
  return {Levels(tree.root, tree.reduce_to).height[tree.root],
          Levels(tree.root, tree.spread_from).height[tree.root]};
}

std::uint32_t hops_of(const Tree& tree, std::uint32_t nodes) {
  const Depths depths = depths_of(tree, nodes);
  return depths.up + depths.down;
}

TreeNode branch_of(const Tree& tree, std::uint32_t place, std::uint32_t nodes) {
  if (tree.reduce_to.empty()) return star_branch(tree.root, place, nodes);
  nodes = std::uint32_t(tree.reduce_to.size());
  const Levels up(tree.root, tree.reduce_to), down(tree.root, tree.spread_from);
  TreeNode branch{.root = tree.root,
                  .reduce_to = tree.reduce_to[place],
                  .spread_from = tree.spread_from[place]};
  Places under(nodes, kNobody);  // by node, the child of `place` that it stands below
  for (const std::uint32_t one : up.order) {
    if (one == tree.root) continue;
    const std::uint32_t parent = tree.reduce_to[one];
    under[one] = parent == place ? one : under[parent];
  }
  for (std::uint32_t one = 0; one < nodes; ++one) {
    if (under[one] == one) branch.upstream_children.push_back({one, up.height[one] == 0});
    if (under[one] != kNobody || one == place) branch.below.push_back(one);
    if (one != tree.root && tree.spread_from[one] == place)
      branch.downstream_children.push_back({one, down.height[one] + 1});
  }
  for (UpstreamChild& child : branch.upstream_children)
    for (const std::uint32_t one : branch.below)
      if (under[one] == child.place) child.below.push_back(one);
  for (std::uint32_t at = place; at != tree.root; branch.above.push_back(at))
    at = tree.reduce_to[at];
  branch.way = up.depth[place] + down.height[tree.root];
  return branch;
}

TreeSet::TreeSet(const ReducePlan& plan, std::uint32_t place, std::uint32_t nodes)
    : branches_(plan.trees.size()),
      tree_of_(plan.tree_of),
      pieces_(plan.trees.size()),
      lag_(plan.lag.value_or(std::uint32_t(plan.tree_of.size()))) {
  const Sums sums = plan.how.sums;
  std::optional<Circle> circle;
  if (sums == Sums::in_turn) circle.emplace(plan, place);
  for (std::uint32_t piece = 0; piece < tree_of_.size(); ++piece)
    pieces_[tree_of_[piece]].push_back(piece);
  std::set<std::uint32_t> above;
  for (std::uint32_t tree = 0; tree < trees(); ++tree) {
    if (pieces_[tree].empty()) continue;
    const bool all = sums == Sums::everywhere;
    branches_[tree] = circle ? circle->branch(plan.trees[tree].root)
                      : all  ? star_branch(place, place, nodes)
                             : branch_of(plan.trees[tree], place, nodes);
    hops_ = std::max(hops_, circle ? 2 * (circle->nodes() - 1) : hops_of(plan.trees[tree], nodes));
    for (const std::uint32_t one : branches_[tree].above) above.insert(one);
    if (all) above.insert(branches_[tree].below.begin(), branches_[tree].below.end());
    order_.push_back(tree);
    if (branches_[tree].root == place || !branches_[tree].upstream_children.empty())
      inner_.push_back(tree);
  }
  above.erase(place);
  above_.assign(above.begin(), above.end());
  std::rotate(above_.begin(), std::ranges::upper_bound(above_, place), above_.end());
  if (sums == Sums::everywhere) hops_ = 1;
  if (sums == Sums::by_rank) {
    const auto root = [&](std::uint32_t tree) { return branches_[tree].root; };
    std::rotate(order_.begin(), std::ranges::upper_bound(order_, place, {}, root), order_.end());
  }
  if (sums != Sums::in_turn) return;
  const auto starts = [&](std::uint32_t tree) { return branches_[tree].upstream_children.empty(); };
  std::stable_partition(order_.begin(), order_.end(), starts);
  const std::uint32_t last = plan.trees[tree_of_[0]].root;
  if (circle->nodes() > 1) above_ = {circle->next()};
  previous_ = circle->previous();
  if (last != place && !above_.empty() && above_[0] != last) above_.push_back(last);
}

}  // namespace longhaul::overlay
