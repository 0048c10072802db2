#pragma once
// How TCP differs from an ideal fair share: headers, acknowledgements, slow start, bbr's ProbeRTT,
// and whether loss slows it down. Bytes, bytes per second and seconds. Pure functions;
// docs/simulator.md explains them.
//
// Sources: slow start and the initial window of 10 segments: RFC 6928, RFC 9438 section 4.10;
// CUBIC: RFC 9438 sections 4.3, 4.6, 5.1; BBR: Cardwell et al., "BBR: Congestion-based congestion
// control", ACM Queue 14(5), 2016, and draft-ietf-ccwg-bbr (BBRLossThresh).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "longhaul/base/check.h"
#include "longhaul/flow/rate.h"

namespace longhaul::flow {

inline constexpr std::uint32_t kMtu = 1500;  // bytes of an IP packet, unless a Tcp says otherwise
// IPv4 and TCP with timestamps; IPv4 and UDP.
inline constexpr std::uint32_t kTcpHeaders = 52;
inline constexpr std::uint32_t kUdpHeaders = 28;

struct Tcp {
  enum class Control : std::uint8_t { bbr, cubic };
  Control control = Control::bbr;
  // Loss up to which bbr keeps its rate; above it, as cubic. 0.2: version 1, the one in Linux,
  // whose probes at 1.25 times the rate lose a fifth before they stop paying. Versions 2 and 3 back
  // off at 0.02 a round trip.
  double bbr_threshold = 0.2;
  std::uint32_t first_window = 10;  // segments; 0: ideal, without slow start and ProbeRTT
  std::uint32_t mtu = kMtu;         // bytes of an IP packet; 0: headers cost nothing

  double packet() const { return mtu > 0 ? mtu : kMtu; }
};

// IP bytes of a message in a stream of full packets; at least one packet. Without retransmissions.
inline double stream_bytes(const Tcp& tcp, std::uint64_t bytes) {
  if (tcp.mtu == 0) return double(bytes);
  const double full = double(tcp.mtu) / (tcp.mtu - kTcpHeaders);
  return std::max(double(bytes) + kTcpHeaders, double(bytes) * full);
}

// IP bytes of a message that goes as datagrams of its own.
inline double datagram_bytes(const Tcp& tcp, std::uint64_t bytes) {
  if (tcp.mtu == 0) return double(bytes);
  const std::uint64_t each = tcp.mtu - kUdpHeaders;
  const std::uint64_t count = std::max<std::uint64_t>(1, (bytes + each - 1) / each);
  return double(bytes + count * kUdpHeaders);
}

// Returns the number of packets of `ip_bytes`; at least one.
inline std::uint64_t packets(const Tcp& tcp, double ip_bytes) {
  return std::uint64_t(std::max(1.0, std::ceil(ip_bytes / tcp.packet() - 1e-9)));
}

// Rate at which slow start begins; it doubles every round trip. Unlimited if warm or rtt is 0.
inline double slow_start_rate(const Tcp& tcp, double rtt_s) {
  if (tcp.first_window == 0 || rtt_s <= 0) return kUnlimited;
  return tcp.first_window * tcp.packet() / rtt_s;
}

// Whether this share of lost packets limits the rate of the congestion control.
inline bool slows_on_loss(const Tcp& tcp, double loss) {
  LH_CHECK(loss >= 0 && loss < 1);
  return loss > (tcp.control == Tcp::Control::bbr ? tcp.bbr_threshold : 0);
}

// Returns the share of a full link that acknowledgements of the opposite direction take: a packet
// of headers for every second full packet (RFC 5681, section 4.2).
inline double ack_share(const Tcp& tcp) { return tcp.mtu > 0 ? 0.5 * kTcpHeaders / tcp.mtu : 0; }

// ProbeRTT of bbr (version 1, as in Linux): every 10 s it measures the shortest round trip. It
// sends nothing until at most 4 packets are in flight, which takes a round trip. It then keeps 4 in
// flight for the longer of 200 ms and a round trip.
struct ProbeRtt {
  double every_s = 10, for_s = 0, rate = 0;
};
// Nothing for other controls, ideal connections, and where there is no delay.
inline std::optional<ProbeRtt> probe_rtt(const Tcp& tcp, double rtt_s) {
  if (tcp.control != Tcp::Control::bbr || tcp.first_window == 0 || rtt_s <= 0) return std::nullopt;
  return ProbeRtt{.for_s = rtt_s + std::max(0.2, rtt_s), .rate = 4 * tcp.packet() / rtt_s};
}

}  // namespace longhaul::flow
