#pragma once
// The choice of the receivers of each sender's model in a round of peer-to-peer training, by
// bandwidth. Source:
//   Luo et al., "Efficient parameter synchronization for peer-to-peer distributed learning with
//   selective multicast", IEEE Transactions on Services Computing, 2024 (TSC); the lock-step form
//   also in IEEE ICC 2022. Algorithms 1 and 2 by their numbers there.
//
// Every sender has its own number of receivers. A plan makes the time short until all have received
// their data, then adds receivers as long as that time stays. Pure functions: equal inputs give
// equal plans. Workers are numbered 0 .. n-1, volumes are bytes, rates bytes/s, times s. Not in the
// paper: pair rates, and the order of ties (lowest numbers first).
#include <cstdint>
#include <utility>
#include <vector>

#include "longhaul/base/rng.h"

namespace longhaul::flow {

struct MulticastNetwork {
  std::vector<double> up = {}, down = {};  // by worker, rate of its port; > 0
  std::vector<double> pairs = {};          // [i n + j], from i to j; empty: pairs do not limit
  // A sender's bytes leave its port once for all receivers (IP multicast), not once for each.
  bool by_network = false;

  std::uint32_t size() const { return std::uint32_t(up.size()); }
};

using WorkerPair = std::pair<std::uint32_t, std::uint32_t>;  // sender, receiver

struct MulticastPlan {
  std::vector<std::vector<std::uint32_t>> receivers;  // by sender, ascending
  double time = 0;                                    // until the last port or pair is done: t

  bool sends(std::uint32_t from, std::uint32_t to) const;
};

// --- lock step: all senders begin together

struct MulticastRound {
  std::vector<double> volumes;           // bytes that each worker sends (v_i); >= 0
  std::vector<std::uint32_t> at_least;   // receivers that each must reach (p_i); above n - 1: all
  std::vector<WorkerPair> overdue = {};  // pairs that must be served in this round (D)
  std::vector<double> ages = {};         // [i n + j]: rounds since j last received from i (c_ij)
};

// Returns the plan that sends from each worker to these receivers, with its time.
MulticastPlan multicast_of(const MulticastNetwork&, const MulticastRound&,
                           std::vector<std::vector<std::uint32_t>> receivers);

// Runs Algorithm 1. `extend` = false leaves out the last step, which adds receivers within the
// time.
MulticastPlan plan_multicast(const MulticastNetwork&, const MulticastRound&, bool extend = true);

// The plan with the least time, and among those with the most receivers, from an integer programme
// (multicast_optimal.cpp): for tens of workers. The search ends after a fixed number of nodes.
// `proven`: the plan is known to be the best; else it is no worse than plan_multicast.
struct OptimalMulticast {
  MulticastPlan plan;
  bool proven = false;
};
OptimalMulticast plan_optimal_multicast(const MulticastNetwork&, const MulticastRound&,
                                        int most_nodes = 2000);

// The baselines. Orpheus (Xie et al., "Orpheus: efficient distributed machine learning via system
// and algorithm co-design", SoCC 2018): the overdue receivers, then others by chance.
MulticastPlan plan_random_multicast(const MulticastNetwork&, const MulticastRound&, Random&);
MulticastPlan plan_broadcast(const MulticastNetwork&, const MulticastRound&);  // to all others

// --- bounded staleness: senders begin when they are ready

struct MulticastSender {
  bool sending = false;
  double volume = 0;           // v_i
  std::uint32_t at_least = 1;  // p_i
  double blocked_s = 0;      // seconds that it would be blocked if its multicast ended now (tau_i)
  std::vector<double> left;  // by receiver: bytes not delivered yet (v_ij)
  std::vector<bool> chosen;  // by receiver: part of the current multicast (x_ij)
};

struct MulticastUpdate {
  std::vector<std::uint32_t> receivers;  // receivers of the ready worker, ascending
  std::vector<WorkerPair> cancelled;     // pairs of current multicasts; ascending
};

// Runs Algorithm 2 when worker `ready` can send a new model to all others. Keeps pairs that are
// overdue or have less than `eta` of their volume left. `senders[ready]` needs volume, at_least,
// blocked_s.
MulticastUpdate replan_multicast(const MulticastNetwork&, std::vector<MulticastSender> senders,
                                 std::uint32_t ready, const std::vector<WorkerPair>& overdue,
                                 const std::vector<double>& ages, double eta);

}  // namespace longhaul::flow
