#pragma once
// A Wan is a network between sites as numbers, for link models, presets and physical bounds. Bytes
// per second and seconds; an absent rate is unlimited.
//
// Bytes from site a to site b pass a's uplink, the ordered pair (a, b), every shared link that the
// pair crosses, and b's downlink. Plain values; no state.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "longhaul/flow/rate.h"
#include "longhaul/flow/trace.h"

namespace longhaul::flow {

using SitePair = std::pair<std::uint32_t, std::uint32_t>;  // (from, to), indices of sites

struct Wan {
  struct Site {
    std::string name;
    Rate up, down;           // all traffic that leaves the site, and that arrives
    Rate lan;                // each node's port, each way, for traffic within the site
    double lan_delay_s = 0;  // one way
    std::uint32_t nodes = 1;
    friend bool operator==(const Site&, const Site&) = default;
  };
  struct Pair {
    Rate rate;
    double delay_s = 0;     // one way
    double jitter_s = 0;    // standard deviation of the delay
    double loss = 0;        // share of packets lost
    Rate flow = {};         // limit of each connection, besides the pair's rate
    double loss_burst = 0;  // mean number of packets lost in a row; 0: each by itself (loss.h)
    std::optional<std::uint32_t> relay = {};  // the site through which it goes (relays.h)
    friend bool operator==(const Pair&, const Pair&) = default;
  };
  struct Shared {  // a backbone that several pairs cross
    std::string name;
    double rate = 0;
    std::vector<SitePair> pairs;
    friend bool operator==(const Shared&, const Shared&) = default;
  };

  // The queues of a port (a link with a rate) while it is full.
  enum class Queue : std::uint8_t {
    per_flow,  // each flow by itself, acknowledgements too: nothing waits for another flow
    drop_tail  // one queue for each class of service, which all flows share
  };

  std::vector<Site> sites;
  Pair usual;                      // ordered pairs that are not in `pairs`
  std::map<SitePair, Pair> pairs;  // pairs that differ
  std::vector<Shared> shared;
  std::uint32_t streams = 1;  // connections from a node to a node
  Queue queue = Queue::per_flow;
  double queue_s = 0;          // drop_tail: a queue holds what its port sends in this time
  std::vector<Traced> traces;  // at most one trace for a quantity

  const Pair& pair(std::uint32_t from, std::uint32_t to) const {
    const auto own = pairs.find({from, to});
    return own == pairs.end() ? usual : own->second;
  }
  // Returns the most that the pair carries: the smaller of its rate and the sum of its connections'
  // limits.
  Rate capacity(std::uint32_t from, std::uint32_t to) const {
    const Pair& way = pair(from, to);
    if (!way.flow) return way.rate;
    const double all = *way.flow * streams * sites[from].nodes * sites[to].nodes;
    return way.rate ? std::min(*way.rate, all) : all;
  }
  friend bool operator==(const Wan&, const Wan&) = default;
};

}  // namespace longhaul::flow
