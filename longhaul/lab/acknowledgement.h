#pragma once
// Recognises bare TCP acknowledgements, which the router queues apart from data.
#include <cstddef>
#include <span>

namespace longhaul::lab {

// Whether an IPv4 packet is a TCP segment (RFC 9293) that only acknowledges: no data, no SYN, FIN
// or RST. False for truncated packets and later fragments.
bool is_bare_acknowledgement(std::span<const std::byte> packet);

}  // namespace longhaul::lab
