// Whole jobs of FedGSync, and its worker. The server: fedgsync_server_test.cpp.
#include "longhaul/sync/fedgsync.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/sync/server/server_strategy.h"
#include "longhaul/sync/testing/fedgsync_job.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using Job = testing::FedGSyncJob;
using testing::TestJob;

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
  TestJob a(all), b(plain);
  a.run();
  b.run();
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
    SyncParts parts;
    parts.server = 0;
    parts.transfer = std::make_unique<transfer::Reliable>(node.place);
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
    Message message;
    message.kind = channel::Begin::kKind;
    message.machine = Path().child(0);
    message.head = Payload(share(to_wire(begin)));
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
  TestJob job(fedgsync_job(4, {}));
  job.run();
  for (Rank rank = 1; rank < 4; ++rank) EXPECT_EQ(job.params(rank), job.params(0));
  EXPECT_EQ(job.node(3).strategy().rounds_done(), 6u);
  EXPECT_EQ(changed_by_saving(fedgsync_job(5, {{"regroup", {std::int64_t{2}}}})), "");
}

}  // namespace
}  // namespace longhaul::sync
