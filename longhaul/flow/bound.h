#pragma once
// How fast a collective can be on a Wan, whatever overlay, strategy or plan carries it out:
// physical lower bounds of all-reduce and broadcast, derived in docs/bounds.md. Delays are left
// out, and so is traffic within a site; a site counts as one that holds one vector.
#include <cstdint>
#include <string>
#include <vector>

#include "longhaul/flow/tcp.h"
#include "longhaul/flow/wan.h"

namespace longhaul::flow {

// IP bytes for each byte that TCP carries: full packets of 1500 bytes with 20 bytes of IPv4 header,
// 20 of TCP and 12 of timestamps. Our own frames add 0.04 % (docs/costs.md), which is left out.
inline constexpr double kIpPerByte = double(kMtu) / (kMtu - kTcpHeaders);

enum class Collective : std::uint8_t {
  all_reduce,  // every site gives a vector and gets the sum of all
  broadcast    // every site gets the vector of one
};

struct Task {
  Collective op = Collective::all_reduce;
  double bytes = 0;        // of one vector, as rates count them: IP bytes
  std::uint32_t root = 0;  // broadcast: who has it
};

// One reason why it takes at least so long.
struct Limit {
  enum class What : std::uint8_t { uplink, downlink, all_uplinks, all_downlinks, cut };
  What what = What::uplink;
  double seconds = 0;
  std::vector<std::uint32_t> sites = {};  // the site; of a cut those that send
};

struct Bound {
  double seconds = 0;         // the longest of the limits; 0: nothing limits it
  std::vector<Limit> limits;  // one of each kind, its longest; the one that binds first
};

// Up to so many sites all cuts are looked at; beyond, those around one site and one shared link.
inline constexpr std::size_t kMaxSitesForAllCuts = 16;

// CHECKs that the root is a site.
Bound lower_bound(const Wan&, const Task&);

// "uplink of saopaulo", "the cut from west-1, west-2 to the others".
std::string to_text(const Limit&, const Wan&);

}  // namespace longhaul::flow
