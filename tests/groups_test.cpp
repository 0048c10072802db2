// Groups of workers over one overlay, in virtual time: a loss in one is none of the other's
// business.
#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/sim/testing/small_job.h"
#include "tests/job_builder.h"

namespace longhaul {
namespace {

using namespace std::chrono_literals;
using sim::Fault;
using sim::testing::RunningJob;
using sim::testing::SmallJob;

constexpr std::uint32_t kWorkers = 6;
constexpr std::uint64_t kLength = testing::kGate ? 12'000 : 50'000;
constexpr Round kRounds = testing::kGate ? 5 : 8;

// Forms means with the odd or the even ranks, like this one, round after round.
class OddOrEven final : public Strategy {
 public:
  OddOrEven(const std::string& kind, const Place& place)
      : overlay_(conformance::plain_overlay(kind, {}, place)), values_(kLength, float(place.self)) {
    for (Rank rank = place.self % 2; rank < kWorkers; rank += 2) members_.push_back(rank);
    own(*overlay_);
  }
  void on_progress(Turn& turn) override {
    while (ends.size() < kRounds && advance(turn)) {
    }
  }
  Round rounds_done() const override { return ends.size(); }
  std::string waiting_for() const override { return overlay_->waiting_for(); }
  void state(Archive& ar) override { ar(ends, means, begun_); }

  std::vector<Time> ends;
  std::vector<float> means;  // the first value of each

 private:
  VectorId id() const { return {.round = ends.size(), .group = 1 + members_.front()}; }
  bool advance(Turn& turn) {
    Turn below = within(*overlay_, turn);
    if (!begun_) {
      begun_ = true;
      LH_CHECK(overlay_->begin(id(), members_, {values_, kLength, 1}, below));
      return true;
    }
    const auto outcome = overlay_->poll(id());
    if (!outcome) return false;
    begun_ = false;
    means.push_back(outcome->values[0]);
    ends.push_back(turn.now());
    if (ends.size() < kRounds) return true;
    overlay_->close(id().group, below);
    turn.finish();
    return false;
  }

  const std::unique_ptr<Overlay> overlay_;
  const std::vector<float> values_;
  std::vector<Rank> members_;
  bool begun_ = false;
};

struct Seen {
  std::vector<std::vector<Time>> ends;  // by rank
  std::vector<std::vector<float>> means;
};

Seen run(const std::string& kind, std::vector<Fault> faults) {
  SmallJob job{.ranks = kWorkers, .size = kLength, .faults = std::move(faults)};
  std::vector<const OddOrEven*> nodes;
  RunningJob running(job, [&](const Place& place) {
    auto made = std::make_unique<OddOrEven>(kind, place);
    nodes.push_back(made.get());
    return made;
  });
  const auto ended = running.world().run();
  EXPECT_TRUE(ended) << (ended ? "" : ended.error().what);
  EXPECT_EQ(running.bad_messages, 0u);
  Seen seen;
  for (const OddOrEven* node : nodes) {
    seen.ends.push_back(node->ends);
    seen.means.push_back(node->means);
  }
  return seen;
}

// What membership says of the loss goes over the same links, and takes a thousandth of a round.
TEST(GroupsInVirtualTime, ALossDelaysNoOtherGroup) {
  for (const char* kind :
       {"direct", "hub", "ring", "rack", "binary", "halving_doubling", "forest", "hierarchical"}) {
    const Seen whole = run(kind, {});
    const Time middle = whole.ends[0][kRounds / 2];
    const Seen lossy = run(kind, {{.kind = Fault::Kind::crash, .rank = 3, .at = middle}});
    for (const Rank rank : {0u, 2u, 4u}) {
      ASSERT_EQ(lossy.ends[rank].size(), kRounds) << kind;
      EXPECT_EQ(lossy.means[rank], whole.means[rank]) << kind;
      for (Round round = 0; round < kRounds; ++round)
        EXPECT_NEAR(seconds(lossy.ends[rank][round]), seconds(whole.ends[rank][round]),
                    0.001 * seconds(whole.ends[rank][kRounds - 1]))
            << kind << ", rank " << rank << ", round " << round;
    }
    for (const Rank rank : {1u, 5u}) {
      EXPECT_EQ(lossy.ends[rank].size(), kRounds) << kind << ": the survivors go on";
      EXPECT_EQ(lossy.means[rank].back(), 3) << kind << ": the mean of 1 and 5";
      EXPECT_GT(lossy.ends[rank].back(), whole.ends[rank].back()) << kind << ": they waited";
    }
  }
}

}  // namespace
}  // namespace longhaul
