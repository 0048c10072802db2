#pragma once
// How the nodes of a team come to one plan of trees, and go over to the next while rounds go on.
// The lowest live rank, the planner, sends a plan with the round that it starts in; all check it
// and tell all that they have it. Who has it gives nothing to the round before `start` until all
// have told so. The first plan starts in round 0, whatever the round: nobody gives anything before
// it.
//
// Why all start alike: the planner has given nothing to the round before `start` when it sends the
// plan, and gives nothing until all have it; nobody has the mean of that round without its part, so
// nobody sends anything of round `start` before all know what goes for it. Rounds under way go on.
//
// A new epoch voids all plans: with whom they were agreed is gone. Owned by a node's Replanner; one
// sequence of rounds. Memory: the first plan, those of rounds that are not over, one not begun.
#include <map>
#include <optional>
#include <string>

#include "longhaul/base/archive.h"
#include "longhaul/overlay/forest_messages.h"
#include "longhaul/overlay/sites.h"

namespace longhaul::overlay::forest {

std::uint64_t digest_of(const NewPlan&);
NewPlan to_message(const SitePlan&);  // without version and start
// An Error: they are no trees of so many sites, or their shares do not add up to 1.
Result<SitePlan> from_message(const NewPlan&, std::uint32_t sites);

class PlanAgreement {
 public:
  // `members`: of the team, ascending, oneself among them or not. `sites`: between which trees are.
  void new_team(Epoch, Rank self, const std::vector<Rank>& members, std::uint32_t sites);
  Rank planner() const { return members_.front(); }
  bool plans() const { return !members_.empty() && planner() == self_; }

  // This node gives its part to that round now.
  void on_contributed(Round);
  // It has the mean of that round, whether it gave a part in this epoch or not.
  void on_mean_ready(Round);
  // What keeps it from doing so: "plan 2: acknowledgements of ranks 1, 3".
  std::optional<std::string> hold(Round) const;
  // The same of what goes by the first plan.
  std::optional<std::string> hold_of_first() const;

  // The planner has its first plan to send.
  bool lacks_first() const { return plans() && plans_.empty(); }
  // To be told to all others. One that is too large to be sent goes without trees: each node goes
  // by its own. CHECKs lacks_first().
  NewPlan propose_first(const SitePlan&);
  // The first plan, if it is here; without trees: each node's own.
  const SitePlan* first() const { return plans_.empty() ? nullptr : &plans_.at(0).plan; }
  // The planner may send another plan: all have the last, and this one can start after it.
  bool may_propose() const;
  // To be told to all others. Nothing: it is too large to be sent. CHECKs may_propose().
  std::optional<NewPlan> propose(const SitePlan&);

  // What to tell all others, or why it is refused.
  Result<PlanAck> take(Rank from, const NewPlan&);
  Status take(Rank from, const PlanAck&);

  // Since when the trees of a round are in force; 0: they are the first.
  Round since(Round) const;
  // In force from that round on, which is not 0.
  const SitePlan& plan(Round since) const { return plans_.at(since).plan; }
  // The newest, in force or agreed on; null: there is none yet.
  const SitePlan* newest() const {
    return plans_.empty() ? nullptr : &plans_.rbegin()->second.plan;
  }
  std::uint32_t version() const { return version_; }
  void state(Archive&);

 private:
  struct Known {
    std::uint32_t version = 0;
    std::uint64_t digest = 0;
    SitePlan plan;
    void state(auto& ar) { ar(version, digest, plan); }
  };
  struct Ack {
    std::uint32_t version = 0;
    std::uint64_t digest = 0;
    void state(auto& ar) { ar(version, digest); }
  };
  Status enter(const NewPlan&, SitePlan);
  std::vector<Rank> lacking(std::uint32_t version) const;
  std::optional<std::string> hold_of(std::uint32_t version) const;
  void forget();

  Epoch epoch_ = 0;
  Rank self_ = 0;
  std::vector<Rank> members_;
  std::uint32_t sites_ = 0;
  std::uint32_t version_ = 0;     // of the newest plan here
  std::optional<Round> given_;    // the last round that lacks nothing of this node
  std::map<Round, Known> plans_;  // by start; the first at 0
  std::map<Rank, Ack> acks_;      // the newest of each other member
};

}  // namespace longhaul::overlay::forest
