#pragma once
// The socket settings of a job, for `longhaul site` and `longhaul perf`.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "longhaul/net/peers.h"
#include "longhaul/run/job/job.h"
#include "longhaul/run/security.h"

namespace longhaul::run {

// Parses "host:port" of all nodes, by rank. Error: not one for each node, or an invalid one.
Result<std::vector<net::Address>> parse_addresses(const Job&, const std::vector<std::string>&);
// Error: the job's chunks exceed the largest frame, or it has faults or multicasts by the
// network, which only the simulator has.
Status fits_frames(const Job&, bool faults_are_made = false);
// What a node was told of its sockets.
struct NodeSockets {
  std::vector<net::Address> addresses;                    // by rank
  std::optional<net::Address> bind = {};                  // as PeersConfig's
  int listening = -1;                                     // an inherited socket; -1: none
  std::shared_ptr<secure::Credentials> credentials = {};  // null: insecure
};
// Of the texts and keys that were given; errors name them.
Result<NodeSockets> node_sockets(const Job&, Rank self, const std::vector<std::string>& addresses,
                                 int listening, const Security&);
// `hash`: what all nodes must agree on; refusals name the job's first key that differs.
net::PeersConfig peers_config(const Job&, Rank self, NodeSockets, std::uint64_t hash);
// By peer that this node reaches through a third: the nodes that it tries, the best first.
std::map<Rank, std::vector<Rank>> relays_of(const Job&, Rank self);

}  // namespace longhaul::run
