#pragma once
// Who receives which sender's model in a round of peer-to-peer training: the choice of receivers by
// bandwidth, of
//   Luo et al., "Efficient parameter synchronization for peer-to-peer distributed learning with
//   selective multicast", IEEE Transactions on Services Computing, 2024 (TSC); the lock-step form
//   also in IEEE ICC 2022. Algorithms 1 and 2 by their numbers there.
//
// Every sender reaches a number of receivers of its own; the time until all have what is sent to
// them is made short; then receivers are added as long as that time stays. Pure functions: equal
// inputs give equal plans. Workers are numbered 0 .. n-1, volumes are bytes, rates bytes/s, times
// s. Ours: pair rates, and the order of ties (lowest numbers first).
#include <cstdint>
#include <utility>
#include <vector>

#include "longhaul/base/rng.h"

namespace longhaul::flow {

struct MulticastNetwork {
  std::vector<double> up = {}, down = {};  // of each worker's port; > 0
  std::vector<double> pairs = {};          // [i n + j], from i to j; empty: pairs do not limit
  // A sender's bytes leave its port once for all receivers (IP multicast), not once for each.
  bool by_network = false;

  std::uint32_t size() const { return std::uint32_t(up.size()); }
};

using WorkerPair = std::pair<std::uint32_t, std::uint32_t>;  // sender, receiver

struct MulticastPlan {
  std::vector<std::vector<std::uint32_t>> receivers;  // of each sender, ascending
  double time = 0;                                    // until the last port or pair is done: t

  bool sends(std::uint32_t from, std::uint32_t to) const;
};

// --- lock step: all senders begin together

struct MulticastRound {
  std::vector<double> volumes;           // of what each worker sends (v_i); >= 0
  std::vector<std::uint32_t> at_least;   // receivers that each must reach (p_i); above n - 1: all
  std::vector<WorkerPair> overdue = {};  // pairs that must be served in this round (D)
  std::vector<double> ages = {};         // [i n + j]: rounds since j last had something of i (c_ij)
};

// The plan that sends from each worker to these receivers, with its time.
MulticastPlan multicast_of(const MulticastNetwork&, const MulticastRound&,
                           std::vector<std::vector<std::uint32_t>> receivers);

// Algorithm 1. `extend` = false leaves out the last step, which adds receivers within the time.
MulticastPlan plan_multicast(const MulticastNetwork&, const MulticastRound&, bool extend = true);

// The least time of all plans, and of those the most receivers, by an integer programme
// (multicast_optimal.cpp): for tens of workers. The search ends after a fixed number of nodes;
// `proven` says whether the plan is known to be the best, else it is no worse than plan_multicast.
struct OptimalMulticast {
  MulticastPlan plan;
  bool proven = false;
};
OptimalMulticast plan_optimal_multicast(const MulticastNetwork&, const MulticastRound&,
                                        int most_nodes = 2000);

// The baselines. Orpheus (Xie et al., "Orpheus: efficient distributed machine learning via system
// and algorithm co-design", SoCC 2018): the overdue receivers, then others by chance.
MulticastPlan plan_random_multicast(const MulticastNetwork&, const MulticastRound&, Random&);
MulticastPlan plan_broadcast(const MulticastNetwork&, const MulticastRound&);  // everybody to all

// --- bounded staleness: senders begin when they are ready

struct MulticastSender {
  bool sending = false;
  double volume = 0;           // v_i
  std::uint32_t at_least = 1;  // p_i
  double blocked_s = 0;        // it would be blocked for so long if its multicast ended now (tau_i)
  std::vector<double> left;    // by receiver: bytes not delivered yet (v_ij)
  std::vector<bool> chosen;    // by receiver: of the multicast under way (x_ij)
};

struct MulticastUpdate {
  std::vector<std::uint32_t> receivers;  // of the worker that has become ready, ascending
  std::vector<WorkerPair> cancelled;     // of multicasts under way; ascending
};

// Algorithm 2, when worker `ready` has something to send to all. Keeps pairs that are overdue or
// have less than `eta` of their volume left. `senders[ready]` needs volume, at_least, blocked_s.
MulticastUpdate replan_multicast(const MulticastNetwork&, std::vector<MulticastSender> senders,
                                 std::uint32_t ready, const std::vector<WorkerPair>& overdue,
                                 const std::vector<double>& ages, double eta);

}  // namespace longhaul::flow
