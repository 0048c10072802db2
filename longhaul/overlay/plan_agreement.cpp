#include "longhaul/overlay/plan_agreement.h"

#include <algorithm>
#include <cmath>

#include <xxhash.h>

#include "longhaul/base/check.h"
#include "longhaul/overlay/attempt.h"

namespace longhaul::overlay::forest {
namespace {

constexpr std::size_t kMostWords = 1 << 18;  // of a notice
constexpr double kSlack = 1e-6;              // of the sum of shares
constexpr Round kLead = 2;                   // rounds from the planner's to a plan's first
// Of whoever hears the plan the last part may have gone to the round before the planner's.
constexpr Round kFarthest = kLead + 1;

std::vector<std::uint16_t> narrow(const std::vector<std::uint32_t>& places) {
  return {places.begin(), places.end()};
}
std::vector<std::uint32_t> widen(const std::vector<std::uint16_t>& places) {
  return {places.begin(), places.end()};
}

}  // namespace

// It tells plans apart that a planner sent by mistake or whim; it withstands nobody who looks for
// two plans with one digest.
std::uint64_t digest_of(const NewPlan& plan) {
  const Buffer bytes = to_wire(plan);
  return XXH3_64bits(bytes.data(), bytes.size());
}

NewPlan to_message(const SitePlan& trees) {
  NewPlan plan;
  plan.lag = trees.lag;
  for (const SiteTree& one : trees.trees)
    plan.trees.push_back({std::uint16_t(one.tree.root), narrow(one.tree.reduce_to),
                          narrow(one.tree.spread_from), one.share});
  return plan;
}

Result<SitePlan> from_message(const NewPlan& plan, std::uint32_t sites) {
  SitePlan made{{}, plan.lag};
  Forest forest;
  double sum = 0;
  for (const PlannedTree& one : plan.trees) {
    if (!(one.share > 0)) return malformed("a tree without a share");
    sum += one.share;
    made.trees.push_back({{one.root, widen(one.reduce_to), widen(one.spread_from)}, one.share});
    forest.trees.push_back(made.trees.back().tree);
  }
  if (!(std::fabs(sum - 1) <= kSlack)) return malformed("shares do not add up to 1");
  LH_TRY(check_forest(forest, sites, sites, 0));
  return made;
}

void PlanAgreement::new_team(Epoch epoch, Rank self, const std::vector<Rank>& members,
                             std::uint32_t sites) {
  *this = {};
  epoch_ = epoch;
  self_ = self;
  members_ = members;
  sites_ = sites;
}

void PlanAgreement::on_contributed(Round round) {
  LH_CHECK(!hold(round));
  given_ = round;
  forget();
}

void PlanAgreement::on_mean_ready(Round round) {
  if (!given_ || *given_ < round) given_ = round;
}

// Attempts are open of the round before the one under way, at the earliest. What is no round of the
// parameters goes by the first plan for good.
void PlanAgreement::forget() {
  while (plans_.size() > 2 && std::next(plans_.begin(), 2)->first + 1 <= *given_)
    plans_.erase(std::next(plans_.begin()));
}

std::vector<Rank> PlanAgreement::lacking(std::uint32_t version) const {
  std::vector<Rank> ranks;
  for (const Rank rank : members_) {
    if (rank == self_) continue;
    const auto ack = acks_.find(rank);
    if ((ack == acks_.end() ? 0 : ack->second.version) < version) ranks.push_back(rank);
  }
  return ranks;
}

std::optional<std::string> PlanAgreement::hold_of(std::uint32_t version) const {
  const auto ranks = lacking(version);
  if (ranks.empty()) return std::nullopt;
  return "plan " + std::to_string(version) + ": acknowledgements of " + named_ranks(ranks);
}

std::optional<std::string> PlanAgreement::hold_of_first() const {
  if (members_.empty()) return std::nullopt;
  return plans_.empty() ? "the plan of rank " + std::to_string(planner()) : hold_of(1);
}

std::optional<std::string> PlanAgreement::hold(Round round) const {
  for (auto plan = plans_.rbegin(); plan != plans_.rend(); ++plan)
    if (plan->first <= round + 1) return hold_of(plan->second.version);
  return hold_of_first();
}

NewPlan PlanAgreement::propose_first(const SitePlan& wanted) {
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

bool PlanAgreement::may_propose() const {
  if (!plans() || plans_.empty() || !given_ || !lacking(version_).empty()) return false;
  return plans_.rbegin()->first < *given_ + kLead;
}

std::optional<NewPlan> PlanAgreement::propose(const SitePlan& wanted) {
  LH_CHECK(may_propose());
  if (wanted.trees.size() > kMostTrees || sites_ > kMostSites) return std::nullopt;
  NewPlan plan = to_message(wanted);
  plan.version = version_ + 1;
  plan.start = *given_ + kLead;
  if (to_wire(plan).size() > kMostWords) return std::nullopt;
  LH_CHECK(enter(plan, wanted));
  return plan;
}

Status PlanAgreement::enter(const NewPlan& plan, SitePlan made) {
  if (!plans_.empty() && plan.start <= plans_.rbegin()->first)
    return malformed("a plan that starts no later than the one before it");
  Known known{plan.version, digest_of(plan), std::move(made)};
  plans_.emplace(plan.start, std::move(known));
  version_ = plan.version;
  return Ok{};
}

Result<PlanAck> PlanAgreement::take(Rank from, const NewPlan& plan) {
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
  const Ack own{plan.version, digest_of(plan)};
  for (const auto& [rank, ack] : acks_)
    if (ack.version == own.version && ack.digest != own.digest)
      return refuse("rank " + std::to_string(rank) + " was sent another one");
  if (const Status entered = enter(plan, *std::move(made)); !entered)
    return refuse(entered.error().what);
  acks_[from] = own;
  return PlanAck{own.version, own.digest};
}

// Of the plan after the newest here: that one is on its way.
Status PlanAgreement::take(Rank from, const PlanAck& given) {
  const auto refuse = [&](const std::string& why) {
    return malformed("acknowledgement of plan " + std::to_string(given.version) + " by rank " +
                     std::to_string(from) + ": " + why);
  };
  const bool member = std::binary_search(members_.begin(), members_.end(), from);
  if (!member || from == planner() || from == self_) return refuse("none was due");
  const auto known = acks_.find(from);
  const std::uint32_t last = known == acks_.end() ? 0 : known->second.version;
  if (given.version != last + 1 || given.version > version_ + (plans() ? 0 : 1))
    return refuse("not the next one");
  const Ack ack{given.version, given.digest};
  for (const auto& [start, plan] : plans_)
    if (plan.version == ack.version && plan.digest != ack.digest)
      return refuse("it is not the one that rank " + std::to_string(planner()) + " sent here");
  acks_[from] = ack;
  return Ok{};
}

Round PlanAgreement::since(Round round) const {
  const auto next = plans_.upper_bound(round);
  return next == plans_.begin() ? 0 : std::prev(next)->first;
}

void PlanAgreement::state(Archive& ar) {
  ar(epoch_, self_, members_, sites_, version_, given_, plans_, acks_);
  if (!ar.loading()) return;
  if (!plans_.empty() && plans_.begin()->first != 0) return ar.fail("holds no first plan");
  for (const auto& [start, plan] : plans_) {
    const bool own = start == 0 && plan.plan.trees.empty();
    if (!own && !from_message(to_message(plan.plan), sites_))
      return ar.fail("holds a plan of no trees");
  }
}

}  // namespace longhaul::overlay::forest
