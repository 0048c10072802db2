#pragma once
// What the router looks for in a packet beside its addresses and class of service.
#include <cstddef>
#include <span>

namespace longhaul::lab {

// An IPv4 packet of TCP (RFC 9293) that acknowledges and does nothing else: no data, and neither
// begins nor ends a connection. False of what is cut short, and of later fragments.
bool is_bare_acknowledgement(std::span<const std::byte> packet);

}  // namespace longhaul::lab
