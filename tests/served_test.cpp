// What strategies that talk to a server by themselves take in time, against the closed forms of
// docs/costs.md, with phantom learners.
#include "tests/job_checks.h"

namespace longhaul::conformance {
namespace {

using namespace std::chrono_literals;

// n workers and a server apart, one a site; B bytes/s up and down, L one-way delay, T the time of
// a vector.
struct Served {
  std::string sync;
  std::uint32_t n = 1;
  Time L = 50ms, step = 200ms;
  double mbps = 100;
  std::uint64_t d = 1'000'000;
  Round rounds = 10;
  std::vector<Setting> settings = {};

  double T() const { return double(d) * 4 / (mbps * 125000); }
};

JobSpec spec_of(const Served& s) {
  JobSpec spec{.parts = plain(variant_named(sync_variants(), s.sync),
                              variant_named(overlay_variants(), "hub")),
               .workers = s.n,
               .one_site_each = true,
               .server_apart = true,
               .size = s.d,
               .buffers = 0,
               .chunk_bytes = 256 * 1024,
               .rounds = s.rounds,
               .steps = 1,
               .phantom = true};
  for (const Setting& setting : s.settings) spec.parts.sync.settings.push_back(setting);
  spec.tables = equal_tables(s.n + 1, s.mbps, s.L, s.step);
  return spec;
}

double time_of(const Served& s) {
  Job job(spec_of(s));
  EXPECT_TRUE(runs(job));
  return seconds(job.world().now());
}

// Of one round, n commits, in the middle of a run.
double round_time(Served s) {
  const double whole = time_of(s);
  s.rounds /= 2;
  return (whole - time_of(s)) / double(s.rounds);
}

// A worker alone: a step, its update up and the model down. Many: the server's ports are full.
TEST(Served, AsynchronousRoundsTakeTheTimeOfTheClosedForms) {
  for (const char* sync : {"asp", "fedasync"}) {
    Served s{.sync = sync, .rounds = kGate ? 6u : 10u};
    double each = seconds(s.step) + 2 * (seconds(s.L) + s.T());
    EXPECT_NEAR(round_time(s), each, 0.01 * each) << sync;
    s.n = 4;  // four vectors each way in less than a step, its delays and its own
    s.d = 100'000;
    each = seconds(s.step) + 2 * (seconds(s.L) + s.T());
    EXPECT_GE(round_time(s), 0.99 * each) << sync;
    EXPECT_LE(round_time(s), 1.01 * (each + 2 * 3 * s.T())) << sync;
    s.n = 8;
    s.d = 2'000'000;
    s.step = 50ms;
    EXPECT_NEAR(round_time(s), 8 * s.T(), 0.05 * 8 * s.T()) << sync;
  }
}

// Equal speeds, delays shorter than a step: waits are two delays in s clocks at most.
TEST(Served, R3_7_SspWaitsTwoDelaysInAsManyClocksAsTheBound) {
  for (const std::int64_t bound : {1, 3, 10}) {
    Served s{.sync = "ssp", .n = 4, .d = 1000, .rounds = 60};
    s.settings = {{"staleness", {bound}}};
    Job job(spec_of(s));
    Records records;
    job.world().watch(records);
    ASSERT_TRUE(job.run());
    for (Rank rank = 0; rank < 4; ++rank) {
      const double reads = 60.0 / double(bound) + 1;
      const double waited = records.sum("wait_s", rank, 1);
      EXPECT_GT(waited, 0) << bound;
      EXPECT_LE(waited, reads * 2 * (seconds(s.L) + 8 * s.T())) << bound;
    }
  }
}

}  // namespace
}  // namespace longhaul::conformance
