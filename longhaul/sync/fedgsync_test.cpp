// Whole jobs of FedGSync, its worker and its server.
//
// Invariants:
//  1. A group weighs pi_g for any number and age of its updates; weights sum to 1:
//     grouping/commit_test.cpp.
//  2. rho = 1 is FedAvg to rounding; one group with quota 1 commits at every fresh update.
//  3. Every update is in exactly one commit, or refused with notice.
//  4. Three planted kinds of four workers are found in 20 of 20 seeds, for any numbering:
//     grouping/groups_test.cpp.
//  5. Only fresh updates count for quotas; no commit without all before the deadline.
//  6. f falls with tau; nothing older than max_staleness counts: grouping/groups_test.cpp, too.
//  7. Class 2 is sent in a lower class than class 0; a change of class changes only the order:
//     core/vector_channel_test.cpp; hosts obey: net/delivery_test.cpp, sim/fair_network_test.cpp.
//  8. Equal seeds, equal groups and traces: tests/conformance_test.cpp; groups change at commits
//     only.
//  9. The first round ends at the largest over groups of the quota_g-th arrival.
// 10. differential = false changes none of these rules.
// A permanently slow group does not lengthen the deadline:
// DeadlineMedian.AGroupThatIsSlowForGoodIsNotWaitedFor in tests/deadline_test.cpp.
#include "longhaul/sync/fedgsync.h"

#include <cmath>

#include <gtest/gtest.h>

#include "longhaul/sync/server/server_strategy.h"
#include "longhaul/sync/testing/fedgsync_job.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using Job = testing::FedGSyncJob;
using testing::TestJob;
using namespace std::chrono_literals;
using server::ServerHeader;
using Floats = std::vector<float>;

TestJob::Config fedgsync_job(std::uint32_t n, std::vector<Setting> settings,
                             std::string sync = "fedgsync") {
  settings.push_back({"steps", {std::int64_t{3}}});
  return {.sync = std::move(sync),
          .settings = std::move(settings),
          .learners = testing::learners(n, {.rate = 0.05f, .buffers = 1}),
          .stop = {.max_rounds = 6}};
}

TEST(FedGSync, Invariant2_WithAllOfEachGroupItIsFedAvg) {
  auto all = fedgsync_job(4, {{"rho", {1.0}}, {"groups", {std::int64_t{2}}}});
  auto plain = fedgsync_job(4, {{"reset_optimizer", {false}}}, "fedavg");
  for (auto* config : {&all, &plain})
    for (std::size_t k = 0; k < 4; ++k) config->learners[k].samples = 1 + k;
  auto a = TestJob::ended(all), b = TestJob::ended(plain);
  const auto grouped = a.params(2), averaged = b.params(2);
  testing::expect_near(std::span(grouped).first(7), std::span(averaged).first(7), 1e-4);
}

// Without a network there is no order to change.
TEST(FedGSync, Invariant10_DifferentialTransmissionChangesNoModel) {
  TestJob on(fedgsync_job(5, {{"groups", {std::int64_t{2}}}}));
  TestJob off(fedgsync_job(5, {{"groups", {std::int64_t{2}}}, {"differential", {false}}}));
  on.run();
  off.run();
  EXPECT_EQ(on.params(1), off.params(1));
  EXPECT_EQ(on.records.at({0, "round_s"}).size(), off.records.at({0, "round_s"}).size());
}

// A worker alone; the test is the server.
struct WorkerNode {
  WorkerNode() : node(700, {}, {{"a"}, {"b"}}) {
    node.place.self = 1;
    node.place.chunk_bytes = 512;
    SyncParts parts{.transfer = std::make_unique<transfer::Reliable>(node.place), .server = 0};
    parts.make_codec = [](bool) { return nullptr; };
    strategy.emplace("fedgsync", std::move(parts), node.place);
    const FedGSyncConfig config{.sketch = 32, .sketch_batches = 1};
    strategy->put(std::make_unique<FedGSyncWorker>(config, strategy->setup()), nullptr);
    strategy->feed_all([](Machine& m, Turn& turn) { m.on_start(turn); }, node.turn);
  }
  // The priorities of what it sends then.
  std::vector<unsigned> computed() {
    node.context.actions.clear();
    node.context.wanted.clear();
    strategy->on_computed({.steps = 1, .samples = 1}, node.turn);
    strategy->on_progress(node.turn);
    return priorities();
  }
  std::vector<unsigned> hear(std::uint64_t seq, server::ServerHeader::Kind kind,
                             std::uint8_t urgency) {
    node.context.actions.clear();
    server::ServerHeader header;
    header.kind = kind;
    header.extension = server::to_extension(FedGSyncModel{urgency});
    channel::Begin begin{.seq = seq, .read = 1, .handle = seq + 1, .group = 1};
    for (const std::byte b : to_wire(header)) begin.header.push_back(std::uint8_t(b));
    Message message = longhaul::testing::message_of(begin);
    message.machine = Path().child(0);
    const Status status = strategy->feed_message(0, message, message.machine, node.turn);
    EXPECT_TRUE(status) << status.error().what;
    return priorities();
  }
  std::vector<unsigned> priorities() const {
    std::vector<unsigned> found;
    for (const Send& send : node.done<Send>()) found.push_back(send.service.priority);
    return found;
  }
  testing::OneNode node;
  std::optional<server::ServerStrategy> strategy;
};

// Hosts send lower classes when higher ones are empty.
TEST(FedGSync, Invariant7_SurplusGoesInALowerClassUntilItIsNeeded) {
  WorkerNode worker;
  std::fill(worker.node.learner.grads().begin(), worker.node.learner.grads().end(), 1.f);
  const unsigned normal = Service{}.priority;
  EXPECT_EQ(worker.computed(), std::vector<unsigned>{normal});  // the pull, with a sketch
  EXPECT_TRUE(worker.hear(0, server::ServerHeader::Kind::model, 2).empty());
  // The header, and what there is room for.
  EXPECT_EQ(worker.computed(), std::vector<unsigned>(3, normal - 2));
  EXPECT_EQ(worker.hear(1, server::ServerHeader::Kind::notice, 0),
            std::vector<unsigned>(3, normal));
}

TEST(FedGSync, AnUpdateThatIsNotFiniteIsNotGivenAndTheWorkerBeginsAgain) {
  Job job({.groups = 1, .rho = 1}, {0, 0});
  const auto diverge = [](std::span<float> x) { x[0] = std::nanf(""); };
  for (int i = 0; i < 3; ++i) {
    job.computed(1, diverge);
    job.computed(1);  // the optimiser is reset, the model asked for
    EXPECT_FALSE(job.worker(1).failed());
    EXPECT_EQ(job.params(1)[0], 0.f);
  }
  job.computed(1, diverge);
  EXPECT_TRUE(job.worker(1).failed());
}

// The lowest worker is lost while it sketches: the next gives the model to start from.
TEST(FedGSync, WhoFollowsTheLowestGivesTheModelToStartFrom) {
  TestJob::Config config = fedgsync_job(4, {});
  config.roles = {1, 1, 1, std::uint8_t(Role::server)};
  config.server = 3;
  config.takes = [](Rank) { return 60; };
  TestJob job(config);
  job.crash(0);
  job.run();
  EXPECT_TRUE(job.failures.empty());
  EXPECT_EQ(job.finished[1], 1);
  EXPECT_EQ(job.params(1), job.params(2));
}

TEST(FedGSync, AllEndAlikeAndSavingChangesNothing) {
  auto job = TestJob::ended(fedgsync_job(4, {}));
  for (Rank rank = 1; rank < 4; ++rank) EXPECT_EQ(job.params(rank), job.params(0));
  EXPECT_EQ(job.node(3).strategy().rounds_done(), 6u);
  EXPECT_EQ(changed_by_saving(fedgsync_job(5, {{"regroup", {std::int64_t{2}}}})), "");
}

// The server's half of FedGSync, whose rounds the test makes by hand. Whole jobs:
// fedgsync_test.cpp.

FedGSyncModel said_in(const ServerHeader& header) {
  return *server::from_extension<FedGSyncModel>(header.extension);
}

TEST(FedGSyncServer, Invariant2_OneGroupAndQuotaOneCommitAtEveryFreshArrival) {
  Job job({.groups = 1, .rho = 0.1}, {0, 0, 0});
  for (int i = 1; i <= 5; ++i) {
    job.give(0, 1);
    EXPECT_EQ(job.commits(), std::size_t(i));
  }
  job.give(1, 1);  // from version 0
  EXPECT_EQ(job.commits(), 5u);
}

// By another's hand: each update counted once with its weight, or refused with notice.
TEST(FedGSyncServer, Invariants3And6_EveryUpdateIsInOneCommitOrRefusedWithNotice) {
  Job job({.groups = 1, .rho = 0.5, .max_staleness = 2}, {0, 0, 0, 0});
  Random random(3, Stream{});
  double w = 0, weights = 0, sum = 0;
  std::uint64_t version = 0, fresh = 0, given = 0, counted = 0, refused = 0;
  std::set<Rank> waiting;
  for (int i = 0; i < 400; ++i) {
    const Rank rank = Rank(random.below(random.below(8) == 0 ? 4 : 3));  // the last is slow
    if (waiting.contains(rank)) continue;
    const auto value = float(random.uniform() - 0.5);
    const std::uint64_t from = job.given(rank), tau = version - from, samples = 1 + random.below(5);
    job.headers.clear();
    job.give(rank, value, samples);
    ++given;
    if (tau > 2) {
      ++refused;
      ASSERT_EQ(job.headers.size(), 1u);
      EXPECT_TRUE(said_in(job.headers[0].second).refused);
      continue;
    }
    ++counted;
    const double weight = double(samples) / std::sqrt(1 + double(tau));
    weights += weight;
    sum += weight * double(value);
    if (tau > 0) job.give(rank, 100, 1, from);  // it again: nothing changes
    if (tau == 0) ++fresh, waiting.insert(rank);
    if (fresh < 2) continue;
    w += sum / weights;
    weights = sum = 0;
    fresh = 0;
    ++version;
    waiting.clear();
    ASSERT_EQ(job.commits(), version);
    ASSERT_NEAR(job.model()[0], w, 1e-4);
  }
  EXPECT_GT(version, 50u);
  EXPECT_GT(refused, 5u);
  EXPECT_EQ(job.records("staleness").size(), counted);
  EXPECT_EQ(given, counted + refused);
}

TEST(FedGSyncServer, Invariants5And9_ARoundEndsWithTheLastQuotaOfFreshUpdates) {
  Job job({.groups = 2, .rho = 0.6}, {0, 0, 0, 1, 1, 1});  // two of three
  ASSERT_EQ(job.groups().size(), 2u);
  const auto at = [&](Time now, Rank rank) {
    job.at(now);
    job.give(rank, 1);
    return job.commits();
  };
  EXPECT_EQ(at(1s, 0), 0u);
  EXPECT_EQ(at(2s, 1), 0u);
  EXPECT_EQ(at(3s, 3), 0u);
  EXPECT_EQ(at(7s, 4), 1u);  // max over groups of the second arrival
  EXPECT_EQ(job.records("round_s"), std::vector<double>{7});
  EXPECT_EQ(at(8s, 2), 1u);  // these two are late, and count for no quota
  EXPECT_EQ(at(8s, 5), 1u);
  EXPECT_EQ(at(9s, 0), 1u);
  EXPECT_EQ(at(9s, 3), 1u);
  EXPECT_EQ(at(10s, 4), 1u);
  EXPECT_EQ(at(11s, 1), 2u);
}

TEST(FedGSyncServer, Invariant8_GroupsChangeAtACommitWhenItIsTime) {
  Job job({.rho = 0.3, .regroup = 2}, {0, 0, 1, 1});
  ASSERT_EQ(job.groups().size(), 2u);
  job.kinds_ = {0, 1, 0, 1};  // their updates say something else
  job.give(0, 1);
  job.give(2, 1);
  EXPECT_EQ(job.commits(), 1u);
  EXPECT_EQ(job.records("groups").size(), 1u);
  job.give(0, 1);
  job.give(1, 1);
  job.give(3, 1);
  EXPECT_EQ(job.records("groups").size(), 1u);
  job.give(2, 1);
  EXPECT_EQ(job.commits(), 2u);
  EXPECT_EQ(job.records("groups").size(), 2u);
}

// Both of a group are silent: rounds go on without it, and say so; later one of it is enough.
TEST(FedGSyncServer, AGroupThatMissesItsQuotaIsNotWaitedForBeyondTheDeadline) {
  Job job({.groups = 2, .rho = 1, .round_deadline = 5}, {0, 0, 1, 1});
  Time now{0};
  for (int round = 0; round < 3; ++round) {
    job.at(now += 1s);
    for (Rank rank = 0; rank < 4; ++rank) job.give(rank, 1);
  }
  ASSERT_EQ(job.commits(), 3u);
  for (int round = 0; round < 2; ++round) {
    for (Rank rank : {0u, 1u}) job.give(rank, 1);
    job.at(now += 4s);
    job.timer(TimerId{1});
    EXPECT_EQ(job.commits(), std::size_t(3 + round));  // not due yet
    job.at(now += 1s);
    job.timer(TimerId{1});
    EXPECT_EQ(job.commits(), std::size_t(4 + round));
  }
  EXPECT_EQ(job.records("missing_group"), (std::vector<double>{1, 1}));
  EXPECT_EQ(job.records("suspected_group"), std::vector<double>{1});
  job.give(2, 1);
  job.give(2, 1);
  for (Rank rank : {0u, 1u}) job.give(rank, 1);
  EXPECT_EQ(job.commits(), 6u);  // without worker 3
  job.at(now += 60s);
  job.timer(TimerId{1});
  EXPECT_EQ(job.commits(), 6u);  // there is nothing to commit
}

TEST(FedGSyncServer, ALostWorkersUpdateStaysAndItsGroupWaitsForTheLiving) {
  Job job({.groups = 2, .rho = 1}, {0, 0, 1});
  job.give(0, 1);
  job.give(2, 1);
  EXPECT_EQ(job.commits(), 0u);
  job.lose(1);
  EXPECT_EQ(job.commits(), 1u);
  job.give(0, 1);
  job.lose(2);  // all of its group
  EXPECT_EQ(job.commits(), 2u);
}

// Who is at an update is told when its group needs it no more.
TEST(FedGSyncServer, SurplusIsToldThatItMayWait) {
  Job job({.groups = 1, .rho = 0.3}, {0, 0, 0});
  for (Rank rank = 0; rank < 3; ++rank) {
    job.at(Time(std::chrono::seconds(1 + rank)));
    job.give(rank, 1);
  }
  const auto& [rank, newest] = job.headers.back();
  EXPECT_EQ(rank, 2u);
  EXPECT_EQ(said_in(newest).urgency, 2);
  std::vector<Rank> urged;  // all times are known now, and 0 is late: 1 is needed in its place
  for (const auto& [to, said] : job.headers)
    if (said.kind == ServerHeader::Kind::notice) urged.push_back(to);
  EXPECT_EQ(urged, std::vector<Rank>{0});
  job.headers.clear();
  job.give(0, 1);
  job.give(0, 1);
  for (const auto& [to, said] : job.headers) EXPECT_EQ(said_in(said).urgency, to == 0 ? 0 : 2);
  Job same({.groups = 1, .rho = 0.3, .differential = false}, {0, 0, 0});
  for (int i = 0; i < 4; ++i)
    for (Rank r = 0; r < 3; ++r) same.give(r, 1);
  for (const auto& [to, said] : same.headers) EXPECT_EQ(said_in(said).urgency, 0);
}

// What a liar says of its data: of the right size and finite, or refused.
TEST(FedGSyncServer, ASketchIsFiniteAndOfItsSize) {
  Job job({}, {0, 0});
  ServerHeader push = Job::push_header(0);
  const auto admitted = [&](const Floats& sketch) {
    push.extension = server::to_extension(FedGSyncUpdate{1, sketch});
    return bool(job.server().admit(1, push, /*carries=*/true));
  };
  EXPECT_FALSE(job.server().admit(1, push, true));  // it says nothing
  EXPECT_FALSE(admitted({}));
  EXPECT_TRUE(admitted(Floats(32, 1)));
  Floats infinite(32, 1);
  infinite[3] = std::nanf("");
  EXPECT_FALSE(admitted(infinite));
}

}  // namespace
}  // namespace longhaul::sync
