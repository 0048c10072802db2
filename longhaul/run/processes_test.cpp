#include "longhaul/run/processes.h"

#include <gtest/gtest.h>

#include <csignal>

namespace longhaul::run {
namespace {

using namespace std::chrono_literals;
using Ends = std::vector<std::optional<ChildExit>>;
using Nodes = std::vector<std::size_t>;

constexpr ChildExit finished{0, 0}, killed_by_9{0, SIGKILL}, lost_others{3, 0}, bad_job{2, 0};
const Restarts::Time begin{};

TEST(Restarts, OneThatDiesIsStartedAgainAfterAPauseThatDoubles) {
  Restarts restarts(3, 3, Restarts::Mode::alone);
  const Ends ends = {std::nullopt, killed_by_9, std::nullopt};
  auto now = begin;
  for (const auto pause : {1s, 2s, 4s}) {
    EXPECT_TRUE(restarts.look(ends, false, now).nodes.empty());
    EXPECT_TRUE(restarts.look(ends, false, now + pause - 1ms).waits);
    EXPECT_EQ(restarts.look(ends, false, now += pause).nodes, Nodes{1});
  }
  EXPECT_EQ(restarts.count(1), 3u);
  const auto due = restarts.look(ends, false, now + 1h);
  EXPECT_TRUE(due.nodes.empty() && !due.waits && !due.give_up);
}

TEST(Restarts, WhereNoneIsTakenBackAllResumeWhenAllHaveDied) {
  Restarts restarts(2, 3, Restarts::Mode::together);
  EXPECT_FALSE(restarts.look({std::nullopt, killed_by_9}, true, begin).waits);
  const Ends all = {lost_others, killed_by_9};
  EXPECT_FALSE(restarts.look(all, /*resumable=*/false, begin).waits) << "from what?";
  EXPECT_TRUE(restarts.look(all, true, begin).waits);
  EXPECT_EQ(restarts.look(all, true, begin + 1s).nodes, (Nodes{0, 1}));
}

TEST(Restarts, ABadJobOrAnEndIsNoReason) {
  Restarts restarts(2, 3, Restarts::Mode::alone);
  EXPECT_FALSE(restarts.look({std::nullopt, bad_job}, true, begin).waits);
  EXPECT_FALSE(restarts.look({std::nullopt, finished}, true, begin).waits);
  EXPECT_FALSE(restarts.look({finished, bad_job}, true, begin).waits);
}

TEST(Restarts, WhoHasNotComeBackByTheEndIsGivenUp) {
  Restarts restarts(2, 3, Restarts::Mode::alone);
  (void)restarts.look({std::nullopt, killed_by_9}, true, begin);
  ASSERT_EQ(restarts.look({std::nullopt, killed_by_9}, true, begin + 1s).nodes, Nodes{1});
  const Ends ends = {finished, std::nullopt};
  EXPECT_FALSE(restarts.look(ends, true, begin + 2s).give_up) << "it may be about to end, too";
  EXPECT_TRUE(restarts.look(ends, true, begin + 2s + Restarts::kGrace).give_up);
}

TEST(Restarts, WhereAllHaveResumedTheFirstToEndWaitsForTheOthers) {
  Restarts restarts(2, 3, Restarts::Mode::together);
  const Ends all = {lost_others, killed_by_9};
  (void)restarts.look(all, true, begin);
  ASSERT_EQ(restarts.look(all, true, begin + 1s).nodes, (Nodes{0, 1}));
  EXPECT_FALSE(restarts.look({finished, std::nullopt}, true, begin + 1h).give_up)
      << "the other may be scoring its model";
}

}  // namespace
}  // namespace longhaul::run
