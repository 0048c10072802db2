#pragma once
// A Place tells a machine, when it is made, where it stands. It holds what the job file says and
// every node knows; never rates, delays or speeds: those a machine measures.
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
  // Simulated: each value counts as this many on the wire. Vectors are cut accordingly.
  double wire_scale = 1;
  // Each site has test samples of its own: a report is scored at all workers (score_sum.h).
  bool own_tests = false;
  // Who decides about the members (membership.h), and for how long one without them waits.
  Quorum quorum = {};
  Time majority_wait = std::chrono::minutes(10);

  std::uint32_t size() const { return std::uint32_t(members->size()); }
  const Member& member(Rank rank) const { return members->at(rank); }
  const Member& me() const { return member(self); }
  bool comes_back() const { return me().incarnation > 0; }
  // The number of values that count as `values` on the wire; at least one.
  std::uint64_t standing_for(std::uint64_t values) const {
    return std::uint64_t(std::max(1.0, std::round(double(values) / wire_scale)));
  }
  // Values in a chunk. Scaled: at least two, which hold one fp64 number.
  std::uint64_t chunk() const {
    return std::max<std::uint64_t>(standing_for(chunk_bytes / sizeof(float)),
                                   wire_scale > 1 ? 2 : 1);
  }
  // The most values of a vector that one message may carry.
  std::uint64_t longest_piece() const { return chunk() * (phantom ? chunk_run : 1); }
};

// Who is in the job now. All nodes see the same views in the same order.
struct View {
  Epoch epoch = 0;
  RankList live;
  // The live ones that were lost and came back, each with the epoch that it came back in. What they
  // did not live through they have to be told.
  std::map<Rank, Epoch> returned = {};
  // Nodes that the run began with, the lowest ranks: a job may get others when it is resumed. What
  // was dealt out at the beginning stays dealt out. 0: all of the job.
  std::uint32_t founders = 0;

  bool has(Rank rank) const { return live.has(rank); }
  Rank lowest() const { return live.front(); }
  Epoch since(Rank rank) const {
    const auto it = returned.find(rank);
    return it == returned.end() ? 0 : it->second;
  }
  void state(auto& archive) { archive(epoch, live, returned, founders); }
};

// The live ranks that hold `role`. While all members live, the list that all nodes share.
inline RankList live_with(Role role, const Place& place, const View& view) {
  if (view.live.shares(place.members.all())) return place.members.with(role);
  return those_of(view.live, [&](Rank rank) { return place.member(rank).is(role); });
}

// The live worker that has been here longest, of several the lowest: it knows what any knows.
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
