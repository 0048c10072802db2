#include "longhaul/run/processes.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "longhaul/run/job/testing/scratch.h"

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

// Two nodes: the first fails as soon as the second ignores TERM, which then ends when `writes` has
// been asked often.
ChildExit end_of_one_that_ignores_term(bool writes) {
  const testing::Scratch scratch;
  const std::string ready = scratch.file("ready"), written = scratch.file("written");
  const auto await = [](const std::string& file) {
    while (!std::filesystem::exists(file)) std::this_thread::sleep_for(5ms);
  };
  ChildProcesses children([](const std::string&, bool, std::string_view) {});
  EXPECT_TRUE(children.start({.name = "a", .command = {}, .instead = [&] {
                                await(ready);
                                return 2;
                              }}));
  EXPECT_TRUE(children.start({.name = "b", .command = {}, .instead = [&] {
                                (void)std::signal(SIGTERM, SIG_IGN);
                                std::ofstream(ready) << "x";
                                await(written);
                                return 0;
                              }}));
  int asked = 0;
  std::string said;
  const EndPatience patience{0s,
                             [&](std::size_t node) -> std::string {
                               if (!writes || node != 1) return "";
                               if (++asked == 3) std::ofstream(written) << "x";
                               return "checkpoint 3";
                             },
                             [&](const std::string& text) { said = text; }};
  EXPECT_TRUE(wait_for_nodes(children, nullptr, nullptr, patience));
  EXPECT_EQ(said.find("b: not ended within 0 s, and killed") == 0, !writes) << said;
  return *children.end(1);
}

TEST(WaitForNodes, WhatWritesIsNotKilled) {
  const ChildExit end = end_of_one_that_ignores_term(/*writes=*/true);
  EXPECT_EQ(end.signal, 0);
  EXPECT_EQ(end.code, 0);
}

TEST(WaitForNodes, WhatDoesNotEndIsKilled) {
  EXPECT_EQ(end_of_one_that_ignores_term(/*writes=*/false).signal, SIGKILL);
}

}  // namespace
}  // namespace longhaul::run
