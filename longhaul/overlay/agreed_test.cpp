#include "longhaul/overlay/agreed.h"

#include <gtest/gtest.h>

#include "longhaul/overlay/testing/exchange.h"

namespace longhaul::overlay {
namespace {

using testing::Exchange;
using testing::ExchangeConfig;

// Every path in every form of its own.
std::vector<ExchangeConfig> forms() {
  std::vector<ExchangeConfig> all;
  for (const char* kind : {"direct", "hub", "ring"})
    for (const char* phases : {"streamed", "sequential"})
      all.push_back({.kind = kind, .phases = phases});
  all.push_back({.kind = "hub", .server = true});
  all.push_back({.kind = "hub", .phases = "sequential", .server = true});
  all.push_back({.kind = "hub", .down_codec = "same", .window = 2, .server = true});
  return all;
}

std::string name(const ExchangeConfig& c) {
  return c.kind + " " + c.phases + (c.server ? " server" : "") + (c.window > 0 ? " window" : "") +
         ", workers " + std::to_string(c.workers) + ", length " + std::to_string(c.length) +
         ", seed " + std::to_string(c.seed);
}

TEST(Agreed, AllHoldTheMeanOfAll) {
  for (ExchangeConfig c : forms()) {
    for (std::uint32_t workers : {1u, 2u, 3u, 5u}) {
      for (std::uint64_t length :
           {std::uint64_t{1}, std::uint64_t{4}, std::uint64_t{65 * 1024 + 7}}) {
        c.workers = workers;
        c.length = length;
        c.buffers = 33;
        c.rounds = 3;
        c.seed = length + workers;
        Exchange exchange(c);
        exchange.run();
        EXPECT_EQ(exchange.disagreement(), "") << name(c);
      }
    }
  }
}

}  // namespace
}  // namespace longhaul::overlay
