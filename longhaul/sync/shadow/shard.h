#pragma once
// The centre of elastic averaging is cut into shards, each with its own sync server. Every node
// derives the servers from its views. The first servers are those of the job. A lost server is
// followed by the next live node in rank order, with the next server epoch. A returned node has not
// seen all views: it receives the servers, and follows a lost one only if no other node can.
#include <algorithm>
#include <vector>

#include "longhaul/core/place.h"
#include "longhaul/sync/shadow/elastic.h"

namespace longhaul::sync::shadow {

struct Shard {
  Range range;
  Rank server = 0;
  std::uint32_t server_epoch = 0;
  bool is_known = true;  // whether the server is known
  // At its server.
  Centre centre;
  std::optional<Rank> asked;  // trainer that was asked for the first values
  // Numbers of the exchanges that wait for the first values, by trainer and exchanger.
  std::map<std::pair<Rank, std::uint32_t>, std::uint64_t> pulls;

  // Returns true if the server changed.
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

// Returns the shards. Their servers are the named one, then the other nodes with the role, then all
// other nodes but witnesses, in rank order from the named one. Shards are equal parts of the
// layout, the first ones a value longer. There are at most as many shards as nodes and values.
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
