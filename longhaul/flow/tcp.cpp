#include "longhaul/flow/tcp.h"

#include <algorithm>
#include <cmath>

#include "longhaul/base/check.h"
#include "longhaul/flow/rate.h"

namespace longhaul::flow {

double stream_bytes(const Tcp& tcp, std::uint64_t bytes) {
  if (tcp.mtu == 0) return double(bytes);
  const double full = double(tcp.mtu) / (tcp.mtu - kTcpHeaders);
  return std::max(double(bytes) + kTcpHeaders, double(bytes) * full);
}

double datagram_bytes(const Tcp& tcp, std::uint64_t bytes) {
  if (tcp.mtu == 0) return double(bytes);
  const std::uint64_t each = tcp.mtu - kUdpHeaders;
  const std::uint64_t count = std::max<std::uint64_t>(1, (bytes + each - 1) / each);
  return double(bytes + count * kUdpHeaders);
}

std::uint64_t packets(const Tcp& tcp, double ip_bytes) {
  return std::uint64_t(std::max(1.0, std::ceil(ip_bytes / tcp.packet() - 1e-9)));
}

double slow_start_rate(const Tcp& tcp, double rtt_s) {
  if (tcp.first_window == 0 || rtt_s <= 0) return kUnlimited;
  return tcp.first_window * tcp.packet() / rtt_s;
}

bool slows_on_loss(const Tcp& tcp, double loss) {
  LH_CHECK(loss >= 0 && loss < 1);
  return loss > (tcp.control == Tcp::Control::bbr ? tcp.bbr_threshold : 0);
}

double ack_share(const Tcp& tcp) { return tcp.mtu > 0 ? 0.5 * kTcpHeaders / tcp.mtu : 0; }

std::optional<ProbeRtt> probe_rtt(const Tcp& tcp, double rtt_s) {
  if (tcp.control != Tcp::Control::bbr || tcp.first_window == 0 || rtt_s <= 0) return std::nullopt;
  return ProbeRtt{.for_s = rtt_s + std::max(0.2, rtt_s), .rate = 4 * tcp.packet() / rtt_s};
}

}  // namespace longhaul::flow
