#include "longhaul/lab/acknowledgement.h"

#include <netinet/in.h>

namespace longhaul::lab {
namespace {

constexpr std::size_t kIpHeader = 20, kTcpHeader = 20;  // without options
constexpr std::size_t kFin = 0x01, kSyn = 0x02, kRst = 0x04, kAck = 0x10;

}  // namespace

bool is_bare_acknowledgement(std::span<const std::byte> packet) {
  const auto byte = [&](std::size_t i) { return std::to_integer<std::size_t>(packet[i]); };
  if (packet.size() < kIpHeader || byte(9) != IPPROTO_TCP) return false;
  if ((byte(6) & 0x1f) != 0 || byte(7) != 0) return false;  // not the first fragment
  const std::size_t ip = (byte(0) & 0xf) * 4;
  if (ip < kIpHeader || packet.size() < ip + kTcpHeader) return false;
  const std::size_t tcp = (byte(ip + 12) >> 4) * 4;
  return (byte(ip + 13) & (kFin | kSyn | kRst | kAck)) == kAck && packet.size() == ip + tcp;
}

}  // namespace longhaul::lab
