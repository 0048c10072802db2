#pragma once
// Every overlay in every form of its own.
#include "longhaul/overlay/testing/exchange.h"

namespace longhaul::overlay::testing {

inline std::vector<ExchangeConfig> forms() {
  std::vector<ExchangeConfig> all;
  for (const char* kind : {"direct", "hub", "ring", "rack", "binary", "halving_doubling"})
    for (const char* phases : {"streamed", "sequential"})
      all.push_back({.kind = kind, .phases = phases});
  for (const char* phases : {"streamed", "sequential"})
    for (const char* kind : {"hub", "rack", "binary"})
      all.push_back({.kind = kind, .phases = phases, .server = true});
  all.push_back({.kind = "hub", .down_codec = "same", .window = 2, .server = true});
  // A circle that begins 0, 2, 1.
  all.push_back({.kind = "ring", .by_rate = [](Rank from, Rank to) {
                   return double(from ^ to) + (from > to ? 1 : 0);
                 }});
  all.push_back({.kind = "rack", .groups = 1});
  all.push_back({.kind = "binary", .seeded = true});
  return all;
}

inline std::string name(const ExchangeConfig& c) {
  return c.kind + " " + c.phases + (c.server ? " server" : "") + (c.window > 0 ? " window" : "") +
         (c.by_rate ? " by rate" : "") + (c.groups > 0 ? " groups" : "") +
         (c.seeded ? " seeded" : "") + ", workers " + std::to_string(c.workers) + ", length " +
         std::to_string(c.length) + ", order " + std::to_string(c.order);
}

}  // namespace longhaul::overlay::testing
