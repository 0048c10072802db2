#pragma once
// Lower bounds on the time of a collective on a Wan, for any overlay, strategy or plan: physical
// bounds of all-reduce and broadcast, explained in docs/bounds.md. Traffic within a site is left
// out; each site holds one vector.
#include <cstdint>
#include <string>
#include <vector>

#include "longhaul/flow/tcp.h"
#include "longhaul/flow/wan.h"

namespace longhaul::flow {

// IP bytes for each byte that TCP carries: full packets of 1500 bytes with 20 bytes of IPv4 header,
// 20 of TCP and 12 of timestamps. Frame headers (0.04 %, docs/costs.md) are left out.
inline constexpr double kIpPerByte = double(kMtu) / (kMtu - kTcpHeaders);

enum class Collective : std::uint8_t {
  all_reduce,  // every site contributes a vector and gets the sum
  broadcast    // every site gets the vector of one
};

struct Task {
  Collective op = Collective::all_reduce;
  double bytes = 0;        // size of one vector in IP bytes, the unit of rates
  std::uint32_t root = 0;  // broadcast: the site that has the vector
};

// One lower bound on the time, and its cause.
struct Limit {
  enum class What : std::uint8_t { uplink, downlink, all_uplinks, all_downlinks, cut, delays };
  What what = What::uplink;
  double seconds = 0;
  // The site. Cut: the sites of the sending side. Delays: source and destination; empty: all sites.
  std::vector<std::uint32_t> sites = {};
};

struct Bound {
  double seconds = 0;         // the longest of the limits; 0: no limit
  double bandwidth_s = 0;     // the longest of the limits without delays
  std::vector<Limit> limits;  // the longest of each kind; the binding one first
};

// Up to this number of sites all cuts are examined; beyond it, those around one site or shared
// link.
inline constexpr std::size_t kMaxSitesForAllCuts = 16;

// CHECKs that the root is a site.
Bound lower_bound(const Wan&, const Task&);

// "uplink of saopaulo", "the cut from west-1, west-2 to the others".
std::string to_text(const Limit&, const Wan&);

}  // namespace longhaul::flow
