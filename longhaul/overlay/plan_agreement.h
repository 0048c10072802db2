#pragma once
// How the nodes of a team agree on a plan of trees, and switch to the next while rounds continue.
// The lowest live rank, the planner, sends a plan with its first round, `start`. Every node checks
// the plan and acknowledges it to all others. A node with the plan does not contribute to the round
// before `start` until it has all acknowledgements. The first plan starts in round 0, whatever the
// current round: no node contributes before it.
//
// All nodes start in the same round: the planner has not contributed to the round before `start`
// when it sends the plan, and does not until all have it. No node has the mean of that round
// without the planner's part. So no node sends anything of round `start` before all know its trees.
// Rounds under way continue.
//
// A new epoch voids all plans, because other nodes had agreed on them. Owned by a node's
// PlannedForest; one sequence of rounds. Memory: the first plan, those of rounds that have not
// ended, one that has not begun.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include <xxhash.h>

#include "longhaul/base/archive.h"
#include "longhaul/base/check.h"
#include "longhaul/overlay/attempt.h"
#include "longhaul/overlay/forest_messages.h"
#include "longhaul/overlay/sites.h"

namespace longhaul::overlay::forest {

// Tells plans apart that a planner sent by mistake. No protection against an attacker who
// constructs two plans with one digest.
inline std::uint64_t digest_of(const NewPlan& plan) {
  const Buffer bytes = to_wire(plan);
  return XXH3_64bits(bytes.data(), bytes.size());
}

// Returns the plan without version and start.
inline NewPlan to_message(const SitePlan& trees) {
  NewPlan plan;
  plan.lag = trees.lag;
  for (const SiteTree& one : trees.trees)
    plan.trees.push_back({std::uint16_t(one.tree.root),
                          {one.tree.reduce_to.begin(), one.tree.reduce_to.end()},
                          {one.tree.spread_from.begin(), one.tree.spread_from.end()},
                          one.share});
  return plan;
}

// Returns an Error if they are no trees of `sites` sites, or their shares do not add up to 1.
inline Result<SitePlan> from_message(const NewPlan& plan, std::uint32_t sites) {
  SitePlan made{{}, plan.lag};
  ReducePlan forest;
  double sum = 0;
  for (const PlannedTree& one : plan.trees) {
    if (!(one.share > 0)) return malformed("a tree without a share");
    if (one.reduce_to.empty()) return malformed("a tree of no sites");
    sum += one.share;
    made.trees.push_back({{one.root,
                           {one.reduce_to.begin(), one.reduce_to.end()},
                           {one.spread_from.begin(), one.spread_from.end()}},
                          one.share});
    forest.trees.push_back(made.trees.back().tree);
  }
  if (!(std::fabs(sum - 1) <= 1e-6)) return malformed("shares do not add up to 1");
  LH_TRY(check_plan(forest, sites, sites, 0));
  return made;
}

class PlanAgreement {
  static constexpr std::size_t kMostWords = 1 << 18;  // bytes in a message
  static constexpr Round kLead = 2;                   // rounds from the planner's to a plan's first
  // The receiver of a plan may have contributed last to the round before the planner's.
  static constexpr Round kFarthest = kLead + 1;

 public:
  // `members`: the team's, ascending, with or without this node. `sites`: number of sites in the
  // trees.
  void new_team(Epoch epoch, Rank self, const std::vector<Rank>& members, std::uint32_t sites) {
    *this = {};
    epoch_ = epoch;
    self_ = self;
    members_ = members;
    sites_ = sites;
  }

  Rank planner() const { return members_.front(); }
  bool plans() const { return !members_.empty() && planner() == self_; }

  // Called when this node contributes to that round.
  void on_contributed(Round round) {
    LH_CHECK(!hold(round));
    given_ = round;
    forget();
  }

  // Called when this node has the mean of that round, whether it contributed in this epoch or not.
  void on_mean_ready(Round round) {
    if (!given_ || *given_ < round) given_ = round;
  }

  // Returns why this node may not contribute: "plan 2: acknowledgements of ranks 1, 3". Nothing: it
  // may.
  std::optional<std::string> hold(Round round) const {
    for (auto plan = plans_.rbegin(); plan != plans_.rend(); ++plan)
      if (plan->first <= round + 1) return hold_of(plan->second.version);
    return hold_of_first();
  }

  // Returns the same for exchanges that use the first plan.
  std::optional<std::string> hold_of_first() const {
    if (members_.empty()) return std::nullopt;
    return plans_.empty() ? "the plan of rank " + std::to_string(planner()) : hold_of(1);
  }

  // Returns true if this node is the planner and has not sent its first plan.
  bool lacks_first() const { return plans() && plans_.empty(); }
  // Returns the plan for all others. A plan that is too large for a message has no trees: each node
  // plans its own. CHECKs lacks_first().
  NewPlan propose_first(const SitePlan& wanted) {
    LH_CHECK(lacks_first());
    NewPlan plan;
    SitePlan made;
    if (wanted.trees.size() <= kMostTrees && sites_ <= kMostSites)
      plan = to_message(wanted), made = wanted;
    plan.version = 1;
    if (to_wire(plan).size() > kMostWords) plan.trees.clear(), made = {};
    LH_CHECK(enter(plan, std::move(made)));
    return plan;
  }

  // Returns the first plan. Null: it has not arrived; without trees: each node plans its own.
  const SitePlan* first() const { return plans_.empty() ? nullptr : &plans_.at(0).plan; }
  // Returns true if the planner may send another plan: all have the last, and this one can start
  // after it.
  bool may_propose() const {
    if (!plans() || plans_.empty() || !given_ || !lacking(version_).empty()) return false;
    return plans_.rbegin()->first < *given_ + kLead;
  }

  // Returns the plan for all others. Nothing: it is too large for a message. CHECKs may_propose().
  std::optional<NewPlan> propose(const SitePlan& wanted) {
    LH_CHECK(may_propose());
    if (wanted.trees.size() > kMostTrees || sites_ > kMostSites) return std::nullopt;
    NewPlan plan = to_message(wanted);
    plan.version = version_ + 1;
    plan.start = *given_ + kLead;
    if (to_wire(plan).size() > kMostWords) return std::nullopt;
    LH_CHECK(enter(plan, wanted));
    return plan;
  }

  // Returns the answer to all others, or why the plan is refused.
  Result<PlanAck> take(Rank from, const NewPlan& plan) {
    const auto refuse = [&](const std::string& why) {
      return malformed("plan " + std::to_string(plan.version) + " of rank " + std::to_string(from) +
                       ": " + why);
    };
    if (members_.empty() || from != planner() || plans()) return refuse("it is not the planner");
    if (plan.version != version_ + 1) return refuse("not the next one");
    const bool first = plan.version == 1;
    if (first ? plan.start != 0
              : !given_ || plan.start <= *given_ || plan.start > *given_ + kFarthest)
      return refuse("it cannot start in round " + std::to_string(plan.start));
    auto made =
        first && plan.trees.empty() ? Result<SitePlan>(SitePlan{}) : from_message(plan, sites_);
    if (!made) return refuse(made.error().what);
    const PlanAck own{plan.version, digest_of(plan)};
    for (const auto& [rank, ack] : acks_)
      if (ack.version == own.version && ack.digest != own.digest)
        return refuse("rank " + std::to_string(rank) + " was sent another one");
    if (const Status entered = enter(plan, *std::move(made)); !entered)
      return refuse(entered.error().what);
    acks_[from] = own;
    return own;
  }

  // Takes an acknowledgement, possibly of the plan after the newest here, which is still in
  // transit.
  Status take(Rank from, const PlanAck& given) {
    const auto refuse = [&](const std::string& why) {
      return malformed("acknowledgement of plan " + std::to_string(given.version) + " by rank " +
                       std::to_string(from) + ": " + why);
    };
    const bool member = std::ranges::binary_search(members_, from);
    if (!member || from == planner() || from == self_) return refuse("none was due");
    const auto known = acks_.find(from);
    const std::uint32_t last = known == acks_.end() ? 0 : known->second.version;
    if (given.version != last + 1 || given.version > version_ + (plans() ? 0 : 1))
      return refuse("not the next one");
    for (const auto& [start, plan] : plans_)
      if (plan.version == given.version && plan.digest != given.digest)
        return refuse("it is not the one that rank " + std::to_string(planner()) + " sent here");
    acks_[from] = given;
    return Ok{};
  }

  // Returns the round since which the trees of `round` are in force; 0: they are the first.
  Round since(Round round) const {
    const auto next = plans_.upper_bound(round);
    return next == plans_.begin() ? 0 : std::prev(next)->first;
  }

  // Returns the plan that is in force from that round on, which is not 0.
  const SitePlan& plan(Round since) const { return plans_.at(since).plan; }
  // Returns the newest plan, in force or agreed on; null: there is none yet.
  const SitePlan* newest() const {
    return plans_.empty() ? nullptr : &plans_.rbegin()->second.plan;
  }
  std::uint32_t version() const { return version_; }
  void state(Archive& ar) {
    ar(epoch_, self_, members_, sites_, version_, given_, plans_, acks_);
    if (!ar.loading()) return;
    if (!plans_.empty() && plans_.begin()->first != 0) return ar.fail("holds no first plan");
    for (const auto& [start, plan] : plans_) {
      const bool own = start == 0 && plan.plan.trees.empty();
      if (!own && !from_message(to_message(plan.plan), sites_))
        return ar.fail("holds a plan of no trees");
    }
  }

 private:
  struct Known {
    std::uint32_t version = 0;
    std::uint64_t digest = 0;
    SitePlan plan;
    void state(auto& ar) { ar(version, digest, plan); }
  };
  Status enter(const NewPlan& plan, SitePlan made) {
    if (!plans_.empty() && plan.start <= plans_.rbegin()->first)
      return malformed("a plan that starts no later than the one before it");
    Known known{plan.version, digest_of(plan), std::move(made)};
    plans_.emplace(plan.start, std::move(known));
    version_ = plan.version;
    return Ok{};
  }

  std::vector<Rank> lacking(std::uint32_t version) const {
    std::vector<Rank> ranks;
    for (const Rank rank : members_) {
      if (rank == self_) continue;
      const auto ack = acks_.find(rank);
      if ((ack == acks_.end() ? 0 : ack->second.version) < version) ranks.push_back(rank);
    }
    return ranks;
  }

  std::optional<std::string> hold_of(std::uint32_t version) const {
    const auto ranks = lacking(version);
    if (ranks.empty()) return std::nullopt;
    return "plan " + std::to_string(version) + ": acknowledgements of " + named_ranks(ranks);
  }

  // The oldest open attempts are of the round before the current one. Exchanges that are no rounds
  // of the parameters always use the first plan.
  void forget() {
    while (plans_.size() > 2 && std::next(plans_.begin(), 2)->first + 1 <= *given_)
      plans_.erase(std::next(plans_.begin()));
  }

  Epoch epoch_ = 0;
  Rank self_ = 0;
  std::vector<Rank> members_;
  std::uint32_t sites_ = 0;
  std::uint32_t version_ = 0;     // version of the newest plan here
  std::optional<Round> given_;    // the last round that needs nothing more from this node
  std::map<Round, Known> plans_;  // by start; that of the first is 0
  std::map<Rank, PlanAck> acks_;  // the newest of each other member
};

}  // namespace longhaul::overlay::forest
