#include "longhaul/core/membership.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/core/testing/machine_net.h"

namespace longhaul {
namespace {

using testing::MachineNet;

// Remembers every view it went through, as the agreement is about the whole sequence.
class Watched final : public Machine {
 public:
  explicit Watched(const Place& place, Time wait) : membership(place, wait) { own(membership); }
  void on_progress(Turn&) override {
    if (views.empty() || views.back().epoch != membership.view().epoch)
      views.push_back(membership.view());
  }
  Membership membership;
  std::vector<View> views;
};

struct Net {
  Net(std::uint32_t ranks, std::uint64_t seed, Time wait = std::chrono::hours(1))
      : net({.ranks = ranks, .layout = Layout::flat(1), .seed = seed},
            [wait](const Place& place) { return std::make_unique<Watched>(place, wait); }) {}
  Watched& at(Rank rank) { return static_cast<Watched&>(net.machine(rank)); }
  void unreachable(Rank at_rank, Rank peer, bool yes = true) {
    net.act(at_rank, [&](Turn& turn) {
      Turn inner = turn.child(0);
      at(at_rank).membership.on_reachability(peer, yes, inner);
    });
  }
  MachineNet net;
};

void expect_one_history(Net& net, std::uint32_t ranks) {
  std::map<Epoch, std::vector<Rank>> lists;
  for (Rank rank = 0; rank < ranks; ++rank) {
    Epoch last = 0;
    for (const View& view : net.at(rank).views) {
      EXPECT_TRUE(view.epoch == last || view.epoch == last + 1) << "an epoch was skipped";
      last = view.epoch;
      auto [it, first] = lists.emplace(view.epoch, view.live);
      EXPECT_EQ(it->second, view.live) << "two lists for epoch " << view.epoch;
    }
  }
}

TEST(Membership, StartsWithEverybody) {
  Net net(3, 1);
  EXPECT_EQ(net.at(1).membership.view().epoch, 0u);
  EXPECT_EQ(net.at(1).membership.view().live, (std::vector<Rank>{0, 1, 2}));
}

TEST(Membership, AMajorityDropsADeadMember) {
  for (std::uint64_t seed = 0; seed < testing::cases(200); ++seed) {
    Net net(3, seed);
    net.net.crash(Rank(seed % 3));
    for (Rank rank = 0; rank < 3; ++rank)
      if (net.net.alive(rank)) net.unreachable(rank, Rank(seed % 3));
    net.net.run(10000);
    for (Rank rank = 0; rank < 3; ++rank) {
      if (!net.net.alive(rank)) continue;
      EXPECT_EQ(net.at(rank).membership.view().epoch, 1u) << "seed " << seed;
      EXPECT_EQ(net.at(rank).membership.view().live.size(), 2u);
    }
    expect_one_history(net, 3);
  }
}

TEST(Membership, AMinorityDecidesNothingAndSaysWhy) {
  Net net(4, 1, Time{0});
  net.net.crash(2);
  net.net.crash(3);
  for (Rank rank : {0u, 1u})
    for (Rank dead : {2u, 3u}) net.unreachable(rank, dead);
  for (int i = 0; i < 10000 && net.net.step(); ++i) {
  }
  EXPECT_EQ(net.at(0).membership.view().epoch, 0u);
  ASSERT_TRUE(net.net.failed.contains(0));
  EXPECT_TRUE(says(net.net.failed[0], "rank 2 (site2), rank 3 (site3)"));
  EXPECT_TRUE(says(net.net.failed[0], "3 of the 4"));
}

// Two that cannot reach each other, while the lowest reaches both and has nothing to propose.
TEST(Membership, WhoIsLaterInLineProposesWhenTheFirstSeesNoReason) {
  for (std::uint64_t seed = 0; seed < testing::cases(200); ++seed) {
    Net net(3, seed);
    net.unreachable(1, 2);
    net.unreachable(2, 1);
    for (int i = 0; i < 5000 && net.net.step(); ++i) {
    }
    const View view = net.at(0).membership.view();
    EXPECT_EQ(view.epoch, 1u) << seed;
    EXPECT_EQ(view.live.size(), 2u);
    EXPECT_NE(net.at(1).membership.excluded(), net.at(2).membership.excluded()) << seed;
    expect_one_history(net, 3);
  }
}

// Anybody may suspect anybody, wrongly too, and proposers may die: still one list per epoch.
TEST(Membership, OneListPerEpochWhateverIsSuspected) {
  std::size_t epochs = 0;
  for (std::uint64_t seed = 0; seed < 3000; seed += longhaul::testing::kStride) {
    const std::uint32_t n = 3 + std::uint32_t(seed % 3);
    Net net(n, seed);
    Random random(seed, {Purpose::fault});
    for (int event = 0; event < 400; ++event) {
      const auto what = random.below(20);
      const Rank a = Rank(random.below(n)), b = Rank(random.below(n));
      if (what == 0 && a != b) {
        net.unreachable(a, b, true);
      } else if (what == 1 && a != b) {
        net.unreachable(a, b, false);
      } else if (what == 2 && event > 100 && net.net.alive(n - 1)) {
        net.net.crash(n - 1);
      } else {
        net.net.step();
      }
    }
    expect_one_history(net, n);
    epochs += net.at(0).views.size();
  }
  EXPECT_GT(epochs, 4000u / longhaul::testing::kStride)
      << "the test hardly ever reached a decision";
}

TEST(Membership, AllLearnADecisionThoughItsProposerDies) {
  for (std::uint64_t seed = 0; seed < testing::cases(300); ++seed) {
    Net net(5, seed);
    net.net.crash(4);
    for (Rank rank = 0; rank < 4; ++rank) net.unreachable(rank, 4);
    while (net.at(0).membership.view().epoch == 0 && net.net.step()) {
    }
    net.net.crash(0);  // at once after deciding; part of what it said is lost
    for (Rank rank = 1; rank < 4; ++rank) net.unreachable(rank, 0);
    net.net.run(20000);
    for (Rank rank = 1; rank < 4; ++rank)
      EXPECT_EQ(net.at(rank).membership.view().live, (std::vector<Rank>{1, 2, 3})) << seed;
    expect_one_history(net, 5);
  }
}

TEST(Membership, RefusesAListThatIsNoPartOfTheLast) {
  Net net(3, 1);
  Membership::Decided lie{1, {2, 1}};
  Message message = longhaul::testing::message_of(lie);
  message.machine = Path().child(0);
  EXPECT_FALSE(net.net.inject(1, 0, message));
  lie.live = {0, 7};
  message.head = Payload(share(to_wire(lie)));
  EXPECT_FALSE(net.net.inject(1, 0, message));
  EXPECT_EQ(net.at(0).membership.view().epoch, 0u);
}

// It may have been cut off from those that decided, and hear of it from nobody else.
TEST(Membership, WhoSpeaksOfAnEpochThatIsOverIsToldItsList) {
  Net net(4, 1);
  net.net.crash(3);
  for (Rank rank = 0; rank < 3; ++rank) net.unreachable(rank, 3);
  net.net.run(10000);
  ASSERT_EQ(net.at(0).membership.view().epoch, 1u);
  const auto speaks_of = [&](Epoch epoch) {
    const std::uint64_t before = net.net.bytes(0, 2);
    Message message = longhaul::testing::message_of(Membership::Prepare{epoch, {9, 2}});
    message.machine = Path().child(0);
    EXPECT_TRUE(net.net.inject(2, 0, message));
    return net.net.bytes(0, 2) - before;
  };
  EXPECT_GT(speaks_of(1), 0u);  // over, and known
  EXPECT_EQ(speaks_of(0), 0u);  // the beginning: there is no list to tell
  EXPECT_EQ(speaks_of(9), 0u);  // not here yet: whoever decided it tells all
}

TEST(Membership, SaveAndLoadAfterEveryEventIsGoingOn) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Net plain(3, seed), saved(3, seed);
    for (Net* net : {&plain, &saved}) {
      net->net.crash(0);
      for (Rank rank = 1; rank < 3; ++rank) net->unreachable(rank, 0);
    }
    while (plain.net.step()) {
      ASSERT_TRUE(saved.net.step());
      for (Rank rank = 1; rank < 3; ++rank) saved.net.save_and_load(rank);
    }
    EXPECT_EQ(saved.at(2).membership.view().live, plain.at(2).membership.view().live);
    EXPECT_EQ(saved.at(2).membership.view().epoch, 1u);
  }
}

}  // namespace
}  // namespace longhaul
