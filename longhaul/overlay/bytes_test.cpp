// How much an exchange sends and keeps.
#include <gtest/gtest.h>

#include "longhaul/overlay/testing/forms.h"

namespace longhaul::overlay {
namespace {

using testing::Exchange;
using testing::ExchangeConfig;
using testing::forms;
using testing::name;

// Bytes that a node sends a round, by the vector's.
double sent(Exchange& exchange, Rank rank) {
  const ExchangeConfig& c = exchange.config();
  return double(exchange.net().bytes_from(rank)) / double(c.rounds * 4 * c.length);
}

// mutant: longhaul/overlay/ring_attempt.cpp
//   - if (next() != owner)
//   + if (true)
TEST(Bytes, R2_4_DirectAndRingSendTwiceTheVectorLessTheirShare) {
  for (const char* kind : {"direct", "ring"}) {
    for (const char* phases : {"streamed", "sequential"}) {
      for (std::uint32_t workers : {1u, 3u, 5u}) {
        const ExchangeConfig c{.kind = kind,
                               .phases = phases,
                               .workers = workers,
                               .length = 64 * 8 * 1024 + 7,
                               .rounds = 1,
                               .chunk_bytes = 32 * 1024};
        Exchange exchange(c);
        exchange.run();
        ASSERT_EQ(exchange.disagreement(), "") << name(c);
        const double bound = 2.0 * (workers - 1) / workers;
        for (Rank rank = 0; rank < workers; ++rank) {
          EXPECT_GE(sent(exchange, rank), bound * 0.9999) << name(c);
          EXPECT_LE(sent(exchange, rank), bound * 1.01) << name(c);
        }
      }
    }
  }
}

// mutant: longhaul/overlay/hub.h
//   - return server_ && view.has(*server_) ? *server_ : members.front();
//   + return view.has(0) ? 0 : members.front();
TEST(Bytes, R2_4_HubSendsOneUpAndOneDownForEachWorkerNotBesideIt) {
  for (ExchangeConfig c : forms()) {
    if (c.kind != "hub") continue;
    for (std::uint32_t workers : {2u, 5u}) {
      c.workers = workers;
      c.length = 64 * 8 * 1024 + 7;
      c.rounds = 1;
      c.chunk_bytes = 32 * 1024;
      Exchange exchange(c);
      exchange.run();
      ASSERT_EQ(exchange.disagreement(), "") << name(c);
      const Rank server = c.server ? workers : 0;
      const double down = c.server ? workers : workers - 1;
      EXPECT_GE(sent(exchange, server), down) << name(c);
      EXPECT_LE(sent(exchange, server), down * 1.01) << name(c);
      for (Rank rank = 0; rank < workers; ++rank) {
        if (rank == server) continue;
        EXPECT_GE(sent(exchange, rank), 1) << name(c);
        EXPECT_LE(sent(exchange, rank), 1.01) << name(c);
      }
    }
  }
}

// The most that an overlay of these ranks keeps at any time, in vectors; its archive is the
// measure.
double most_kept(const ExchangeConfig& c, Rank first, Rank behind) {
  Exchange exchange(c);
  std::size_t most = 0;
  for (std::uint64_t events = 0; exchange.step(); ++events) {
    for (Rank rank = first; rank < behind && events % 16 == 0; ++rank) {
      Archive out;
      exchange.at(rank).overlay().archive(out);
      most = std::max(most, out.take().size());
    }
  }
  EXPECT_EQ(exchange.disagreement(), "") << name(c);
  return double(most) / double(4 * c.length);
}

constexpr double kNames = 0.1;  // what names the pieces, which are short here

TEST(Bytes, MemoryIsBounded) {
  for (ExchangeConfig c : forms()) {
    c.workers = 3;
    c.length = 64 * 1024 + 7;
    c.rounds = 3;
    double bound = 2;  // of a hub's worker: the own vector and the mean
    if (c.kind == "direct") bound = 3 + 2.0 / 3;
    if (c.kind == "ring") bound = 5 - 4.0 / 3;
    // Parts of as many children as a node has, or what is to go out.
    if (c.kind == "rack") bound = 2 + std::max(1u, c.groups == 1 ? c.workers - 1 : 0);
    if (c.kind == "binary" || c.kind == "halving_doubling") bound = 2 + 2;
    if (c.kind == "hub" && !c.server) bound = 2 + 2 + 2;
    for (c.order = 1; c.order <= 2; ++c.order)
      EXPECT_LE(most_kept(c, 0, c.workers), bound + kNames) << name(c);
  }
}

// mutant: longhaul/overlay/owners.cpp
//   - const std::size_t count = begun_parts_ == 0 ? options_.window : 1;
//   + const std::size_t count = begun_parts_ == 0 ? pieces.size() : 1;
TEST(Bytes, AWindowBoundsTheMemoryOfAServer) {
  ExchangeConfig c{.kind = "hub", .workers = 3, .server = true, .length = 64 * 1024 + 7};
  const double without = most_kept(c, 3, 4);
  EXPECT_LE(without, c.workers + 3 + kNames);
  EXPECT_GT(without, 0.5);
  for (const std::uint32_t window : {1u, 2u, 4u}) {
    c.window = window;
    EXPECT_LE(most_kept(c, 3, 4), window * (c.workers + 3) / 64.0 + kNames) << name(c);
  }
}

}  // namespace
}  // namespace longhaul::overlay
