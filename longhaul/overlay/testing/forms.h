#pragma once
// Every overlay in every form of its own; under a sanitizer, many times slower, in those that run
// code which no other does.
#include "longhaul/base/testing/effort.h"
#include "longhaul/flow/wan.h"
#include "longhaul/overlay/testing/exchange.h"

namespace longhaul::overlay::testing {

// Sites in a row with thin pairs beside it, and uplinks unlike downlinks: trees over it are deep,
// and not the same up and down.
inline std::shared_ptr<const flow::Wan> row_of_sites() {
  auto wan = std::make_shared<flow::Wan>();
  for (std::uint32_t site = 0; site < 20; ++site)
    wan->sites.push_back({.name = "site" + std::to_string(site),
                          .up = 1e6 * (1 + site % 3),
                          .down = 1e6 * (3 - site % 2),
                          .lan = {}});
  wan->usual.rate = 3e4;
  for (std::uint32_t site = 0; site + 1 < 20; ++site)
    wan->pairs[{site, site + 1}].rate = wan->pairs[{site + 1, site}].rate = 1e6;
  return wan;
}

// A circle by these rates begins 0, 2, 1.
inline std::shared_ptr<const flow::Wan> crossed_sites() {
  auto wan = std::make_shared<flow::Wan>();
  for (std::uint32_t from = 0; from < 20; ++from) {
    wan->sites.push_back({.name = "site" + std::to_string(from), .up = {}, .down = {}, .lan = {}});
    for (std::uint32_t to = 0; to < 20; ++to)
      if (to != from) wan->pairs[{from, to}].rate = double(from ^ to) + (from > to ? 1 : 0);
  }
  return wan;
}

inline std::vector<ExchangeConfig> forms() {
  std::vector<ExchangeConfig> all;
  for (const char* kind : {"direct", "hub", "ring", "rack", "binary", "halving_doubling", "forest"})
    for (const char* phases : {"streamed", "sequential"})
      all.push_back({.kind = kind, .phases = phases});
  all.push_back({.kind = "gather"});
  for (const char* phases : {"streamed", "sequential"})
    for (const char* kind : {"hub", "rack", "binary"})
      all.push_back({.kind = kind, .phases = phases, .server = true});
  for (const bool server : {false, true})
    for (const std::uint32_t buckets : {1u, 3u})
      all.push_back({.kind = "tsengine", .buckets = buckets, .server = server});
  all.push_back({.kind = "tsengine", .phases = "sequential", .buckets = 3});
  all.push_back({.kind = "tsengine", .hasty = true, .buckets = 2});
  all.push_back({.kind = "hub", .down_codec = "same", .window = 2, .server = true});
  all.push_back({.kind = "ring", .network = crossed_sites()});
  all.push_back({.kind = "rack", .groups = 1});
  all.push_back({.kind = "binary", .seeded = true});
  for (const char* phases : {"streamed", "sequential"})
    all.push_back({.kind = "forest", .phases = phases, .network = row_of_sites()});
  all.push_back({.kind = "forest", .learned = true});
  // Sites of two.
  all.push_back({.kind = "hierarchical", .nodes = 2});
  all.push_back({.kind = "hierarchical", .phases = "sequential", .between = "ring", .nodes = 2});
  all.push_back({.kind = "hierarchical", .between = "binary", .nodes = 2, .server = true});
  if (longhaul::testing::kGate)  // of those one of each kind, the hub's beside a server, and trees
    std::erase_if(all, [](const ExchangeConfig& c) {
      return (c.kind == "tsengine" && c.buckets != 3) || (c.kind == "ring" && c.network) ||
             c.groups > 0 || c.window > 0;
    });
  if (longhaul::testing::kStride > 1)
    std::erase_if(all, [](const ExchangeConfig& c) {
      return c.phases == "sequential" || (c.server && c.kind != "hub");
    });
  return all;
}

}  // namespace longhaul::overlay::testing
