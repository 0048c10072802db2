#pragma once
// A network namespace for each site. Its only route to other sites is a TUN device: the router
// reads a site's packets from the device's descriptor and writes packets for the site to it.
// Namespaces and devices have no names; they exist while a process or descriptor holds them. So
// nothing is left behind, however the processes end.
//
// Site i (from 0) has the address 10.0.0.0 + i + 1 and reaches others through its device "wan0".
// Nodes of one site use its loopback, without the router.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/lab/descriptor.h"

namespace longhaul::lab {

inline constexpr std::uint32_t kMaxSites = 65000;
inline constexpr std::uint32_t kMaxPacket = 1500;  // MTU of the devices, bytes

struct SiteNetwork {
  Descriptor netns;  // the namespace; setns() enters it
  Descriptor tun;    // non-blocking; one read or write is one IP packet
};

// Error: what is missing (root or capabilities, /dev/net/tun) and the remedy.
Result<std::vector<SiteNetwork>> make_networks(std::size_t sites);

std::string site_address(std::uint32_t site);  // "10.0.0.1"
// The site with this IPv4 address (host byte order), if it is one of `sites`.
std::optional<std::uint32_t> site_at(std::uint32_t address, std::size_t sites);

// Runs `work` on a new thread in that namespace, and waits for it.
Status within(int netns, const std::function<Status()>& work);
// Packets that the namespace's device has dropped because the router did not read them in time.
Result<std::uint64_t> overruns(int netns);

}  // namespace longhaul::lab
