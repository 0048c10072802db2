// Several nodes die at once, or one after another before the first is back, at any moment, and are
// started again in any order. While one that knows the model lives, the run reaches its last round
// with equal models everywhere; else it ends with that reason. It never waits for ever, and what
// it says is bounded.
//
// A share of the moments here; all of them in `make nightly`.
#include <algorithm>
#include <cstdlib>

#include "longhaul/base/testing/effort.h"
#include "tests/job_checks.h"

namespace longhaul::conformance {
namespace {

using namespace std::chrono_literals;
using testing::kStride;

struct LossPlan {
  std::vector<std::pair<Rank, std::uint64_t>> kills;  // and before which event
  std::vector<std::pair<Rank, Time>> back;            // and how long after its death
  std::uint64_t again = 0;  // > 0: the first that is back dies again so many events later
  bool forget = false;      // their disks are lost, too
};

struct RunEnd {
  std::string failure;
  Time end{0};
  std::uint64_t messages = 0;
  bool equal = false;
  std::vector<Round> rounds;
};

JobSpec losses_spec(std::string_view sync, std::uint32_t workers) {
  const auto& strategy = variant_named(sync_variants(), sync);
  JobSpec spec{.parts = plain(strategy, strategy.entry->traits.served
                                            ? variant_named(overlay_variants(), "hub")
                                            : overlay_variants().at(0)),
               .workers = workers,
               .one_site_each = true,
               .size = 160,
               .rounds = 5};
  spec.world.detect = 1s;
  spec.world.patience = 3h;
  return spec;
}

RunEnd run_with(const JobSpec& spec, const LossPlan& plan) {
  Job job(spec);
  for (const auto& [rank, event] : plan.kills) job.kill(rank, event);
  RunEnd outcome;
  std::map<Rank, Time> due;  // of the dead
  bool again = plan.again > 0;
  for (;;) {
    for (const auto& [rank, after] : plan.back)
      if (job.world().figures(rank).crashed && !due.contains(rank))
        due[rank] = job.world().now() + after;
    auto next = std::ranges::min_element(due, {}, [](const auto& one) { return one.second; });
    const auto went = job.world().step(next == due.end() ? sim::kForever : next->second);
    if (!went) {
      outcome.failure = went.error().what;
      break;
    }
    if (next != due.end() && job.world().now() >= next->second) {
      job.restart(next->first, plan.forget);
      if (std::exchange(again, false)) job.kill(next->first, plan.again);
      due.erase(next);
    } else if (!*went) {
      break;
    }
  }
  outcome.end = job.world().now();
  outcome.messages = job.world().counters().messages;
  outcome.equal = job.all_equal();
  for (Rank rank = 0; rank < spec.workers; ++rank)
    if (!job.world().figures(rank).crashed)
      outcome.rounds.push_back(job.world().node(rank).strategy().rounds_done());
  EXPECT_TRUE(job.bad_messages.empty()) << job.bad_messages.front();
  return outcome;
}

std::vector<std::vector<Rank>> proper_subsets(std::uint32_t of) {
  std::vector<std::vector<Rank>> all;
  for (std::uint32_t bits = 1; bits + 1 < (1u << of); ++bits) {
    std::vector<Rank> one;
    for (Rank rank = 0; rank < of; ++rank)
      if (bits >> rank & 1) one.push_back(rank);
    all.push_back(one);
  }
  return all;
}

std::vector<std::vector<Rank>> orders(std::vector<Rank> ranks) {
  std::vector<std::vector<Rank>> all;
  do all.push_back(ranks);
  while (std::ranges::next_permutation(ranks).found && all.size() < 6);
  return all;
}

std::uint64_t stride(std::uint64_t least) {
  return std::getenv("LONGHAUL_ALL") != nullptr ? least : least * kStride;
}

struct Tally {
  std::uint64_t runs = 0, ended_with_reason = 0;
};

// Every subset of the members but all, before every `stride`th event, at once and `apart` events
// from each other.
Tally enumerate_losses(std::string_view sync, std::uint32_t workers, std::uint64_t stride) {
  const JobSpec spec = losses_spec(sync, workers);
  const RunEnd plain = run_with(spec, {});
  EXPECT_EQ(plain.failure, "");
  const std::uint64_t events = events_of(spec);
  Tally counted;
  std::uint64_t number = 0;
  for (const auto& subset : proper_subsets(workers))
    for (std::uint64_t event = 1; event < events; ++event)
      for (const std::uint64_t apart : {0u, 9u})
        for (const auto& order : orders(subset)) {
          if (apart > 0 && subset.size() == 1) continue;
          if (number++ % stride != 0) continue;
          LossPlan deaths{.kills = {},
                          .back = {},
                          .again = number % 4 == 0 ? 1 + number % 23 : 0,
                          .forget = number % 5 == 0};
          for (const Rank rank : order)
            deaths.back.emplace_back(
                rank, (number % 3 == 0 ? 5ms : 3s) +
                          std::int64_t(deaths.back.size()) * (number % 2 == 0 ? 0ms : 400ms));
          std::uint64_t at = event;
          for (auto rank = order.rbegin(); rank != order.rend(); ++rank, at += apart)
            deaths.kills.emplace_back(*rank, at);
          SCOPED_TRACE(std::string(sync) + ", " + std::to_string(workers) + " nodes, event " +
                       std::to_string(event) + " of " + std::to_string(events) + ", apart " +
                       std::to_string(apart) + ", number " + std::to_string(number) + ", back " +
                       ::testing::PrintToString(order));
          const RunEnd outcome = run_with(spec, deaths);
          ++counted.runs;
          if (!outcome.failure.empty()) {
            ++counted.ended_with_reason;
            const bool server = outcome.failure.find("the server is lost") != std::string::npos;
            EXPECT_TRUE(server || outcome.failure.find("all sites that knew the model are lost") !=
                                      std::string::npos)
                << outcome.failure;
            if (server)
              EXPECT_EQ(subset.front(), 0u);
            else
              EXPECT_TRUE(apart > 0 || deaths.again > 0) << "one that knows the model lives";
          } else {
            EXPECT_TRUE(outcome.equal);
            for (const Round rounds : outcome.rounds) EXPECT_EQ(rounds, spec.rounds);
          }
          EXPECT_LT(outcome.end, plain.end + 60s);
          EXPECT_LT(outcome.messages, 10 * plain.messages + 2000);
          if (::testing::Test::HasFailure()) return counted;
        }
  return counted;
}

void expect_reached(std::string_view sync, std::uint32_t workers, std::uint64_t stride,
                    std::uint64_t least) {
  const Tally counted = enumerate_losses(sync, workers, stride);
  EXPECT_GT(counted.runs, least);
  std::printf("%s, %u nodes: %lu runs, %lu ended with a reason\n", std::string(sync).c_str(),
              workers, counted.runs, counted.ended_with_reason);
}

TEST(SeveralDeaths, OfThree) {
  for (const char* sync : {"fedavg", "bsp", "fedasync"}) expect_reached(sync, 3, stride(1), 10);
}
TEST(SeveralDeaths, OfFour) { expect_reached("fedavg", 4, stride(23), 10); }
TEST(SeveralDeaths, OfFive) { expect_reached("fedavg", 5, stride(211), 5); }

}  // namespace
}  // namespace longhaul::conformance
