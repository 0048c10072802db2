#pragma once
// Networks for tests: sites s0, s1 ... with round numbers.
#include <rapidcheck.h>

#include "longhaul/flow/wan.h"

namespace longhaul::flow::testing {

// Unlimited pairs; every site sends and gets `rate` bytes a second.
inline Wan equal_sites(std::size_t count, double rate) {
  Wan wan;
  for (std::size_t i = 0; i < count; ++i)
    wan.sites.push_back({.name = "s" + std::to_string(i), .up = rate, .down = rate, .lan = {}});
  return wan;
}

// 1 to 20 kB/s; one in four unlimited.
inline Rate any_rate() {
  const int rate = *rc::gen::inRange(-6, 21);
  return rate > 0 ? Rate(rate * 1e3) : std::nullopt;
}

// Two to six sites; some pairs of their own, and perhaps a link that some pairs share.
inline Wan any_wan() {
  Wan wan;
  const auto count = *rc::gen::inRange<std::uint32_t>(2, 7);
  for (std::uint32_t i = 0; i < count; ++i)
    wan.sites.push_back(
        {.name = "s" + std::to_string(i), .up = any_rate(), .down = any_rate(), .lan = {}});
  wan.usual.rate = any_rate();
  Wan::Shared shared{"shared", 1e3 * *rc::gen::inRange(1, 21), {}};
  for (std::uint32_t a = 0; a < count; ++a)
    for (std::uint32_t b = 0; b < count; ++b) {
      if (a == b) continue;
      if (*rc::gen::inRange(0, 2)) wan.pairs[{a, b}].rate = any_rate();
      if (*rc::gen::inRange(0, 3) == 0) shared.pairs.push_back({a, b});
    }
  if (!shared.pairs.empty() && *rc::gen::inRange(0, 2)) wan.shared.push_back(shared);
  return wan;
}

// The same with some links faster, or without a limit.
inline Wan raised(Wan wan) {
  auto raise = [](Rate& rate) {
    const int how = *rc::gen::inRange(0, 4);
    if (rate && how == 1) *rate *= 3;
    if (how == 2) rate = std::nullopt;
  };
  for (Wan::Site& site : wan.sites) {
    raise(site.up);
    raise(site.down);
  }
  for (auto& [way, pair] : wan.pairs) raise(pair.rate);
  for (Wan::Shared& link : wan.shared) link.rate *= *rc::gen::inRange(1, 3);
  return wan;
}

inline Wan scaled(Wan wan, double factor) {
  auto scale = [&](Rate& rate) {
    if (rate) *rate *= factor;
  };
  for (Wan::Site& site : wan.sites) {
    scale(site.up);
    scale(site.down);
  }
  scale(wan.usual.rate);
  for (auto& [way, pair] : wan.pairs) scale(pair.rate);
  for (Wan::Shared& link : wan.shared) link.rate *= factor;
  return wan;
}

}  // namespace longhaul::flow::testing
