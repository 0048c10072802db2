// Times and bytes of whole rounds against the closed forms of docs/costs.md, with phantom learners.
// n workers, one a site; B bytes/s up and down; L one-way delay; S bytes of the vector, T their
// time, t that of a piece.
#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/base/testing/effort.h"
#include "tests/job_checks.h"

namespace longhaul::conformance {
namespace {

using namespace std::chrono_literals;

struct Scenario {
  std::uint32_t n = 8;
  double mbps = 100, L = 0.050, step = 0.2;
  std::uint64_t d = kGate ? 4'000'000 : 10'000'000;
  std::uint32_t chunk = 256 * 1024;

  double B() const { return mbps * 125000; }
  double S() const { return double(d) * 4; }
  double T() const { return S() / B(); }
  double t() const { return (chunk + 94) / B(); }
};

struct Parts {
  std::string sync = "bsp", overlay = "direct_sequential", codec = "fp32";
  std::uint32_t steps = 1;
  std::vector<Setting> settings = {};  // of [sync]
};

JobSpec spec_of(const Scenario& s, const Parts& parts, bool server_apart, Round rounds) {
  JobSpec spec{.parts = plain(variant_named(sync_variants(), parts.sync),
                              variant_named(overlay_variants(), parts.overlay)),
               .workers = s.n,
               .server_apart = server_apart,
               .size = s.d,
               .buffers = 0,
               .chunk_bytes = s.chunk,
               .rounds = rounds,
               .steps = parts.steps,
               .phantom = true};
  spec.parts.codec = variant_named(codec_variants(), parts.codec);
  for (const Setting& setting : parts.settings) spec.parts.sync.settings.push_back(setting);
  spec.tables = equal_tables(s.n + server_apart, s.mbps, from_seconds(s.L), from_seconds(s.step));
  spec.one_site_each = true;
  return spec;
}

double time_of(const JobSpec& spec) {
  Job job(spec);
  EXPECT_TRUE(runs(job));
  return seconds(job.world().now());
}

// Of one round, without the two delays in which the nodes tell each other that they are through.
double first_round(const Scenario& s, const Parts& parts, bool server_apart = false) {
  return time_of(spec_of(s, parts, server_apart, 1)) - 2 * s.L;
}

// Per step, rounds one after the other.
double step_time(const Scenario& s, const Parts& parts, bool server_apart = false) {
  const double three = time_of(spec_of(s, parts, server_apart, 3));
  return (three - time_of(spec_of(s, parts, server_apart, 1))) / 2 / parts.steps;
}

#define EXPECT_WITHIN(share, value, expected) EXPECT_NEAR(value, expected, (share) * (expected))

// The forms themselves, by the name of the overlay.
double closed_form(const Scenario& s, const std::string& overlay, bool server_apart) {
  const double n = s.n, L = s.L, T = s.T(), t = s.t();
  const double share = (n - 1) / n * T;
  const double workers = server_apart ? n : n - 1;  // that are not beside the server
  if (overlay == "direct_sequential") return 2 * L + 2 * share;
  if (overlay == "direct") {
    const double f = (1 + (n - 2) * std::min(2.0, T / (n * t))) * t;
    return std::max(L + 2 * share, 2 * L + share + f);
  }
  if (overlay == "ring_sequential") return 2 * (n - 1) * (L + T / n);
  if (overlay == "ring") return std::max(L + 2 * share, 2 * (n - 1) * (L + t) + T / n - t);
  if (overlay == "hub_sequential") return 2 * L + 2 * workers * T;
  EXPECT_EQ(overlay, "hub");
  return 2 * L + workers * (T + t);
}

TEST(Costs, RoundsTakeTheTimeOfTheClosedForms) {
  const Scenario scenarios[] = {
      {},
      {.n = 2, .L = 0.005},
      {.n = 4, .mbps = 20},
      {.n = 5, .mbps = 1000, .L = 0.002, .d = 20'000'000},
      {.n = 4, .L = 0.2, .d = 1'000'000, .chunk = 16 * 1024},  // delays, not rates
      {.n = 8, .mbps = 300, .L = 0.1, .d = 2'000'000, .chunk = 64 * 1024},
  };
  for (const Scenario& s : scenarios) {
    if (kStride > 1 && s.n > 4) continue;
    for (const char* overlay :
         {"direct", "direct_sequential", "ring", "ring_sequential", "hub", "hub_sequential"}) {
      for (bool server_apart : {false, true}) {
        if (kGate && server_apart != (s.n == 2)) continue;
        SCOPED_TRACE(std::string(overlay) + " of " + std::to_string(s.n) + ", " +
                     std::to_string(s.mbps) + " Mbit/s");
        EXPECT_WITHIN(0.01, first_round(s, {.overlay = overlay}, server_apart),
                      s.step + closed_form(s, overlay, server_apart));
      }
    }
  }
}

// Along trees. G groups of k workers; a full binary tree of that many levels below its root; 2^q
// workers that halve and double.
TEST(Costs, RoundsAlongTreesTakeTheTimeOfTheClosedForms) {
  for (const Scenario& like :
       {Scenario{}, Scenario{.mbps = 20, .L = 0.2, .d = 50'000, .chunk = 16 * 1024}}) {
    Scenario s = like;
    const double T = s.T(), L = s.L;
    const auto round = [&](std::uint32_t n, const char* overlay, bool apart) {
      s.n = n;
      return first_round(s, {.overlay = overlay}, apart) - s.step;
    };
    // Three groups of three.
    EXPECT_WITHIN(0.01, round(9, "rack_sequential", true), 2 * 5 * T + 4 * L);
    EXPECT_WITHIN(0.01, round(9, "rack_sequential", false), 10 * T + 4 * L);
    EXPECT_WITHIN(0.01, round(7, "binary_sequential", false), 2 * 2 * (2 * T + L));
    EXPECT_WITHIN(0.01, round(6, "binary_sequential", true), 2 * 2 * (2 * T + L));
    EXPECT_WITHIN(0.01, round(3, "binary_sequential", false), 2 * (2 * T + L));
    // Streamed: not less than the busiest port has to do.
    const double least = std::max(3 * T + 2 * L, 4 * L);
    EXPECT_GE(round(9, "rack", true), least);
    EXPECT_LE(round(9, "rack", true), 1.4 * (3 * T + 4 * L));
    EXPECT_GE(round(7, "binary", false), least);
    EXPECT_LE(round(7, "binary", false), 1.4 * (3 * T + 4 * L));
  }
}

TEST(Costs, HalvingTakesTwiceTheVectorAndTwoDelaysAStep) {
  for (const char* overlay : {"halving_doubling", "halving_doubling_sequential"})
    for (const Scenario& like :
         {Scenario{}, Scenario{.mbps = 20, .L = 0.2, .d = 50'000, .chunk = 16 * 1024}})
      for (std::uint32_t q = 1; q <= (kGate ? 3u : 4u); ++q) {
        Scenario s = like;
        s.n = 1u << q;
        const double both_ways = 2 * (s.n - 1.0) / s.n * s.T();
        const double time = first_round(s, {.overlay = overlay}) - s.step;
        EXPECT_GE(time, both_ways + s.L) << overlay << " " << s.n;
        EXPECT_GE(time, 2 * q * s.L) << overlay << " " << s.n;
        EXPECT_LE(time, 1.1 * (both_ways + 2 * q * s.L)) << overlay << " " << s.n;
      }
}

// On equal links it is direct with shorter pieces.
TEST(Costs, AForestOnEqualLinksTakesTheTimeOfDirect) {
  for (const Scenario& like : {Scenario{}, Scenario{.n = 4, .mbps = 20}, Scenario{.n = 16}}) {
    if (kStride > 1 && like.n != 4) continue;
    Scenario s = like;
    const double time = first_round(s, {.overlay = "forest"}) - s.step;
    s.chunk = std::uint32_t(s.S() / 1600);
    EXPECT_WITHIN(0.05, time, closed_form(s, "direct", false)) << s.n;
  }
}

// P sites of m nodes, whose LAN ports have that rate.
double hierarchical_round(Scenario s, const char* between, const char* phases, std::uint32_t m,
                          double lan_mbps) {
  JobSpec spec = spec_of(s, {.overlay = "hierarchical"}, false, 1);
  spec.nodes = m;
  spec.parts.overlay.settings = {{"between", {std::string(between)}},
                                 {"phases", {std::string(phases)}}};
  sim::FifoConfig& network = spec.tables->network;
  network.sites.resize(s.n / m);
  for (auto& site : network.sites) site.lan = flow::bytes_per_second(lan_mbps);
  for (Rank rank = 0; rank < s.n; ++rank) network.site_of[rank] = rank / m;
  return time_of(spec) - 2 * s.L - s.step;
}

TEST(Costs, HierarchicalTakesTheTimeOfItsLeadersAndTwiceThatOfTheLan) {
  for (const auto& [sites, nodes] :
       {std::pair(2u, 3u), std::pair(3u, 3u), std::pair(4u, 2u), std::pair(4u, 1u)})
    for (const double lan_mbps : {100.0, 1000.0}) {
      if (kStride > 1 && (sites == 4 || lan_mbps > 100)) continue;
      if (kGate && sites == 2) continue;
      SCOPED_TRACE(std::to_string(sites) + " sites of " + std::to_string(nodes));
      const Scenario s{.n = sites * nodes, .d = kGate ? 2'000'000 : 10'000'000};
      const double P = sites, m = nodes, T = s.T(), L = s.L, t = T / 400;
      const double lan = (m - 1) / m * s.S() / (lan_mbps * 125000);  // one way
      const auto round = [&, nodes = nodes](const char* between, const char* phases) {
        return hierarchical_round(s, between, phases, nodes, lan_mbps);
      };
      EXPECT_WITHIN(0.01, round("hub", "sequential"), 2 * L + 2 * (P - 1) * T + 2 * lan);
      EXPECT_WITHIN(0.02, round("hub", "streamed"), std::max(2 * L + (P - 1) * (T + t), 2 * lan));
      const double circle = std::max(L + 2 * (P - 1) / P * T, 2 * (P - 1) * (L + t) + T / P - t);
      EXPECT_WITHIN(0.02, round("ring", "streamed"), std::max(circle, 2 * lan));
      // Shares of different leaders are on the LAN and between sites at the same time.
      const double most = 2 * (P - 1) * (L + T / P) + 2 * lan;
      const double sequential = round("ring", "sequential");
      EXPECT_LE(sequential, 1.01 * most);
      EXPECT_GE(sequential, 0.99 * (m > 1 ? std::max(circle, 2 * lan) : most));
    }
}

// TSEngine of one bucket: whole vectors, from node to node, in twice as many steps as a tree of all
// nodes has levels, each with a question to the coordinator before it.
TEST(Costs, TsEngineDoublesInEveryStep) {
  for (const std::uint32_t n : {2u, 4u, 8u, 16u}) {
    for (const bool apart : {false, true}) {
      if (kGate && (n > 8 || apart != (n == 4))) continue;
      const Scenario s{.n = apart ? n - 1 : n, .L = 0.02, .d = 10'000'000};
      JobSpec spec = spec_of(s, {.overlay = "tsengine"}, apart, 1);
      spec.parts.overlay.settings = {{"buckets", {std::int64_t{1}}}};
      const double k = std::ceil(std::log2(double(n)));
      const double most = 2 * k * s.T() + (6 * k - 2) * s.L;
      const double took = time_of(spec) - 2 * s.L - s.step;
      EXPECT_LE(took, 1.01 * most) << n;
      EXPECT_GE(took, 0.99 * (most - 2 * k * s.L)) << n << ": the server asks itself";
    }
  }
}

// 8 sites, 100 Mbit/s, 50 ms, 40 MB, 0.2 s a step: seconds per step of rounds in a row.
TEST(Costs, TheHeadlineScenarioTakesItsTime) {
  const Scenario s{.d = 10'000'000, .chunk = (kGate ? 1024 : 256) * 1024};
  EXPECT_WITHIN(0.05, step_time(s, {.overlay = "direct_sequential"}), 5.90);
  EXPECT_WITHIN(0.05, step_time(s, {.overlay = "ring_sequential"}), 6.50);
  EXPECT_WITHIN(0.05, step_time(s, {.overlay = "hub_sequential"}, true), 51.5);
  if (!kGate) EXPECT_WITHIN(0.05, step_time(s, {.codec = "fp16"}), 3.10);
  EXPECT_WITHIN(0.05, step_time(s, {.codec = "int8"}), 1.72);
  EXPECT_WITHIN(0.05, step_time(s, {.sync = "fedavg", .steps = 10}), 0.770);
  if (!kGate) {
    EXPECT_WITHIN(0.05, step_time(s, {.sync = "fedavg", .steps = 100}), 0.257);
    EXPECT_WITHIN(0.05, step_time(s, {.sync = "diloco", .steps = 500}), 0.211);
  }
  const Parts tenths{.sync = "streaming_diloco",
                     .steps = 50,
                     .settings = {{"fragments", {std::int64_t{10}}}, {"delay", {std::int64_t{4}}}}};
  EXPECT_WITHIN(0.05, step_time(s, tenths), 0.200);
  EXPECT_WITHIN(
      0.05, step_time(s, {.sync = "fedavg", .overlay = "hub_sequential", .steps = 10}, true), 5.33);
}

// Every site sends 2 (n-1)/n of the vector, and under 1 % of headers.
TEST(Costs, RingAndDirectSendTwoVectorsLessTheirOwnShare) {
  for (const char* overlay : {"ring", "ring_sequential", "direct", "direct_sequential"}) {
    for (std::uint32_t n : {2u, 3u, 5u, 8u}) {
      const Scenario s{.n = n};
      Job job(spec_of(s, {.overlay = overlay}, false, 1));
      ASSERT_TRUE(job.run());
      const double expected = 2.0 * (n - 1) / n * s.S();
      for (Rank rank = 0; rank < n; ++rank) {
        EXPECT_GE(double(job.witness().bytes_from(rank)), 0.999 * expected) << overlay << n;
        EXPECT_LE(double(job.witness().bytes_from(rank)), 1.01 * expected) << overlay << n;
      }
    }
  }
}

// One vector up and one down for each worker that is not beside the server.
TEST(Costs, HubSendsOneVectorUpAndOneDown) {
  for (const char* overlay : {"hub", "hub_sequential"}) {
    for (bool apart : {false, true}) {
      const Scenario s{.n = 4};
      Job job(spec_of(s, {.overlay = overlay}, apart, 1));
      ASSERT_TRUE(job.run());
      const Rank server = apart ? 4 : 0;
      for (Rank rank = 0; rank < 4; ++rank) {
        if (rank == server) continue;
        for (std::uint64_t bytes :
             {job.witness().bytes(rank, server), job.witness().bytes(server, rank)}) {
          EXPECT_GE(double(bytes), s.S());
          EXPECT_LE(double(bytes), 1.01 * s.S());
        }
        EXPECT_LE(double(job.witness().bytes_from(rank)), 1.01 * s.S());
      }
    }
  }
}

// Messages of k chunks stand for k messages. The vector takes as long; but whoever is served in
// turns waits for longer turns, up to k - 1 chunks of each of the n workers.
TEST(Costs, RunsOfChunksTakeTheTimeOfTheirChunks) {
  const Scenario s{.n = kGate ? 3u : 8u};
  const double t = s.t();
  for (const Variant<OverlayEntry>& overlay : tried_overlays()) {
    const std::string_view kind = overlay.entry->name;
    const bool in_turns = kind != "direct" && kind != "ring" && overlay.name() != "hub_sequential";
    JobSpec spec = spec_of(s, {.overlay = overlay.name()}, false, 1);
    const double chunks = time_of(spec);
    for (std::uint32_t k : {2u, 8u}) {
      if (kStride > 1 && k < 8) continue;
      SCOPED_TRACE(overlay.name() + " in runs of " + std::to_string(k));
      spec.chunk_run = k;
      double most = in_turns ? s.n * (k - 1) * t : 0.001 * chunks;
      // Buckets are runs of whole messages: of fewer, longer ones they are less alike.
      if (kind == "tsengine") most = (kGate ? 0.07 : 0.05) * chunks;
      EXPECT_NEAR(time_of(spec), chunks, most);
    }
  }
}

}  // namespace
}  // namespace longhaul::conformance
