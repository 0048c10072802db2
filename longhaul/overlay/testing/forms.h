#pragma once
// Every overlay in every form of its own.
#include "longhaul/overlay/testing/exchange.h"

namespace longhaul::overlay::testing {

inline std::vector<ExchangeConfig> forms() {
  std::vector<ExchangeConfig> all;
  for (const char* kind : {"direct", "hub", "ring"})
    for (const char* phases : {"streamed", "sequential"})
      all.push_back({.kind = kind, .phases = phases});
  for (const char* phases : {"streamed", "sequential"})
    all.push_back({.kind = "hub", .phases = phases, .server = true});
  all.push_back({.kind = "hub", .down_codec = "same", .window = 2, .server = true});
  return all;
}

inline std::string name(const ExchangeConfig& c) {
  return c.kind + " " + c.phases + (c.server ? " server" : "") + (c.window > 0 ? " window" : "") +
         ", workers " + std::to_string(c.workers) + ", length " + std::to_string(c.length) +
         ", order " + std::to_string(c.order);
}

}  // namespace longhaul::overlay::testing
