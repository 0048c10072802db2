#pragma once
// The centre of elastic averaging is cut into shards, each at a sync server of its own. Every node
// knows by its views who serves which: the first servers are those of the job, and the next live
// node in the order of ranks follows a lost one, with the next server epoch. A node that has come
// back has not seen all views: it is told, and follows nobody while another may.
#include <algorithm>
#include <vector>

#include "longhaul/core/place.h"
#include "longhaul/sync/shadow/elastic.h"

namespace longhaul::sync::shadow {

struct Shard {
  Range range;
  Rank server = 0;
  std::uint32_t server_epoch = 0;
  bool is_known = true;  // who serves it
  // At its server.
  Centre centre;
  std::optional<Rank> asked;  // for values to begin with
  // seq of the exchanges, by trainer and exchanger, that wait for the first values.
  std::map<std::pair<Rank, std::uint32_t>, std::uint64_t> pulls;

  // True: it moved.
  bool follow(const View& view, const Place& place) {
    const Rank before = server;
    if (view.has(server)) return false;
    const auto has_stayed = [&](Rank rank) {
      return view.since(rank) == 0 && !place.member(rank).is(Role::witness);
    };
    const bool any = std::ranges::any_of(view.live, has_stayed);
    do {
      server = (server + 1) % place.size();
      ++server_epoch;
    } while (!view.has(server) || (any && !has_stayed(server)));
    return server != before;
  }
  void state(Archive& ar) { ar(server, server_epoch, is_known, centre, asked, pulls); }
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
