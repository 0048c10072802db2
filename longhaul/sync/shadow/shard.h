#pragma once
// The centre of elastic averaging is cut into shards, each at a sync server of its own. Every node
// knows by the view alone who serves which: the first servers are those of the job, and the next
// live node in the order of ranks follows a lost one, with the next server epoch.
#include <algorithm>
#include <set>
#include <vector>

#include "longhaul/core/place.h"
#include "longhaul/sync/shadow/elastic.h"

namespace longhaul::sync::shadow {

struct Shard {
  Range range;
  Rank server = 0;
  std::uint32_t server_epoch = 0;
  // At its server.
  Centre centre;
  std::optional<Rank> asked;  // for values to begin with
  // seq of the exchanges, by trainer and exchanger, that wait for the first values.
  std::map<std::pair<Rank, std::uint32_t>, std::uint64_t> pulls;

  // True: it moved.
  bool follow(const View& view, std::uint32_t nodes) {
    const Rank before = server;
    for (; !view.has(server); ++server_epoch) server = (server + 1) % nodes;
    return server != before;
  }
  void state(Archive& ar) { ar(server, server_epoch, centre, asked, pulls); }
};

// The named server first, then the others with the role, then all others but witnesses, by rank
// from it on; equal parts of the layout, the first ones a value longer. Not more shards than nodes
// or values.
inline std::vector<Shard> shards_of(const Place& place, Rank first, std::uint32_t count) {
  std::vector<Rank> order = {first};
  for (const bool has_role : {true, false})
    for (Rank k = 1; k < place.size(); ++k) {
      const Rank rank = (first + k) % place.size();
      const Member& member = place.member(rank);
      if (member.is(Role::server) == has_role && !member.is(Role::witness)) order.push_back(rank);
    }
  const std::uint64_t size = place.layout->size();
  const std::uint64_t n = std::min({std::uint64_t(count), std::uint64_t(order.size()), size});
  std::vector<Shard> shards(std::max<std::uint64_t>(n, 1));
  std::uint64_t offset = 0;
  for (std::uint64_t s = 0; s < shards.size(); ++s) {
    const std::uint64_t length = size / shards.size() + (s < size % shards.size() ? 1 : 0);
    shards[s].range = {offset, length};
    shards[s].server = order[s];
    offset += length;
  }
  return shards;
}

}  // namespace longhaul::sync::shadow
