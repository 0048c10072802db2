#include "longhaul/net/udp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fmt/format.h>

namespace longhaul::net {
namespace {

// Datagrams read before the loop serves other sockets, and by one call.
constexpr std::size_t kReadAtOnce = 64, kReadByOne = 16;
constexpr int kKernelBytes = 1 << 20;
// Limits of one segmented message: pieces, and bytes with room for a header.
constexpr std::size_t kMostSegments = 64, kMostSegmented = 65000;
constexpr int kUdpSegment = 103;  // UDP_SEGMENT of linux/udp.h

// A run of datagrams that are one message for the kernel.
struct Run {
  std::size_t first = 0, count = 0, at = 0, bytes = 0;  // `at`: offset of its bytes
};

// Returns runs of one size, the last datagram of which may be shorter. Without segments, each
// datagram is a run.
std::vector<Run> runs_of(std::span<const std::uint32_t> sizes, bool by_segments) {
  std::vector<Run> runs;
  std::size_t at = 0;
  bool is_open = false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (is_open) {
      const Run& run = runs.back();
      const bool fits = run.count < kMostSegments && run.bytes + sizes[i] <= kMostSegmented &&
                        sizes[i] <= sizes[run.first];
      is_open = by_segments && fits;
    }
    if (!is_open) runs.push_back({.first = i, .at = at});
    Run& run = runs.back();
    ++run.count;
    run.bytes += sizes[i];
    at += sizes[i];
    is_open = sizes[i] == sizes[run.first];
  }
  return runs;
}

sockaddr* raw(UdpAddress& address) { return reinterpret_cast<sockaddr*>(address.bytes.data()); }

class KernelUdpSocket final : public UdpSocket {
 public:
  KernelUdpSocket(int descriptor, bool is_v6, const UdpOptions& options, Received received)
      : descriptor_(descriptor),
        is_v6_(is_v6),
        longest_(options.longest + 1),
        uses_segments_(options.uses_segments),
        received_(std::move(received)),
        buffer_(kReadByOne * longest_) {
    const int probe = IP_PMTUDISC_PROBE;  // no fragments; the sender searches the longest size
    if (!is_v6_) ::setsockopt(descriptor_, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof probe);
    if (is_v6_) ::setsockopt(descriptor_, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &probe, sizeof probe);
  }
  ~KernelUdpSocket() override {
    watch_.reset();
    ::close(descriptor_);
  }
  void start(Loop& loop) {
    watch_ = watch_readable(loop, descriptor_, [this] { read(); });
  }

  std::optional<UdpAddress> address(const std::string& host, std::uint16_t port) const override {
    UdpAddress to;
    if (is_v6_) {
      sockaddr_in6 v6{};
      if (::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) != 1) return std::nullopt;
      v6.sin6_family = AF_INET6;
      v6.sin6_port = htons(port);
      to.size = sizeof v6;
      std::memcpy(to.bytes.data(), &v6, sizeof v6);
    } else {
      sockaddr_in v4{};
      if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) != 1) return std::nullopt;
      v4.sin_family = AF_INET;
      v4.sin_port = htons(port);
      to.size = sizeof v4;
      std::memcpy(to.bytes.data(), &v4, sizeof v4);
    }
    return to;
  }

  bool reaches(const UdpAddress& to) const {
    return to.size == (is_v6_ ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  }
  std::size_t send(const UdpAddress& to, std::span<const std::byte> bytes,
                   std::span<const std::uint32_t> sizes) override {
    std::size_t taken = 0;
    for (const Run& run : send_runs(to, bytes, sizes, runs_of(sizes, uses_segments_), taken)) {
      // The kernel or its device does not cut: send one by one, and keep to that if it works.
      const auto one = sizes.subspan(run.first, run.count);
      const auto of_run = bytes.subspan(run.at, run.bytes);
      std::size_t went = 0;
      (void)send_runs(to, of_run, one, runs_of(one, false), went);
      if (went == run.count) uses_segments_ = false;
      taken += went;
    }
    return taken;
  }
  void set_dscp(unsigned dscp) override {
    const int value = int(dscp << 2);
    if (!is_v6_) ::setsockopt(descriptor_, IPPROTO_IP, IP_TOS, &value, sizeof value);
    if (is_v6_) ::setsockopt(descriptor_, IPPROTO_IPV6, IPV6_TCLASS, &value, sizeof value);
  }
  std::uint16_t port() const override {
    sockaddr_storage at{};
    socklen_t size = sizeof at;
    if (::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&at), &size) != 0) return 0;
    return ntohs(at.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(at).sin6_port
                                          : reinterpret_cast<const sockaddr_in&>(at).sin_port);
  }

 private:
  struct Segments {  // control message with the length of the pieces
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(std::uint16_t))> bytes{};
  };

  // Adds the accepted datagrams to `taken`, and returns the runs that the kernel did not cut.
  std::vector<Run> send_runs(const UdpAddress& to, std::span<const std::byte> bytes,
                             std::span<const std::uint32_t> sizes, const std::vector<Run>& runs,
                             std::size_t& taken) {
    std::vector<mmsghdr> messages(runs.size());
    std::vector<iovec> pieces(runs.size());
    std::vector<Segments> segments(runs.size());
    UdpAddress target = to;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      pieces[i] = {const_cast<std::byte*>(bytes.data()) + runs[i].at, runs[i].bytes};
      msghdr& message = messages[i].msg_hdr;
      message.msg_name = raw(target);
      message.msg_namelen = target.size;
      message.msg_iov = &pieces[i];
      message.msg_iovlen = 1;
      if (runs[i].count == 1) continue;
      message.msg_control = segments[i].bytes.data();
      message.msg_controllen = segments[i].bytes.size();
      cmsghdr* const control = CMSG_FIRSTHDR(&message);
      control->cmsg_level = IPPROTO_UDP;
      control->cmsg_type = kUdpSegment;
      control->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
      const auto size = std::uint16_t(sizes[runs[i].first]);
      std::memcpy(CMSG_DATA(control), &size, sizeof size);
    }
    std::vector<Run> uncut;
    for (std::size_t i = 0; i < runs.size();) {
      const int count = ::sendmmsg(descriptor_, &messages[i], unsigned(runs.size() - i),
                                   MSG_DONTWAIT | MSG_NOSIGNAL);
      for (int k = 0; k < count; ++k) taken += runs[i + std::size_t(k)].count;
      if (count > 0) i += std::size_t(count);
      if (count > 0 || (errno == EINTR && count < 0)) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) break;  // lost
      if (runs[i].count > 1) uncut.push_back(runs[i]);
      ++i;  // error of this datagram or an earlier one (no port, no route): send the rest
    }
    return uncut;
  }

  // Reads datagrams. A kernel error concerns a sent datagram (no port, no route) and is ignored.
  void read() {
    std::array<mmsghdr, kReadByOne> messages{};
    std::array<iovec, kReadByOne> pieces{};
    std::array<UdpAddress, kReadByOne> from{};
    for (std::size_t done = 0; done < kReadAtOnce;) {
      for (std::size_t i = 0; i < kReadByOne; ++i) {
        pieces[i] = {&buffer_[i * longest_], longest_};
        messages[i] = {};
        messages[i].msg_hdr.msg_name = raw(from[i]);
        messages[i].msg_hdr.msg_namelen = socklen_t(from[i].bytes.size());
        messages[i].msg_hdr.msg_iov = &pieces[i];
        messages[i].msg_hdr.msg_iovlen = 1;
      }
      const int count =
          ::recvmmsg(descriptor_, messages.data(), unsigned(kReadByOne), MSG_DONTWAIT, nullptr);
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      done += std::size_t(std::max(count, 1));
      for (std::size_t i = 0; count > 0 && i < std::size_t(count); ++i) {
        from[i].size = std::uint8_t(messages[i].msg_hdr.msg_namelen);
        if (const std::size_t size = messages[i].msg_len; size > 0 && size < longest_)
          received_(std::span<const std::byte>(&buffer_[i * longest_], size), from[i]);
      }
      if (count >= 0 && std::size_t(count) < kReadByOne) return;
    }
  }

  const int descriptor_;
  const bool is_v6_;
  const std::size_t longest_;
  bool uses_segments_;
  const Received received_;
  std::vector<std::byte> buffer_;
  std::unique_ptr<Watch> watch_;
};

// One socket per family, and per address if a family has several hosts.
class UdpSockets final : public UdpSocket {
 public:
  explicit UdpSockets(std::vector<std::unique_ptr<KernelUdpSocket>> all) : all_(std::move(all)) {}
  std::optional<UdpAddress> address(const std::string& host, std::uint16_t port) const override {
    for (const auto& one : all_)
      if (auto to = one->address(host, port)) return to;
    return std::nullopt;
  }
  std::size_t send(const UdpAddress& to, std::span<const std::byte> bytes,
                   std::span<const std::uint32_t> sizes) override {
    for (const auto& one : all_)
      if (one->reaches(to)) return one->send(to, bytes, sizes);
    return 0;
  }
  void set_dscp(unsigned dscp) override {
    for (const auto& one : all_) one->set_dscp(dscp);
  }
  std::uint16_t port() const override { return all_.front()->port(); }

 private:
  const std::vector<std::unique_ptr<KernelUdpSocket>> all_;
};

// Returns a descriptor, or -1 and sets errno.
int open_at(const std::string& host, std::uint16_t port) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  const bool is_v6 = ::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1;
  v6.sin6_family = AF_INET6;
  v4.sin_family = AF_INET;
  v6.sin6_port = v4.sin_port = htons(port);
  if (!is_v6) LH_CHECK(::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1);
  const sockaddr* const to =
      is_v6 ? reinterpret_cast<const sockaddr*>(&v6) : reinterpret_cast<const sockaddr*>(&v4);
  const int made =
      ::socket(is_v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) return -1;
  const int on = 1;
  if (is_v6) ::setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  for (const int which : {SO_RCVBUF, SO_SNDBUF})
    ::setsockopt(made, SOL_SOCKET, which, &kKernelBytes, sizeof kKernelBytes);
  if (::bind(made, to, is_v6 ? sizeof v6 : sizeof v4) == 0) return made;
  const int error = errno;
  ::close(made);
  errno = error;
  return -1;
}

}  // namespace

Result<std::unique_ptr<UdpSocket>> open_udp(Loop& loop, const UdpOptions& options,
                                            UdpSocket::Received received) {
  std::vector<std::unique_ptr<KernelUdpSocket>> all;
  int failed = EADDRNOTAVAIL;
  for (const std::string& host : options.hosts) {
    const int made = open_at(host, all.empty() ? options.port : all.front()->port());
    if (made >= 0) {
      const bool is_v6 = host.find(':') != std::string::npos;
      all.push_back(std::make_unique<KernelUdpSocket>(made, is_v6, options, received));
      continue;
    }
    failed = errno;
    // A machine without IPv6 still has IPv4.
    if (failed == EADDRNOTAVAIL || failed == EAFNOSUPPORT) continue;
    all.clear();
    break;
  }
  if (all.empty())
    return unavailable(fmt::format("UDP port {}: {}", options.port, std::strerror(failed)));
  for (const auto& one : all) one->start(loop);
  return std::unique_ptr<UdpSocket>(std::make_unique<UdpSockets>(std::move(all)));
}

}  // namespace longhaul::net
