// What workers and servers of every strategy with a server do, on asp's: who may say what, how a
// run begins.
#include <gtest/gtest.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/sync/asp.h"
#include "longhaul/sync/testing/server_and_workers.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync::server {
namespace {

using testing::ServerAndWorkers;
using testing::TestJob;
using Kind = ServerHeader::Kind;

ServerHeader header_of(Kind kind, std::uint64_t version = 0) {
  ServerHeader header{.kind = kind, .version = version};
  return header;
}

TEST(ParameterServer, TakesOnlyWhatItsWorkersMaySay) {
  ServerAndWorkers<Asp> job({}, 2);
  const ServerHeader pull = header_of(Kind::pull), push = header_of(Kind::push);
  EXPECT_FALSE(job.server().admit(1, push, true));  // it was given nothing yet
  EXPECT_TRUE(job.server().admit(1, pull, false));
  EXPECT_FALSE(job.server().admit(1, pull, true));
  job.server().take({1, pull, nullptr}, job.node(0).turn);
  EXPECT_FALSE(job.server().admit(1, pull, false));
  EXPECT_FALSE(job.server().admit(1, header_of(Kind::last), true));
  ServerAndWorkers<Asp> running({}, 2);
  running.start(1);
  EXPECT_TRUE(running.server().admit(1, push, true));
  EXPECT_FALSE(running.server().admit(1, push, false));  // without its vector
  EXPECT_FALSE(running.server().admit(1, header_of(Kind::push, 1), true));
  ServerHeader of_another = push;
  of_another.extension = {1};
  EXPECT_FALSE(running.server().admit(1, of_another, true));
  Members members{{"a"}, {"b", 0, 0, std::uint8_t(Role::state_server)}};
  server::Setup setup;
  setup.place.members = std::make_shared<const Members>(members);
  setup.workers = {0};
  AspServer server({}, setup);
  EXPECT_FALSE(server.admit(1, pull, false));
}

TEST(ParameterServerWorker, TakesOnlyWhatItAskedForAndTheEnd) {
  ServerAndWorkers<Asp> job({}, 1);
  ServerHeader model = header_of(Kind::model, 2);
  EXPECT_FALSE(job.worker(0).admit(model, true));  // it has not asked
  job.worker(0).on_start(job.node(0).turn);
  EXPECT_TRUE(job.worker(0).admit(model, true));
  EXPECT_FALSE(job.worker(0).admit(header_of(Kind::notice, 2), false));  // asp has none
  job.worker(0).take({0, model, std::make_shared<const std::vector<float>>(4, 1.f)},
                     job.node(0).turn);
  EXPECT_FALSE(job.worker(0).admit(model, true));  // it computes
  job.node(0).context.wanted.clear();
  job.worker(0).on_computed({.steps = 1}, job.node(0).turn);
  EXPECT_FALSE(job.worker(0).admit(model, false));
  model = header_of(Kind::last, 1);
  EXPECT_FALSE(job.worker(0).admit(model, true));  // older than what it has
  model.version = 3;
  EXPECT_FALSE(job.worker(0).admit(model, false));
  EXPECT_TRUE(job.worker(0).admit(model, true));
  EXPECT_FALSE(job.worker(0).admit(model, true));
}

// All begin with the same model, when all have asked for it.
TEST(ParameterServer, NobodyBeginsBeforeAllHaveAsked) {
  ServerAndWorkers<Asp> job({}, 2);
  const ServerHeader start = header_of(Kind::start), pull = header_of(Kind::pull);
  Turn& turn = job.node(0).turn;
  job.server().take({0, start, std::make_shared<const std::vector<float>>(4, 1.f)}, turn);
  job.server().take({0, pull, nullptr}, turn);
  EXPECT_FALSE(job.server().outgoing());
  EXPECT_EQ(job.server().waiting_for(), "updates of ranks 1");
  job.server().take({1, pull, nullptr}, turn);
  for (Rank rank = 0; rank < 2; ++rank) {
    const auto envelope = good(job.server().outgoing());
    EXPECT_EQ(envelope->peer, rank);
    EXPECT_EQ(envelope->values, nullptr);  // each has it
  }
}

// Who has the model that the run ended with decides, also if another asks for more.
TEST(ParameterServer, WhoFollowsEndsTheRunWithTheModelThatItEndedWith) {
  ServerAndWorkers<Asp> job({}, 2);
  job.start(1);
  Turn& turn = job.node(0).turn;
  while (job.server().outgoing()) {
  }
  ASSERT_TRUE(job.server().take_over(job.server().model(), 0, job.server().rest(), turn));
  const auto last = std::make_shared<const std::vector<float>>(4, 5.f);
  job.server().take({1, header_of(Kind::ended, 3), last}, turn);
  EXPECT_FALSE(job.server().ended());  // it has not heard of rank 0
  job.server().take({0, header_of(Kind::pull), nullptr}, turn);
  EXPECT_TRUE(job.server().ended());
  EXPECT_EQ(*job.server().model(), *last);
}

TEST(ParameterServerWorker, RecordsTheLossOfWhatItPushes) {
  ServerAndWorkers<Asp> job({}, 1);
  job.start(1);
  auto& context = job.node(0).context;
  context.actions.clear();
  context.wanted.clear();
  job.worker(0).on_computed({.steps = 1, .loss = 0.25, .samples = 1}, job.node(0).turn);
  EXPECT_TRUE(std::ranges::any_of(context.actions, [](const Action& action) {
    const Record* record = std::get_if<Record>(&action);
    return record && record->name == "train_loss" && record->value == 0.25;
  }));
}

// The next gives the model if the lowest worker is lost before anything has begun.
TEST(ParameterServerWorker, WhoFollowsTheLowestGivesTheModelToStartFrom) {
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

// The last model came while it computed: it tells the new server at once, and reads it afterwards.
TEST(ParameterServerWorker, WhoComputesTellsANewServerHowTheRunEnded) {
  ServerAndWorkers<Asp> job({}, 2);
  job.start(1);
  auto& worker = job.worker(0);
  auto& node = job.node(0);
  node.context.busy = true;
  while (worker.outgoing()) {
  }
  const ServerHeader last = header_of(Kind::last, 3);
  const auto model = std::make_shared<const std::vector<float>>(4, 5.f);
  ASSERT_TRUE(worker.admit(last, true));
  worker.take({1, last, model}, node.turn);
  worker.on_new_server(1, node.turn);
  const auto envelope = good(worker.outgoing());
  EXPECT_EQ(envelope->peer, 1u);
  EXPECT_EQ(envelope->header.kind, Kind::ended);
  EXPECT_EQ(envelope->header.version, 3u);
  EXPECT_EQ(*envelope->values, *model);
  EXPECT_FALSE(worker.ended());
  node.context.busy = false;
  worker.on_computed({.steps = 1}, node.turn);
  EXPECT_TRUE(worker.ended());
  EXPECT_TRUE(std::ranges::equal(node.turn.params(), *model));
}

// A target that is reached ends the run while workers compute; they stop at the next step.
TEST(ServerStrategy, WhoComputesStopsAtTheNextStep) {
  TestJob::Config config{.sync = "fedasync", .learners = testing::learners(3, {.rate = 0.05f})};
  config.settings = {{"steps", {std::int64_t{1000}}}};
  config.takes = [](Rank rank) { return rank == 2 ? 0 : 3; };
  config.stop = {.target_accuracy = 0.5, .max_rounds = 9};
  config.score = [](const std::vector<float>&) { return Evaluation{.accuracy = 1}; };
  auto job = TestJob::ended(config, 1000000);
  EXPECT_EQ(job.reports, std::vector<Round>{0});
  EXPECT_EQ(job.finished.size(), 3u);
  // Three pushes of the fast one are a round; the others are not at the end of their first.
  EXPECT_EQ(job.steps[2] % 1000, job.steps[2] - 3000);
  EXPECT_LT(job.steps[0], 1000u);
  EXPECT_EQ(job.params(0), job.params(2));
}

// A node that would have nothing to do is refused.
TEST(ServerSetup, TheServerIsNamedOrHasTheRoleOrIsTheLowest) {
  Place place;
  Members members{{"a"}, {"b"}, {"c"}};
  members[1].roles = std::uint8_t(Role::server);
  place.members = std::make_shared<const Members>(members);
  EXPECT_EQ(server_of(2, place), 2u);
  EXPECT_EQ(server_of(std::nullopt, place), 1u);
  EXPECT_TRUE(check_roles("asp", 1, place));
  EXPECT_TRUE(says(check_roles("asp", 0, place), "site b has no worker"));
  std::swap(members[0].roles, members[1].roles);
  place.members = std::make_shared<const Members>(members);
  EXPECT_FALSE(check_roles("asp", 1, place));
  members[0].roles = std::uint8_t(Role::worker);
  place.members = std::make_shared<const Members>(members);
  EXPECT_EQ(server_of(std::nullopt, place), 0u);
}

}  // namespace
}  // namespace longhaul::sync::server
