// How much an exchange sends and keeps.
#include <algorithm>
#include <array>
#include <numeric>

#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/overlay/fixed_trees.h"
#include "longhaul/overlay/testing/forms.h"

namespace longhaul::overlay {
namespace {

using longhaul::testing::kGate;
using longhaul::testing::kStride;
using testing::Exchange;
using testing::ExchangeConfig;
using testing::forms;
using testing::name;
using testing::row_of_sites;

// A long vector, and its pieces; in the gate of fewer.
constexpr std::uint64_t kLong = 64 * (kGate ? 1 : 4) * 1024 + 7;
constexpr std::uint32_t kChunk = 16 * 1024;

// Bytes that a node sends a round, by the vector's.
double sent(Exchange& exchange, Rank rank) {
  const ExchangeConfig& c = exchange.config();
  return double(exchange.net().bytes_from(rank)) / double(c.rounds * 4 * c.length);
}

TEST(Bytes, R2_4_DirectAndRingSendTwiceTheVectorLessTheirShare) {
  for (const char* kind : {"direct", "ring"}) {
    for (const char* phases : {"streamed", "sequential"}) {
      for (std::uint32_t workers : {1u, 3u, 5u}) {
        const ExchangeConfig c{.kind = kind,
                               .phases = phases,
                               .workers = workers,
                               .length = kLong,
                               .rounds = 1,
                               .chunk_bytes = kChunk};
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

// A power of two; else those behind it send theirs to a partner, who sends them the mean.
TEST(Bytes, R2_4_HalvingSendsTwiceTheVectorLessTheirShare) {
  for (const char* phases : {"streamed", "sequential"}) {
    for (std::uint32_t workers : {1u, 2u, 4u, 5u, 8u}) {
      if (kGate && (workers == 1 || workers == 8)) continue;
      const ExchangeConfig c{.kind = "halving_doubling",
                             .phases = phases,
                             .workers = workers,
                             .length = kLong,
                             .rounds = 1,
                             .chunk_bytes = kChunk};
      Exchange exchange(c);
      exchange.run();
      ASSERT_EQ(exchange.disagreement(), "") << name(c);
      const std::uint32_t core = core_of(workers);
      for (Rank rank = 0; rank < workers; ++rank) {
        double bound = rank < core ? 2.0 * (core - 1) / core : 1;
        if (rank < workers - core) bound += 1;
        EXPECT_GE(sent(exchange, rank), bound * 0.9999) << name(c);
        EXPECT_LE(sent(exchange, rank), bound * 1.01) << name(c);
      }
    }
  }
}

// One vector up, and one down for each that stands below.
TEST(Bytes, R2_4_RackAndBinarySendOneVectorUpAndOneDownToEachChild) {
  for (ExchangeConfig c : forms()) {
    if ((c.kind != "rack" && c.kind != "binary") || c.seeded) continue;
    for (std::uint32_t workers : {1u, 2u, 7u}) {
      c.workers = workers;
      c.length = kLong;
      c.rounds = 1;
      c.chunk_bytes = kChunk;
      Exchange exchange(c);
      exchange.run();
      ASSERT_EQ(exchange.disagreement(), "") << name(c);
      std::vector<std::uint32_t> order(workers);
      std::iota(order.begin(), order.end(), 0u);
      if (c.server) order.insert(order.begin(), workers);
      const Tree tree = c.kind == "rack" ? rack_tree(workers, c.groups, c.server ? workers : 0)
                                         : binary_tree(order);
      for (Rank rank = 0; rank < order.size(); ++rank) {
        // The root is its own child.
        const auto vectors = std::count(tree.spread_from.begin(), tree.spread_from.end(), rank) +
                             (rank == tree.root ? -1 : 1);
        EXPECT_GE(sent(exchange, rank), vectors) << name(c);
        EXPECT_LE(sent(exchange, rank), double(vectors) * 1.01 + 0.001) << name(c);
      }
    }
  }
}

// One vector fewer than sites goes up between them, and as many down; in a ring all send alike.
TEST(Bytes, R2_4_HierarchicalSendsOneVectorLessThanSitesUpAndAsManyDown) {
  for (const std::string between : {"hub", "rack", "binary", "ring", "forest"})
    for (const bool server : {false, true}) {
      if (kGate && server != (between[0] == 'r')) continue;
      const ExchangeConfig c{.kind = "hierarchical",
                             .network = server ? nullptr : row_of_sites(),
                             .between = between,
                             .workers = 9,
                             .nodes = 3,
                             .server = server,
                             .length = (kGate ? 32 : 64) * 9 * 1024,
                             .rounds = 1,
                             .phantom = true,
                             .chunk_bytes = kChunk};
      Exchange exchange(c);
      exchange.run();
      ASSERT_EQ(exchange.disagreement(), "") << name(c);
      const Rank ranks = c.workers + (server ? 1 : 0);
      std::array<double, 4> out{};  // by site
      for (Rank from = 0; from < ranks; ++from)
        for (Rank to = 0; to < ranks; ++to)
          if (from / 3 != to / 3)
            out[from / 3] += double(exchange.net().bytes(from, to)) / (4.0 * double(c.length));
      // A server takes part where the trees have one root.
      const double sites = server && between != "ring" && between != "forest" ? 4 : 3;
      const double all = std::accumulate(out.begin(), out.end(), 0.0);
      EXPECT_GE(all, 2 * (sites - 1)) << name(c);
      EXPECT_LE(all, 2 * (sites - 1) * 1.01) << name(c);
      if (between != "ring") continue;
      for (std::size_t site = 0; site < 3; ++site) {
        EXPECT_GE(out[site], 4.0 / 3) << name(c);
        EXPECT_LE(out[site], 4.0 / 3 * 1.01) << name(c);
      }
    }
}

// Within a site of m, members send what they do not lead and pass on the mean of what they lead.
TEST(Bytes, R2_4_HierarchicalLoadsThePortsOfALanAlike) {
  for (const std::uint32_t nodes : {1u, 2u, 4u}) {
    const ExchangeConfig c{.kind = "hierarchical",
                           .workers = 3 * nodes,
                           .nodes = nodes,
                           .length = 64 * (kGate ? 2 : 4) * 1024,
                           .rounds = 1,
                           .phantom = true,
                           .chunk_bytes = kChunk};
    Exchange exchange(c);
    exchange.run();
    ASSERT_EQ(exchange.disagreement(), "") << name(c);
    const double share = 1.0 / nodes;
    for (Rank rank = 0; rank < 3 * nodes; ++rank) {
      // Of the root's site: two more sites get the mean; of others: one part goes there.
      const double expected = 2 * (nodes - 1) * share + (rank < nodes ? 2 : 1) * share;
      EXPECT_GE(sent(exchange, rank), expected) << name(c) << " " << rank;
      EXPECT_LE(sent(exchange, rank), expected * 1.01) << name(c) << " " << rank;
    }
  }
}

TEST(Bytes, R2_4_HubSendsOneUpAndOneDownForEachWorkerNotBesideIt) {
  for (ExchangeConfig c : forms()) {
    if (c.kind != "hub") continue;
    for (std::uint32_t workers : {2u, 5u}) {
      c.workers = workers;
      c.length = kLong;
      c.rounds = 1;
      c.chunk_bytes = kChunk;
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
  constexpr std::uint64_t kEvery = kGate ? 149 : 16 * kStride;
  Exchange exchange(c);
  std::size_t most = 0;
  for (std::uint64_t events = 0; exchange.step(); ++events) {
    for (Rank rank = first; rank < behind && events % kEvery == 0; ++rank) {
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
    c.length = (kGate ? 16 : 64) * 1024 + 7;
    if (kGate) c.chunk_bytes = 4096;
    c.rounds = kGate ? 2 : 3;
    double bound = 2;  // of a hub's worker: the own vector and the mean
    if (c.kind == "direct") bound = 3 + 2.0 / 3;
    if (c.kind == "ring") bound = 5 - 4.0 / 3;
    // Parts that wait for those before them, sums in double, and what is to go out.
    if (c.kind == "gather") bound = 2 + (c.workers - 1) + 2 + 1;
    // Parts of as many children as a node has, or what is to go out.
    if (c.kind == "rack") bound = 2 + std::max(1u, c.groups == 1 ? c.workers - 1 : 0);
    for (const char* tree : {"binary", "halving_doubling", "forest", "hierarchical"})
      if (c.kind == tree) bound = 2 + 2;
    if (c.kind == "hub" && !c.server) bound = 2 + 2 + 2;
    if (c.kind == "tsengine") bound = 4 + 1.0 / c.buckets;
    for (c.order = 1; c.order <= 2; c.order += kStride)
      EXPECT_LE(most_kept(c, 0, c.workers), bound + kNames) << name(c);
  }
}

TEST(Bytes, AWindowBoundsTheMemoryOfAServer) {
  ExchangeConfig c{.kind = "hub", .workers = 3, .server = true, .length = 64 * 1024 + 7};
  c.chunk_bytes = 4096;
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
