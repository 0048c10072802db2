// Addresses, and the sockets that listen at them.
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "longhaul/net/tcp.h"

namespace longhaul::net {
namespace {

// A port that the kernel has given at one address may be taken at the next.
constexpr int kPortTries = 16;

struct Endpoint {
  sockaddr_storage at{};
  socklen_t size = sizeof(sockaddr_storage);

  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&at); }
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&at); }
  bool is_v6() const { return at.ss_family == AF_INET6; }
  in_port_t& port() {
    return is_v6() ? reinterpret_cast<sockaddr_in6&>(at).sin6_port
                   : reinterpret_cast<sockaddr_in&>(at).sin_port;
  }
  bool is_everywhere() const {
    return is_v6() && IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(at).sin6_addr);
  }
  bool operator==(const Endpoint& other) const {
    return size == other.size && std::memcmp(&at, &other.at, size) == 0;
  }
};

Endpoint every_v4() {
  Endpoint endpoint;
  endpoint.at.ss_family = AF_INET;
  endpoint.size = sizeof(sockaddr_in);
  return endpoint;
}

Result<std::vector<Endpoint>> look_up(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0)
    return unavailable(fmt::format("this name does not resolve: {}", gai_strerror(error)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> keep(found, freeaddrinfo);
  std::vector<Endpoint> endpoints;
  const auto add = [&](const Endpoint& one) {
    if (std::ranges::find(endpoints, one) == endpoints.end()) endpoints.push_back(one);
  };
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    Endpoint endpoint;
    endpoint.size = one->ai_addrlen;
    std::memcpy(&endpoint.at, one->ai_addr, one->ai_addrlen);
    add(endpoint);
    if (endpoint.is_everywhere()) add(every_v4());
  }
  return endpoints;
}

// Closes what is not released.
struct Descriptors {
  ~Descriptors() {
    for (const ListeningSocket& one : all) ::close(one.descriptor);
  }
  std::vector<ListeningSocket> all;
};

// Each family has sockets of its own, so that addresses of IPv4 look like such. 0, or an errno.
int open_one(Endpoint at, std::uint16_t port, std::vector<ListeningSocket>& opened) {
  const int made = ::socket(at.at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0) return errno;
  opened.push_back({made, port});
  const int on = 1;
  ::setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (at.is_v6()) ::setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  at.port() = htons(port);
  if (::bind(made, at.raw(), at.size) == 0 && ::listen(made, SOMAXCONN) == 0 &&
      ::getsockname(made, at.raw(), &at.size) == 0) {
    opened.back().port = ntohs(at.port());
    return 0;
  }
  const int error = errno;
  opened.pop_back();
  ::close(made);
  return error;
}

// At those that this machine has, at least at one.
int open_each(const std::vector<Endpoint>& endpoints, std::uint16_t port,
              std::vector<ListeningSocket>& opened) {
  int missing = EADDRNOTAVAIL;
  for (const Endpoint& one : endpoints) {
    const int error = open_one(one, opened.empty() ? port : opened.front().port, opened);
    if (error == 0) continue;
    if (error != EADDRNOTAVAIL && error != EAFNOSUPPORT) return error;
    missing = error;
  }
  return opened.empty() ? missing : 0;
}

std::string numeric(const Endpoint& endpoint) {
  char text[INET6_ADDRSTRLEN] = "";
  if (endpoint.is_v6())
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(endpoint.at).sin6_addr, text,
              sizeof text);
  else
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(endpoint.at).sin_addr, text,
              sizeof text);
  return text;
}

}  // namespace

Result<Address> parse_address(std::string_view text) {
  const auto bad = [&] {
    return invalid(
        fmt::format("\"{}\" is no address: expected HOST:PORT, such as \"10.0.0.1:7000\" "
                    "or \"[::1]:7000\"",
                    text));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad();
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad();
  }
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (host.empty() || error != std::errc() || end != digits.data() + digits.size()) return bad();
  return Address{std::string(host), port};
}

std::string to_string(const Address& a) {
  return a.host.find(':') == std::string::npos ? fmt::format("{}:{}", a.host, a.port)
                                               : fmt::format("[{}]:{}", a.host, a.port);
}

bool is_loopback(const Address& address) {
  if (address.host == "localhost") return true;
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, address.host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  return inet_pton(AF_INET6, address.host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

Address listening_address(const Address& own) {
  return is_loopback(own) ? own : Address{kEverywhere, own.port};
}

Result<std::vector<std::string>> resolve(const std::string& host) {
  LH_LET(found, look_up(host));
  std::vector<std::string> hosts;
  for (const Endpoint& one : found) hosts.push_back(numeric(one));
  return hosts;
}

Result<std::vector<ListeningSocket>> open_listening_sockets(const Address& address) {
  const std::string whose = to_string(address) + ": ";
  const auto found = look_up(address.host);
  if (!found) return Error{found.error().kind, whose + found.error().what};
  int error = EADDRINUSE;
  for (int i = 0; i < (address.port == 0 ? kPortTries : 1) && error == EADDRINUSE; ++i) {
    Descriptors opened;
    error = open_each(*found, address.port, opened.all);
    if (error == 0) return std::exchange(opened.all, {});
  }
  if (error == EADDRINUSE)
    return Error{Error::Kind::io, whose +
                                      "cannot listen: another process has this port; end it. Or "
                                      "give this site another port in [[site]] address, or an "
                                      "address to itself in bind"};
  if (error == EADDRNOTAVAIL)
    return unavailable(fmt::format(
        "{}cannot listen: this machine has no such address; leave [[site]] bind out, to listen at "
        "all it has, or name one of them",
        whose));
  return Error{Error::Kind::io, whose + "cannot listen: " + std::strerror(error)};
}

Result<ListeningSocket> open_listening_socket(const Address& address) {
  LH_LET(opened, open_listening_sockets(address));
  LH_CHECK(opened.size() == 1);
  return opened.front();
}

Result<std::vector<Address>> addresses_of_listener(int descriptor) {
  Endpoint at;
  int listens = 0, v6_only = 1;
  socklen_t size = sizeof listens;
  const bool good = ::getsockname(descriptor, at.raw(), &at.size) == 0 &&
                    ::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 &&
                    listens != 0 && (at.is_v6() || at.at.ss_family == AF_INET);
  if (!good) return invalid(fmt::format("descriptor {} is no socket that listens", descriptor));
  const std::uint16_t port = ntohs(at.port());
  std::vector<Address> all = {{numeric(at), port}};
  size = sizeof v6_only;
  if (at.is_everywhere() &&
      ::getsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, &size) == 0 && v6_only == 0)
    all.push_back({numeric(every_v4()), port});
  return all;
}

}  // namespace longhaul::net
