#include "longhaul/net/callers.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "longhaul/net/tcp.h"

namespace longhaul::net {
namespace {

template <class Which>
std::optional<std::size_t> oldest(std::span<const Caller> others, Time now, Which&& which) {
  const auto index_of = [&](auto&& also) -> std::optional<std::size_t> {
    const auto found =
        std::ranges::find_if(others, [&](const Caller& one) { return which(one) && also(one); });
    if (found == others.end()) return std::nullopt;
    return std::size_t(found - others.begin());
  };
  if (const auto silent = index_of([](const Caller& one) { return one.is_silent; })) return silent;
  return index_of([&](const Caller& one) { return now - one.since >= Callers::kPatience; });
}

}  // namespace

std::optional<std::size_t> Callers::place_of(const Caller& next, std::span<const Caller> others,
                                             Time now) {
  const auto is_any = [](const Caller&) { return true; };
  const auto is_stranger = [](const Caller& one) { return !one.is_member; };
  const auto is_neighbour = [&](const Caller& one) { return one.host == next.host; };
  const auto many = [&](auto&& which, std::size_t most) {
    return std::size_t(std::ranges::count_if(others, which)) >= most;
  };
  if (!next.is_member) {
    if (many(is_neighbour, kMostOfOne)) return oldest(others, now, is_neighbour);
    if (many(is_stranger, kMostStrangers) || many(is_any, kMost))
      return oldest(others, now, is_stranger);
  } else if (many(is_any, kMost)) {
    return oldest(others, now, is_any);
  }
  return others.size();
}

std::string host_of(const std::string& peer) {
  const auto address = parse_address(peer);
  if (!address) return peer;
  in6_addr v6{};
  if (inet_pton(AF_INET6, address->host.c_str(), &v6) != 1) return address->host;
  std::fill(std::begin(v6.s6_addr) + 8, std::end(v6.s6_addr), 0);
  std::array<char, INET6_ADDRSTRLEN> text{};
  return fmt::format("{}/64", inet_ntop(AF_INET6, &v6, text.data(), text.size()));
}

}  // namespace longhaul::net
