#include "longhaul/flow/tcp.h"

#include <algorithm>
#include <cmath>

#include "longhaul/base/check.h"
#include "longhaul/flow/rate.h"

namespace longhaul::flow {
namespace {

// RFC 9438: C of section 5.1, beta_cubic of 4.6; the mean windows, in segments, of 5.1 and 4.3.
constexpr double kC = 0.4;
constexpr double kBeta = 0.7;

double cubic_window(double loss, double rtt_s) {
  return std::pow(kC * (3 + kBeta) / (4 * (1 - kBeta)), 0.25) * std::pow(rtt_s / loss, 0.75);
}

double reno_friendly_window(double loss) {
  const double alpha = 3 * (1 - kBeta) / (1 + kBeta);
  return std::sqrt(alpha * (1 + kBeta) / (2 * (1 - kBeta) * loss));
}

}  // namespace

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

bool minds_loss(const Tcp& tcp, double loss) {
  LH_CHECK(loss >= 0 && loss < 1);
  return loss > (tcp.control == Tcp::Control::bbr ? tcp.bbr_threshold : 0);
}

double cubic_mean_window(double loss, double rtt_s) {
  return std::max({1.0, cubic_window(loss, rtt_s), reno_friendly_window(loss)});
}

double ack_share(const Tcp& tcp) { return tcp.mtu > 0 ? 0.5 * kTcpHeaders / tcp.mtu : 0; }

std::optional<Rest> rest(const Tcp& tcp, double rtt_s) {
  if (tcp.control != Tcp::Control::bbr || tcp.first_window == 0 || rtt_s <= 0) return std::nullopt;
  return Rest{.for_s = std::max(0.2, rtt_s), .rate = 4 * tcp.packet() / rtt_s};
}

}  // namespace longhaul::flow
