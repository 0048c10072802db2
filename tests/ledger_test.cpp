// The ledger of samples, checked from outside: learners count what is computed, and write into the
// model what tells who is in it. A node dies at several moments: used + lost + unused is what was
// computed, and nothing counts twice.
#include <bit>
#include <cmath>
#include <set>

#include "longhaul/core/sample_ledger.h"
#include "tests/job_checks.h"

namespace longhaul::conformance {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kWorkers = 5;
constexpr std::uint64_t kBatch = 4;

struct CountedSamples {
  std::uint64_t computed = 0;
  std::array<std::uint64_t, kWorkers> in_means{};  // of the gradients that each rank applied
};

// Of the contributions 2^rank that the mean is of: how many, each at most once. 0: of no such ones.
std::uint64_t contributors_of(double mean) {
  for (std::uint64_t n = 1; n <= kWorkers; ++n) {
    const double sum = std::round(mean * double(n));
    if (std::abs(sum - mean * double(n)) < 1e-3 &&
        std::uint64_t(std::popcount(std::uint64_t(sum))) == n)
      return n;
  }
  return 0;
}

// Element 0 of a gradient is 2^rank; a local step moves element 0 by the number of its samples.
class TellingLearner final : public WrappedLearner {
 public:
  TellingLearner(std::unique_ptr<Learner> inner, Rank rank, CountedSamples& counted)
      : WrappedLearner(std::move(inner)), rank_(rank), counted_(counted) {}
  Result<StepResult> step(const Work& work) override {
    const float before = params()[0];
    if (std::holds_alternative<ApplyGradient>(work)) {
      const std::uint64_t n = contributors_of(double(grads()[0]));
      EXPECT_GT(n, 0u) << grads()[0];
      counted_.in_means[rank_] += kBatch * n;
    }
    auto result = inner_->step(work);
    if (!result) return result;
    if (trains(work)) counted_.computed += result->samples;
    if (std::holds_alternative<Gradient>(work)) grads()[0] = std::ldexp(1.f, int(rank_));
    if (std::holds_alternative<LocalStep>(work)) params()[0] = before + float(result->samples);
    return result;
  }

 private:
  const Rank rank_;
  CountedSamples& counted_;
};

class LedgerKeeper final : public sim::Watcher {
 public:
  void acted(Time at, Rank rank, const Action& action) override {
    const auto* record = std::get_if<Record>(&action);
    if (!record) return;
    ledger.take(at, rank, *record);
    own[rank].take(at, rank, *record);
  }
  void lost(Rank rank) {
    ledger.node_lost(rank);
    for (auto& [each, its] : own)
      if (each != rank) its.node_lost(rank);
    is_lost = rank;
  }
  // As over sockets: of what each node has recorded.
  SampleCounts joined() const {
    std::vector<SampleLedger::OfNode> ledgers;
    for (const auto& [rank, its] : own) ledgers.push_back({rank, its, rank == is_lost});
    return SampleLedger::joined(std::move(ledgers)).counts();
  }
  SampleLedger ledger;
  std::map<Rank, SampleLedger> own;
  std::optional<Rank> is_lost;
};

struct LedgerRun {
  LedgerRun(const Variant<SyncEntry>& sync, std::optional<std::uint64_t> death, bool telling) {
    JobSpec spec{.parts = plain(sync, overlay_for(sync)),
                 .workers = kWorkers,
                 .one_site_each = true,
                 .rounds = kGate ? 3u : 6u};
    spec.world.detect = 20ms;
    spec.momentum = 0;
    if (telling)
      spec.watch = [this](std::unique_ptr<Learner> inner, Rank rank) {
        return std::make_unique<TellingLearner>(std::move(inner), rank, counted);
      };
    if (death) spec.faults = {crash(3, *death)};
    Job job(spec);
    job.world().watch(keeper);
    start = job.params(0)[0];
    for (bool more = true; more;) {
      more = job.step();
      if (!keeper.is_lost && job.world().figures(3).crashed) keeper.lost(3);
    }
    if (job.failure()) failed = job.failure()->what;
    events = job.world().counters().events;
    end = job.params(0)[0];
  }
  static Variant<OverlayEntry> overlay_for(const Variant<SyncEntry>& sync) {
    for (const auto& overlay : overlay_variants())
      if (overlay.number == 0 && !refusal(plain(sync, overlay))) return overlay;
    LH_CHECK(false);
  }
  SampleCounts counts() const { return keeper.ledger.counts(); }

  CountedSamples counted;
  LedgerKeeper keeper;
  float start = 0, end = 0;
  std::uint64_t events = 0;
  std::string failed;
};

Variant<SyncEntry> sync_named(std::string_view name) {
  return variant_named(sync_variants(), name);
}

// All strategies; in the gate one in four of them, from that number on.
constexpr std::size_t kShares = kGate ? 4 : 1;
struct LedgerOfAll : ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Strategies, LedgerOfAll, ::testing::Range(std::size_t(0), kShares));

TEST_P(LedgerOfAll, AddsUpWhoeverDies) {
  const std::set<std::string> whole = {"bsp", "fedavg", "fedprox", "diloco", "sparse_loco"};
  std::size_t exact = 0, tried = 0;
  for (const Variant<SyncEntry>& sync : sync_variants()) {
    if (sync.number > 0 || tried++ % kShares != GetParam()) continue;
    const LedgerRun quiet(sync, {}, false);
    SCOPED_TRACE(sync.name());
    ASSERT_EQ(quiet.failed, "");
    for (std::uint64_t part = 0; part < 5; ++part) {
      // In the gate a strategy has one death, its neighbours have others.
      if (kGate && part > 0 && part != 1 + tried / kShares % 4) continue;
      std::optional<std::uint64_t> death;
      if (part > 0) death = quiet.events * part / 6;
      std::optional<LedgerRun> with_death;
      if (death) with_death.emplace(sync, death, false);
      const LedgerRun& run = with_death ? *with_death : quiet;
      const SampleCounts counts = run.counts();
      if (!counts.used) continue;
      ++exact;
      EXPECT_LE(*counts.used + counts.lost, counts.computed) << part;
      EXPECT_GT(*counts.used, 0u);
      const SampleCounts joined = run.keeper.joined();
      EXPECT_EQ(joined.computed, counts.computed);
      EXPECT_EQ(joined.used, counts.used);
      EXPECT_EQ(joined.lost, counts.lost) << part;
      if (!death) EXPECT_EQ(counts.lost, 0u);
      if (whole.contains(sync.name())) EXPECT_EQ(*counts.used + counts.lost, counts.computed);
    }
  }
  EXPECT_GT(exact, kGate ? 6u : 60u);
}

// The gradients' mean tells whose they are: what the ledger says is what the model was moved by.
TEST(Ledger, OfRoundsCountsWhatTheMeansAreOf) {
  const std::uint64_t events = LedgerRun(sync_named("bsp"), {}, true).events;
  std::set<std::uint64_t> lost;
  for (std::uint64_t death = 3; death < events; death += events / cases(40)) {
    SCOPED_TRACE(death);
    const LedgerRun run(sync_named("bsp"), death, true);
    ASSERT_EQ(run.failed, "");
    // A step that was under way at the death was begun and is not computed.
    EXPECT_LE(run.counts().computed, run.counted.computed);
    EXPECT_GE(run.counts().computed + kBatch, run.counted.computed);
    EXPECT_EQ(run.counts().used, run.counted.in_means[0]);
    EXPECT_EQ(run.counts().unused(), 0u);
    lost.insert(run.counts().lost);
  }
  EXPECT_EQ(lost, (std::set<std::uint64_t>{0, kBatch}));
}

// The server adds what each step has moved element 0 by: the model itself is a ledger.
TEST(Ledger, OfAServerCountsWhatIsInTheModel) {
  const std::uint64_t events = LedgerRun(sync_named("asp"), {}, true).events;
  for (std::uint64_t death = 3; death < events; death += events / cases(40)) {
    SCOPED_TRACE(death);
    const LedgerRun run(sync_named("asp"), death, true);
    ASSERT_EQ(run.failed, "");
    EXPECT_LE(run.counts().computed, run.counted.computed);
    EXPECT_GE(run.counts().computed + kWorkers * kBatch, run.counted.computed);
    EXPECT_EQ(float(*run.counts().used), run.end - run.start);
  }
}

}  // namespace
}  // namespace longhaul::conformance
