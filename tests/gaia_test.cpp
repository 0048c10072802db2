// gaia over links in virtual time: what sites have moved is in the model that all end with, whoever
// is lost, returns or stands still when (sync/gaia_test.cpp, invariant 2), and the selective
// barrier (11).
#include <cmath>

#include "longhaul/sync/gaia.h"
#include "tests/job_checks.h"

namespace longhaul::conformance {
namespace {

using namespace std::chrono_literals;
using sync::Gaia;
using Vector = std::vector<double>;

// A learner that adds up what its steps move, and may say that it looks up one parameter alone.
class Counted final : public WrappedLearner {
 public:
  struct Log {
    std::vector<Vector> moved = {{}};  // after so many steps
  };
  Counted(std::unique_ptr<Learner> inner, std::shared_ptr<Log> log, std::optional<Range> reads = {})
      : WrappedLearner(std::move(inner)), log_(std::move(log)), reads_(reads) {
    log_->moved[0].assign(layout()->parameters().length, 0);
  }
  Result<StepResult> step(const Work& work) override {
    const std::vector<float> before(params().begin(), params().end());
    auto result = inner_->step(work);
    if (!result || !std::holds_alternative<LocalStep>(work)) return result;
    Vector moved = log_->moved.back();
    for (std::size_t i = 0; i < moved.size(); ++i) {
      // Nothing else changes where one parameter is looked up.
      if (reads_ && (i < reads_->offset || i >= reads_->end())) params()[i] = before[i];
      moved[i] += double(params()[i]) - double(before[i]);
    }
    log_->moved.push_back(std::move(moved));
    if (reads_ && std::get<LocalStep>(work).ahead > 0) result->reads_next = {*reads_};
    return result;
  }

 private:
  const std::shared_ptr<Log> log_;
  const std::optional<Range> reads_;
};

JobSpec gaia_spec(std::vector<Setting> settings, std::uint32_t workers, Round rounds) {
  JobSpec spec{.parts = plain(variant_named(sync_variants(), "gaia"),
                              variant_named(overlay_variants(), "direct")),
               .workers = workers,
               .one_site_each = true,
               .rounds = rounds,
               .steps = 1};
  spec.size = 64;
  spec.buffers = 0;
  spec.parts.sync.settings = std::move(settings);
  spec.world.detect = 20ms;
  return spec;
}

// Watches from outside. One life of a node: from its start or return to its loss.
class ConservationChecker {
 public:
  explicit ConservationChecker(std::uint32_t workers) : lives_(workers) {}

  std::unique_ptr<Learner> watch(std::unique_ptr<Learner> learner, Rank rank) {
    if (lives_[rank].log) lost_.push_back(lives_[rank]);
    lives_[rank] = {std::make_shared<Counted::Log>(), {}};
    return std::make_unique<Counted>(std::move(learner), lives_[rank].log);
  }

  void look(Rank rank, const Gaia& site) {
    Life& life = lives_[rank];
    if (site.unsent().empty() || life.sent.contains(site.told())) return;
    // A step is in acc when the site has been told of its end; clocks are told right then.
    const std::size_t steps =
        std::min(std::size_t(site.clocks_added()), life.log->moved.size() - 1);
    Vector sent = life.log->moved[steps];
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] -= double(site.unsent()[i]);
    life.sent.emplace(site.told(), std::move(sent));
  }

  // Of the final model; true: it is the start, all that the live have moved, and of each life that
  // was lost what it had sent up to some clock.
  bool explains(const std::vector<float>& model, float start, const std::set<Rank>& dead) const {
    Vector rest(model.begin(), model.end());
    std::vector<Life> lost = lost_;
    for (double& value : rest) value -= double(start);
    for (Rank rank = 0; rank < lives_.size(); ++rank) {
      if (dead.contains(rank)) {
        lost.push_back(lives_[rank]);
        continue;
      }
      const Vector& moved = lives_[rank].log->moved.back();
      for (std::size_t i = 0; i < rest.size(); ++i) rest[i] -= moved[i];
    }
    return is_explained(rest, lost);
  }

 private:
  struct Life {
    std::shared_ptr<Counted::Log> log;
    std::map<Round, Vector> sent;  // up to a clock
  };
  static bool is_explained(const Vector& rest, std::vector<Life> lost) {
    if (lost.empty())
      return std::ranges::all_of(rest, [](double left) { return std::abs(left) < 1e-3; });
    const Life life = lost.back();
    lost.pop_back();
    if (is_explained(rest, lost)) return true;
    return std::ranges::any_of(life.sent, [&](const auto& one) {
      Vector less = rest;
      for (std::size_t i = 0; i < less.size(); ++i) less[i] -= one.second[i];
      return is_explained(less, lost);
    });
  }

  std::vector<Life> lives_;
  std::vector<Life> lost_;
};

struct Played {
  bool returned = false, lost = false, stood_still = false;
};

// Crashes one or two nodes at any moments, lets the first return in every second story, and in some
// others has a second one stand still for a while (SIGSTOP).
Played play(std::uint64_t seed) {
  Random random(seed, {});
  const auto n = std::uint32_t(4 + random.below(3));
  const char* exchanges[] = {"direct", "gaia_hubs", "peer_hubs"};
  const Round rounds = 6 + random.below(6);
  JobSpec spec = gaia_spec({{"significance", {0.2 * random.uniform()}},
                            {"staleness", {std::int64_t(random.below(3))}},
                            {"exchange", {std::string(exchanges[seed % 3])}},
                            {"barrier", {std::string(seed % 4 == 0 ? "on" : "auto")}},
                            {"barrier_ms", {5.0}},
                            {"scale", {1.0}}},
                           n, rounds);
  spec.seed = seed;
  spec.momentum = 0;
  spec.tables = unequal_tables(members_of(spec));
  for (auto& speed : spec.tables->speeds)
    speed.mean = std::chrono::milliseconds(1 + random.below(60));
  ConservationChecker checker(n);
  spec.watch = [&](std::unique_ptr<Learner> inner, Rank rank) {
    return checker.watch(std::move(inner), rank);
  };
  const Rank first = Rank(random.below(n)), second = Rank((first + 1 + random.below(n - 1)) % n);
  const std::uint64_t at = 20 + random.below(100 * n);
  spec.faults.push_back(crash(first, at));
  const bool both = n > 4 && seed % 3 == 0;
  if (both) spec.faults.push_back(crash(second, at + 1 + random.below(40 * n)));
  const bool stands = n > 4 && seed % 2 == 1 && !both;
  if (stands)
    spec.faults.push_back(
        {.kind = sim::Fault::Kind::pause, .rank = second, .at = 100ms, .until = 900ms});
  const bool comes_back = seed % 2 == 0;
  Job job(spec);
  Played played{.stood_still = stands};
  std::set<Rank> dead;
  std::uint64_t waits = 5 + random.below(60);
  while (job.step()) {
    for (Rank rank = 0; rank < n; ++rank) {
      if (job.world().figures(rank).crashed) {
        played.lost |= dead.insert(rank).second;
        continue;
      }
      checker.look(rank, dynamic_cast<const Gaia&>(job.world().node(rank).strategy()));
    }
    // It may also come back when the others are through.
    const bool is_known = dead.contains(first) && job.declared_lost(first);
    if (!comes_back || played.returned || !is_known || waits-- > 0) continue;
    job.restart(first);
    dead.erase(first);
    played.returned = true;
  }
  expect_ended_alike(job);
  const Rank live = dead.contains(0) ? (dead.contains(1) ? 2 : 1) : 0;
  EXPECT_TRUE(checker.explains(job.params(live), 6, dead)) << job.params(live)[0];
  return played;
}

// sync/gaia_test.cpp, invariant 2
void expect_conserved(std::uint64_t from, std::uint64_t to, std::uint64_t stride) {
  int returned = 0, lost = 0, stood_still = 0;
  for (std::uint64_t seed = from; seed < to; seed += stride) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Played played = play(seed);
    returned += played.returned, lost += played.lost, stood_still += played.stood_still;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(returned, 0);
  EXPECT_GT(lost, 0);
  EXPECT_GT(stood_still, 0);
}
TEST(GaiaWorld, NothingIsLostOrCountedTwice) {
  expect_conserved(0, 200, kGate ? 29 : kStride > 1 ? 7 : 1);
}
TEST(GaiaWorldNightly, NothingIsLostOrCountedTwice) { expect_conserved(200, 2000, 1); }

// Two sites, and a link on which an update takes as long as many steps. `own`: each looks up
// parameters of its own; else both the same ones.
bool barrier_with(bool own, const std::string& barrier) {
  constexpr std::uint64_t kRows = kGate ? 1000 : 5000;
  JobSpec spec = gaia_spec({{"significance", {0.0}},
                            {"staleness", {std::int64_t(3)}},
                            {"barrier", {barrier}},
                            {"barrier_ms", {0.0}}},
                           2, 12);
  spec.size = 2 * kRows;
  Tables tables = unequal_tables(members_of(spec));
  tables.network.links.clear();
  tables.network.link = {kRows * 20.0, 10ms};
  for (auto& speed : tables.speeds) speed.mean = 30ms;
  spec.tables = tables;
  spec.watch = [&](std::unique_ptr<Learner> inner, Rank rank) -> std::unique_ptr<Learner> {
    return std::make_unique<Counted>(std::move(inner), std::make_shared<Counted::Log>(),
                                     Range{own ? kRows * rank : 0, kRows});
  };
  Job job(spec);
  bool waited = false;
  while (job.step()) {
    for (Rank rank = 0; rank < 2; ++rank)
      waited |=
          job.world().node(rank).strategy().waiting_for().find("announced by") != std::string::npos;
  }
  expect_ended_alike(job);
  return waited;
}

// sync/gaia_test.cpp, invariant 11
TEST(GaiaWorld, WhoReadsAnAnnouncedParameterWaitsForItsUpdate) {
  EXPECT_TRUE(barrier_with(/*own=*/false, "auto"));
  EXPECT_FALSE(barrier_with(/*own=*/true, "auto"));
  EXPECT_FALSE(barrier_with(/*own=*/false, "off"));
}

}  // namespace
}  // namespace longhaul::conformance
