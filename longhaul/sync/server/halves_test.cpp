// What the halves of every strategy with a server do, on asp's: who may say what, how a run begins.
#include <gtest/gtest.h>

#include "longhaul/sync/asp.h"
#include "longhaul/sync/testing/halves.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync::server {
namespace {

using testing::Halves;
using testing::TestJob;
using Kind = Label::Kind;

// mutant: longhaul/sync/server/server_half.cpp
//   - if (given == given_.end() || label.version > given->second)
//   + if (given == given_.end())
// mutant: longhaul/sync/server/server_half.cpp
//   - if (waiting_.contains(from)) return malformed("it asks for the model for the second time");
//   +
// mutant: longhaul/sync/server/server_half.cpp
//   - if (!setup_.place.member(from).is(Role::worker)) return malformed("a letter of no worker");
//   +
TEST(ServerHalf, TakesOnlyWhatItsWorkersMaySay) {
  Halves<Asp> job({}, 2);
  const Label pull{.kind = Kind::pull}, push{.kind = Kind::push, .carries = true};
  EXPECT_FALSE(job.server().admit(1, push));  // it was given nothing yet
  EXPECT_TRUE(job.server().admit(1, pull));
  job.server().take({1, pull, nullptr}, job.node(0).turn);
  EXPECT_FALSE(job.server().admit(1, pull));
  EXPECT_FALSE(job.server().admit(1, {.kind = Kind::last, .carries = true}));
  Halves<Asp> running({}, 2);
  running.start(1);
  EXPECT_TRUE(running.server().admit(1, push));
  Label ahead = push;
  ahead.version = 1;
  EXPECT_FALSE(running.server().admit(1, ahead));
  Members members{{"a"}, {"b", 0, 0, std::uint8_t(Role::scheduler)}};
  server::Setup setup;
  setup.place.members = std::make_shared<const Members>(members);
  setup.workers = {0};
  AspServer server({}, setup);
  EXPECT_FALSE(server.admit(1, pull));
}

// mutant: longhaul/sync/server/worker_half.cpp
//   - if (phase_ != Phase::waiting || (begun_ && !label.carries))
//   + if (phase_ != Phase::waiting)
// mutant: longhaul/sync/server/worker_half.cpp
//   - if (label.version < version_)
//   + if (false)
// mutant: longhaul/sync/server/worker_half.cpp
//   - if (ending_ || phase_ >= Phase::ended) return malformed("a letter after the last one");
//   +
TEST(WorkerHalf, TakesOnlyWhatItAskedForAndTheEnd) {
  Halves<Asp> job({}, 1);
  Label model{.kind = Kind::model, .carries = true, .version = 2};
  EXPECT_FALSE(job.worker(0).admit(model));  // it has not asked
  job.worker(0).on_start(job.node(0).turn);
  EXPECT_TRUE(job.worker(0).admit(model));
  job.worker(0).take({0, model, std::make_shared<const std::vector<float>>(4, 1.f)},
                     job.node(0).turn);
  EXPECT_FALSE(job.worker(0).admit(model));  // it computes
  job.node(0).context.wanted.clear();
  job.worker(0).on_computed({.steps = 1}, job.node(0).turn);
  model.carries = false;
  EXPECT_FALSE(job.worker(0).admit(model));
  model = {.kind = Kind::last, .carries = true, .version = 1};
  EXPECT_FALSE(job.worker(0).admit(model));  // older than what it has
  model.version = 3;
  EXPECT_TRUE(job.worker(0).admit(model));
  EXPECT_FALSE(job.worker(0).admit(model));
}

// All begin with the same model, when all have asked for it.
// mutant: longhaul/sync/server/server_half.cpp
//   - if (!store_.filled() || !silent_.empty()) return;
//   + if (!store_.filled()) return;
TEST(ServerHalf, NobodyBeginsBeforeAllHaveAsked) {
  Halves<Asp> job({}, 2);
  const Label start{.kind = Kind::start, .carries = true}, pull{.kind = Kind::pull};
  Turn& turn = job.node(0).turn;
  job.server().take({0, start, std::make_shared<const std::vector<float>>(4, 1.f)}, turn);
  job.server().take({0, pull, nullptr}, turn);
  EXPECT_FALSE(job.server().letter());
  EXPECT_EQ(job.server().waiting_for(), "updates of ranks 1");
  job.server().take({1, pull, nullptr}, turn);
  for (Rank rank = 0; rank < 2; ++rank) {
    const auto letter = job.server().letter();
    ASSERT_TRUE(letter);
    EXPECT_EQ(letter->peer, rank);
    EXPECT_EQ(letter->values, nullptr);  // each has it
  }
}

// The next gives the model if the lowest worker is lost before anything has begun.
// mutant: longhaul/sync/server/worker_half.cpp
//   - if (phase_ == Phase::waiting) give_start(turn);  // else the learner is at work: when it asks
//   +
TEST(WorkerHalf, WhoFollowsTheLowestGivesTheModelToStartFrom) {
  TestJob::Config config{.sync = "asp", .learners = testing::learners(4, {.rate = 0.05f})};
  config.roles = {1, 1, 1, std::uint8_t(Role::server)};
  config.server = 3;
  TestJob job(config);
  job.crash(0);
  job.run();
  EXPECT_TRUE(job.failures.empty());
  for (Rank rank : {1u, 2u}) {
    EXPECT_EQ(job.finished[rank], 1);
    EXPECT_EQ(job.params(rank), job.params(1));
  }
}

// A target that is reached ends the run while workers compute; they stop at the next step.
// mutant: longhaul/sync/server/served.cpp
//   - if (worker_ && worker_->wants_stop()) turn.stop_computing();
//   +
TEST(Served, WhoComputesStopsAtTheNextStep) {
  TestJob::Config config{.sync = "fedasync", .learners = testing::learners(3, {.rate = 0.05f})};
  config.settings = {{"steps", {std::int64_t{1000}}}};
  config.takes = [](Rank rank) { return rank == 2 ? 0 : 3; };
  config.stop = {.target_accuracy = 0.5, .max_rounds = 9};
  config.score = [](const std::vector<float>&) { return Evaluation{.accuracy = 1}; };
  TestJob job(config);
  job.run(1000000);
  EXPECT_EQ(job.reports, std::vector<Round>{0});
  EXPECT_EQ(job.finished.size(), 3u);
  // Three pushes of the fast one are a round; the others are not at the end of their first.
  EXPECT_EQ(job.steps[2] % 1000, job.steps[2] - 3000);
  EXPECT_LT(job.steps[0], 1000u);
  EXPECT_EQ(job.params(0), job.params(2));
}

// A node that would have nothing to do is refused.
// mutant: longhaul/sync/server/setup.cpp
//   - if (rank == server || place.member(rank).is(Role::worker)) continue;
//   + continue;
// mutant: longhaul/sync/server/setup.cpp
//   - if (place.member(rank).is(Role::server)) return rank;
//   + (void)rank;
TEST(ServerSetup, TheServerIsNamedOrHasTheRoleOrIsTheLowest) {
  Place place;
  Members members{{"a"}, {"b"}, {"c"}};
  members[1].roles = std::uint8_t(Role::server);
  place.members = std::make_shared<const Members>(members);
  EXPECT_EQ(server_of(2, place), 2u);
  EXPECT_EQ(server_of(std::nullopt, place), 1u);
  EXPECT_TRUE(check_roles("asp", 1, place));
  const Status idle = check_roles("asp", 0, place);
  ASSERT_FALSE(idle);
  EXPECT_NE(idle.error().what.find("site b has no worker"), std::string::npos);
  members[1].roles = std::uint8_t(Role::worker);
  place.members = std::make_shared<const Members>(members);
  EXPECT_EQ(server_of(std::nullopt, place), 0u);
}

}  // namespace
}  // namespace longhaul::sync::server
