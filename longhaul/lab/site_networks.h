#pragma once
// A network namespace for each site, whose one way out is a TUN device: what a site sends is read
// from a descriptor, and what is written there comes to it. Nothing of it has a name or a file: a
// namespace lives while a process or descriptor holds it, a device while its descriptor is open.
// So nothing is left behind, however the processes end.
//
// Site i (from 0) is 10.0.0.0 + i + 1, every other site is reached through its device "wan0", and
// nodes of one site reach one another over its loopback, past the router.
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
  Descriptor tun;    // does not block; one read or write is one IP packet
};

// An Error says what is missing (root or capabilities, /dev/net/tun) and the remedy.
Result<std::vector<SiteNetwork>> make_networks(std::size_t sites);

std::string site_address(std::uint32_t site);  // "10.0.0.1"
// The site whose IPv4 address (host byte order) it is, if it is one of so many.
std::optional<std::uint32_t> site_at(std::uint32_t address, std::size_t sites);

// Calls `work` on a thread of its own in that namespace, and waits for it.
Status within(int netns, const std::function<Status()>& work);
// Packets that its device has dropped because nobody fetched them in time.
Result<std::uint64_t> overruns(int netns);

}  // namespace longhaul::lab
