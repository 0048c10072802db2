#pragma once
// A Place tells a machine, when it is made, where it stands. It holds what the job file says and
// every node knows; never rates, delays or speeds: those a machine measures.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "longhaul/core/layout.h"
#include "longhaul/core/types.h"

namespace longhaul {

// A witness trains nothing and serves nothing: it counts where a majority has to agree, so that one
// of two sites can go on without the other.
enum class Role : std::uint8_t { worker = 1, server = 2, state_server = 4, witness = 8 };

struct Member {
  std::string site;
  std::uint32_t rank_in_site = 0;
  // Of the node itself: 0 if it is there from the beginning; else it comes back to a run that has
  // declared it lost, knows nothing of it and has to be let in. Of the others: 0.
  std::uint32_t incarnation = 0;
  std::uint8_t roles = std::uint8_t(Role::worker);

  bool is(Role role) const { return (roles & std::uint8_t(role)) != 0; }
};
using Members = std::vector<Member>;  // index = rank

struct Place {
  Rank self = 0;
  std::shared_ptr<const Members> members;
  std::shared_ptr<const Layout> layout;
  std::uint64_t seed = 0;
  // Messages carry at most `chunk_bytes` of a vector. A phantom job has sizes but no numbers, and
  // may send `chunk_run` chunks as one message (kinds of link models: sim/).
  std::uint32_t chunk_bytes = 256 * 1024;
  bool phantom = false;
  std::uint32_t chunk_run = 1;

  std::uint32_t size() const { return std::uint32_t(members->size()); }
  const Member& member(Rank rank) const { return members->at(rank); }
  const Member& me() const { return member(self); }
  bool comes_back() const { return me().incarnation > 0; }
  // The most values of a vector that one message may carry.
  std::uint64_t longest_piece() const {
    return std::max<std::uint64_t>(chunk_bytes / sizeof(float), 1) * (phantom ? chunk_run : 1);
  }
};

// Who is in the job now. All nodes see the same views in the same order.
struct View {
  Epoch epoch = 0;
  std::vector<Rank> live;  // ascending
  // The live ones that were lost and came back, each with the epoch that it came back in. What they
  // did not live through they have to be told.
  std::map<Rank, Epoch> returned = {};
  // Nodes that the run began with, the lowest ranks: a job may get others when it is resumed. What
  // was dealt out at the beginning stays dealt out. 0: all of the job.
  std::uint32_t founders = 0;

  bool has(Rank rank) const { return std::binary_search(live.begin(), live.end(), rank); }
  Rank lowest() const { return live.front(); }
  Epoch since(Rank rank) const {
    const auto it = returned.find(rank);
    return it == returned.end() ? 0 : it->second;
  }
  void state(auto& archive) { archive(epoch, live, returned, founders); }
};

// The live ranks that hold `role`, ascending.
inline std::vector<Rank> live_with(Role role, const Place& place, const View& view) {
  std::vector<Rank> ranks;
  for (Rank rank : view.live)
    if (place.member(rank).is(role)) ranks.push_back(rank);
  return ranks;
}

// The live worker that has been here longest, of several the lowest: it knows what any knows.
inline Rank senior_worker(const Place& place, const View& view) {
  const std::vector<Rank> workers = live_with(Role::worker, place, view);
  const auto senior = std::min_element(workers.begin(), workers.end(), [&](Rank a, Rank b) {
    return std::pair(view.since(a), a) < std::pair(view.since(b), b);
  });
  return senior == workers.end() ? view.lowest() : *senior;
}

}  // namespace longhaul
