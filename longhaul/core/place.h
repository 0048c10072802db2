#pragma once
// A Place describes the node of a machine, at the machine's construction. It holds values of the
// job file, known to every node; never rates, delays or speeds, which a machine measures itself.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <vector>

#include "longhaul/core/layout.h"
#include "longhaul/core/quorum.h"
#include "longhaul/core/shared_members.h"

namespace longhaul {

struct Place {
  Rank self = 0;
  SharedMembers members;
  std::shared_ptr<const Layout> layout;
  std::uint64_t seed = 0;
  // Messages carry at most `chunk_bytes` of a vector. A phantom job has sizes but no numbers, and
  // may send `chunk_run` chunks as one message (kinds of link models: sim/).
  std::uint32_t chunk_bytes = 256 * 1024;
  bool phantom = false;
  std::uint32_t chunk_run = 1;
  // In simulations: wire values per value of a vector. Vectors are cut accordingly.
  double wire_scale = 1;
  // Each site has its own test samples: all workers score a report (score_sum.h).
  bool own_tests = false;
  // Quorum for decisions on the members (membership.h), and the time that a member without it
  // waits.
  Quorum quorum = {};
  Time majority_wait = std::chrono::minutes(10);

  std::uint32_t size() const { return std::uint32_t(members->size()); }
  const Member& member(Rank rank) const { return members->at(rank); }
  const Member& me() const { return member(self); }
  bool comes_back() const { return me().incarnation > 0; }
  // Returns the number of values that take `values` on the wire; at least one.
  std::uint64_t standing_for(std::uint64_t values) const {
    return std::uint64_t(std::max(1.0, std::round(double(values) / wire_scale)));
  }
  // Returns the values in a chunk. Scaled: at least two, which hold one fp64 number.
  std::uint64_t chunk() const {
    return std::max<std::uint64_t>(standing_for(chunk_bytes / sizeof(float)),
                                   wire_scale > 1 ? 2 : 1);
  }
  // Returns the maximum number of a vector's values in one message.
  std::uint64_t longest_piece() const { return chunk() * (phantom ? chunk_run : 1); }
};

// Current nodes of the job. All nodes see the same views in the same order.
struct View {
  Epoch epoch = 0;
  RankList live;
  // Live nodes that were lost and rejoined, each with its epoch of return. They do not know what
  // happened in between.
  std::map<Rank, Epoch> returned = {};
  // Number of nodes at the start of the run, the lowest ranks: a resumed job may have more. Work
  // assigned at the start stays assigned. 0: all nodes of the job.
  std::uint32_t founders = 0;

  bool has(Rank rank) const { return live.has(rank); }
  Rank lowest() const { return live.front(); }
  Epoch since(Rank rank) const {
    const auto it = returned.find(rank);
    return it == returned.end() ? 0 : it->second;
  }
  void state(auto& archive) { archive(epoch, live, returned, founders); }
};

// Returns the live ranks with `role`. If all members live, this is the list that all nodes share.
inline RankList live_with(Role role, const Place& place, const View& view) {
  if (view.live.shares(place.members.all())) return place.members.with(role);
  return those_of(view.live, [&](Rank rank) { return place.member(rank).is(role); });
}

// Returns the live worker with the longest membership, and the lowest of several: no node knows
// more.
inline Rank senior_worker(const Place& place, const View& view) {
  const RankList workers = live_with(Role::worker, place, view);
  if (workers.empty()) return view.lowest();
  Rank senior = workers.front();
  for (const Rank rank : workers) {
    if (view.since(senior) == 0) break;
    if (view.since(rank) < view.since(senior)) senior = rank;
  }
  return senior;
}

}  // namespace longhaul
