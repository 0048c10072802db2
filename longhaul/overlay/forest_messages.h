#pragma once
// Messages between the nodes of a forest about plans and rates, sent as TopologyMessages
// (overlay/messages.h). docs/overlay/forest.md
#include <vector>

#include "longhaul/core/message.h"
#include "longhaul/overlay/messages.h"

namespace longhaul::overlay::forest {

inline constexpr double kMostRate = 1e18;          // bytes/s
inline constexpr double kMostSeconds = 1e9;        // s of a round
inline constexpr double kMostPeers = 1 << 14;      // pairs in a report
inline constexpr std::uint32_t kMostTrees = 1024;  // trees in a plan
inline constexpr std::uint32_t kMostSites = 1 << 13;

// The rate that a node reached in sending to one peer.
struct PairRate {
  Rank to = 0;
  double rate = 0;        // bytes/s
  std::uint32_t age = 0;  // rounds since it was last measured
  LONGHAUL_FIELDS(to, (rate, .max = kMostRate, .unit = "bytes/s", .positive = true),
                  (age, .unit = "rounds"))
};

// A report to the planner after a round: the sender's learned rates.
struct RateReport {
  LONGHAUL_MESSAGE(1, "rate_report");
  Round round = 0;
  std::vector<PairRate> pairs;  // nodes at other sites, ascending
  double up = 0, down = 0;      // highest rate of the port, bytes/s; 0: not known
  double took = 0;              // s from its contribution to the mean; 0: no contribution
  LONGHAUL_FIELDS(round, (pairs, .max = kMostPeers),
                  (up, .min = 0, .max = kMostRate, .unit = "bytes/s"),
                  (down, .min = 0, .max = kMostRate, .unit = "bytes/s"),
                  (took, .min = 0, .max = kMostSeconds, .unit = "s"))
};

// A pair of trees between sites, which are numbered by their place among the team's (SiteGroups).
struct PlannedTree {
  std::uint16_t root = 0;
  std::vector<std::uint16_t> reduce_to, spread_from;
  double share = 0;
  LONGHAUL_FIELDS(root, (reduce_to, .max = kMostSites), (spread_from, .max = kMostSites),
                  (share, .min = 0, .max = 1))
};

// The planner's message to all others: these trees from round `start` on, once all have
// acknowledged them. The first of an epoch starts in round 0; if it has no trees, each node plans
// its own.
struct NewPlan {
  LONGHAUL_MESSAGE(2, "new_plan");
  std::uint32_t version = 0;  // 1, 2 ... within an epoch
  Round start = 0;
  std::vector<PlannedTree> trees;  // shares add up to 1
  double lag = 1;                  // SitePlan::lag
  LONGHAUL_FIELDS((version, .min = 1), start, (trees, .max = kMostTrees),
                  (lag, .min = 0, .max = 1, .unit = "share of the vector"))
};

// A message from each node to all others: it has this plan, and will use it.
struct PlanAck {
  LONGHAUL_MESSAGE(3, "plan_ack");
  std::uint32_t version = 0;
  std::uint64_t digest = 0;  // digest_of() the plan
  LONGHAUL_FIELDS((version, .min = 1), digest)
};

using Messages = MessageList<RateReport, NewPlan, PlanAck>;

template <class Handle>
Status read(const TopologyMessage& notice, Handle&& handle) {
  return unwrap(Messages{}, notice, std::forward<Handle>(handle));
}
template <MessageStruct M>
TopologyMessage write(const M& fields) {
  return wrap<TopologyMessage>(fields);
}

}  // namespace longhaul::overlay::forest
