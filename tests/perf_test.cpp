// What `longhaul perf` measures, in the simulator.
//
// Invariants (the commands: tests/cli/perf_test.py, perf_lab_test.py):
//   M1 a ring of equal sites takes 2 (n-1) (L + T/n)
//   M2 laps are equal
//   M3 bytes are those of the exchange
//   M4, M5 a right result passes, of a mean and of a broadcast
//   M6 the traffic of a broadcast: direct n - 1/n vectors (the root scatters (n-1)/n, then all
//      nodes send their share); hub, rack and binary n - 1; others send more and are refused
//   M7 a wrong result is found
//   M8 a lost node ends the measurement
#include "longhaul/base/testing/effort.h"
#include "longhaul/perf/measurement.h"

#include <gmock/gmock.h>

#include <cmath>

#include "longhaul/sim/testing/small_job.h"
#include "tests/job_builder.h"

namespace longhaul::conformance {
namespace {

using namespace std::chrono_literals;
using perf::Exchange;
using perf::Lap;
using perf::Measurement;
using sim::testing::RunningJob;
using sim::testing::SmallJob;

// An overlay whose outcomes are changed by a test.
class Crooked final : public Overlay {
 public:
  using Bend = std::function<void(Outcome&)>;
  Crooked(std::unique_ptr<Overlay> straight, Bend bend)
      : straight_(std::move(straight)), bend_(std::move(bend)) {
    own(*straight_);
  }
  Status begin(const VectorId& key, const std::vector<Rank>& members, const Contribution& given,
               Turn& turn) override {
    Turn below = within(*straight_, turn);
    return straight_->begin(key, members, given, below);
  }
  void close(std::uint32_t group, Turn& turn) override {
    Turn below = within(*straight_, turn);
    straight_->close(group, below);
  }
  std::optional<Round> next_round(std::uint32_t group, std::uint32_t range) const override {
    return straight_->next_round(group, range);
  }
  std::optional<Outcome> poll(const VectorId& key) override {
    auto outcome = straight_->poll(key);
    if (outcome) bend_(*outcome);
    return outcome;
  }
  std::string waiting_for() const override { return straight_->waiting_for(); }

 private:
  std::unique_ptr<Overlay> straight_;
  Bend bend_;
};

struct Case {
  SmallJob job;
  Exchange exchange;
  std::string overlay = "ring";
  std::string phases = "streamed";
  Crooked::Bend bend = {};  // at rank 1
};

struct Ran {
  std::string error;
  std::vector<Lap> laps;
};

Ran run(Case c) {
  c.job.size = c.exchange.length;
  std::unique_ptr<RunningJob> running;
  std::vector<const Measurement*> nodes;
  running = std::make_unique<RunningJob>(c.job, [&](const Place& place) {
    auto overlay = plain_overlay(c.overlay, {{"phases", {c.phases}}}, place);
    if (c.bend && place.self == 1)
      overlay = std::make_unique<Crooked>(std::move(overlay), c.bend);
    else if (c.bend)
      overlay = std::make_unique<Crooked>(std::move(overlay), [](Outcome&) {});
    auto made = std::make_unique<Measurement>(
        c.exchange, std::move(overlay), place,
        [&running, rank = place.self] { return running->world().figures(rank).wan_sent; });
    nodes.push_back(made.get());
    return made;
  });
  const auto ended = running->world().run();
  EXPECT_EQ(running->bad_messages, 0u);
  return {ended ? "" : ended.error().what, nodes[0]->laps()};
}

Case phantom_case(std::uint32_t ranks) {
  Case c;
  c.job.ranks = ranks;
  c.job.phantom = true;
  c.job.up = c.job.down = flow::bytes_per_second(8);
  c.job.delay = 5ms;
  c.exchange.length = 1'000'000;  // 4 s of a link
  c.exchange.laps = 3;
  return c;
}

// docs/costs.md: 2 (n-1) (L + T/n) for a ring by segments.
TEST(Measurement, M1_ARingOfEqualSitesTakesWhatTheFormulaSays) {
  for (const std::uint32_t n : {2u, 4u, 7u}) {
    Case c = phantom_case(n);
    c.phases = "sequential";
    const Ran ran = run(c);
    ASSERT_EQ(ran.error, "");
    ASSERT_EQ(ran.laps.size(), 3u);
    const double expected = 2 * (n - 1) * (0.005 + 4.0 / n);
    for (const Lap& lap : ran.laps) EXPECT_NEAR(seconds(lap.elapsed), expected, 0.01 * expected);
  }
}

// All laps begin alike, so the simulator times them alike.
TEST(Measurement, M2_LapsAreAlike) {
  const Ran ran = run(phantom_case(5));
  ASSERT_EQ(ran.laps.size(), 3u);
  for (const Lap& lap : ran.laps)
    EXPECT_NEAR(seconds(lap.elapsed), seconds(ran.laps[0].elapsed), 1e-6);
}

// 2 (n-1) vectors in all, and 0.04 % of headers; tsengine has control messages for each transfer.
TEST(Measurement, M3_BytesAreThoseOfTheExchange) {
  for (const char* overlay :
       {"ring", "direct", "hub", "rack", "binary", "halving_doubling", "tsengine"}) {
    Case c = phantom_case(4);
    c.overlay = overlay;
    const Ran ran = run(c);
    ASSERT_EQ(ran.laps.size(), 3u) << ran.error;
    const double most = c.overlay == "tsengine" ? 0.002 : 0.001;
    for (const Lap& lap : ran.laps) EXPECT_NEAR(double(lap.wan_bytes), 6 * 4e6, most * 6 * 4e6);
  }
}

// Real values, which every node looks at. Lengths that the nodes cannot share evenly.
TEST(Measurement, M4_TheMeanIsWhatItMustBe) {
  for (const char* overlay : {"ring", "direct", "hub", "rack", "binary", "halving_doubling",
                              "forest", "hierarchical", "tsengine"})
    for (const std::uint32_t n : {2u, 3u, 5u})
      for (const std::uint64_t length : {1u, 1000u, longhaul::testing::kGate ? 20'001u : 70'001u}) {
        if (longhaul::testing::kStride > 1 && n != 3) continue;
        Case c;
        c.job.ranks = n;
        c.overlay = overlay;
        c.exchange = {.length = length, .laps = 3};
        EXPECT_EQ(run(c).error, "") << overlay << " " << n << " " << length;
      }
}

TEST(Measurement, M5_ABroadcastBringsTheRootsVector) {
  for (const char* overlay : {"direct", "hub"})
    for (const Rank root : {0u, 2u}) {
      Case c{.exchange = {.length = 5000, .laps = 2, .root = root}, .overlay = overlay};
      EXPECT_EQ(run(c).error, "") << overlay << " " << root;
    }
}

// From the server (n-1) vectors go out; over direct (n-1)/n more, which scatter it.
TEST(Measurement, M6_ABroadcastSendsNoMoreThanItsOverlayNeeds) {
  for (const auto& [overlay, vectors] : {std::pair("hub", 3.0), std::pair("rack", 3.0),
                                         std::pair("binary", 3.0), std::pair("direct", 3.75)}) {
    Case c = phantom_case(4);
    c.overlay = overlay;
    c.exchange.root = 0;
    const Ran ran = run(c);
    ASSERT_EQ(ran.laps.size(), 3u) << ran.error;
    EXPECT_NEAR(double(ran.laps[1].wan_bytes), vectors * 4e6, 0.002 * vectors * 4e6);
  }
}

TEST(Measurement, M7_AWrongOutcomeIsFoundAndNamed) {
  Case c;
  c.exchange = {.length = 1000, .laps = 2};
  c.bend = [](Outcome& outcome) { outcome.values[123] *= 1.0001f; };
  EXPECT_THAT(run(c).error, ::testing::HasSubstr("lap 0, site site1: value 123 is "));
  c.bend = [](Outcome& outcome) { outcome.values[7] = NAN; };
  EXPECT_THAT(run(c).error, ::testing::HasSubstr("value 7 is nan"));
  c.bend = [](Outcome& outcome) { std::swap(outcome.values[0], outcome.values[64]); };
  EXPECT_THAT(run(c).error, ::testing::HasSubstr("value 0 is "));
  c.bend = [](Outcome& outcome) { outcome.counted = {0, 1, 1}; };
  EXPECT_THAT(run(c).error, ::testing::HasSubstr("lap 0, site site1"));
}

TEST(Measurement, M8_ALostNodeEndsIt) {
  Case c = phantom_case(3);
  c.job.faults = {{.kind = sim::Fault::Kind::crash, .rank = 2, .at = 2s}};
  const Ran ran = run(c);
  EXPECT_THAT(ran.error, ::testing::HasSubstr("lost site2 while measuring"));
  EXPECT_TRUE(ran.laps.empty());
}

}  // namespace
}  // namespace longhaul::conformance
