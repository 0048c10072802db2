// Nodes that resume a run, and one that thinks it goes on: in one loop.
#include <gmock/gmock.h>

#include "longhaul/net/peers.h"

namespace longhaul::net {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

struct ResumingNode final : Peers::Events {
  ResumingNode(Loop& loop, Rank self, Rank nodes, std::uint32_t incarnation)
      : ResumingNode(loop, self, nodes, incarnation, config_of(self, nodes, incarnation)) {}
  ResumingNode(Loop& loop, Rank self, Rank nodes, std::uint32_t incarnation, PeersConfig config)
      : place{.self = self,
              .members = members(self, nodes, incarnation),
              .layout = Layout::flat(1)},
        peers(loop, std::move(config), place, *this) {
    const auto listens = peers.listen();
    LH_CHECK(listens);
    port = *listens;
  }
  static std::shared_ptr<const Members> members(Rank self, Rank nodes, std::uint32_t incarnation) {
    Members all;
    for (Rank rank = 0; rank < nodes; ++rank) all.push_back({"site" + std::to_string(rank)});
    all[self].incarnation = incarnation;
    return std::make_shared<const Members>(std::move(all));
  }
  static PeersConfig config_of(Rank self, Rank nodes, std::uint32_t incarnation) {
    PeersConfig config;
    config.job_hash = 7;
    config.process = 100 + self + 10 * incarnation;
    config.addresses.assign(nodes, {"127.0.0.1", 0});
    config.max_retry = 20ms;
    return config;
  }
  void on_message(Rank, const Message&) override {}
  void on_writable(Rank, unsigned) override {}
  void on_silent(Rank, bool, const std::string&) override {}
  bool on_checkpoint(Rank, std::uint64_t) override { return true; }
  void on_refused(const Error& why) override {
    refused = why.what;
    is_invalid = why.kind == Error::Kind::invalid_argument;
  }
  void on_resumes(const Error& why) override { resumes = why.what; }
  void on_rejoin_request(Rank) override {}
  void on_note(const std::string&) override {}

  Place place;
  Peers peers;
  std::uint16_t port = 0;
  std::string refused, resumes;
  bool is_invalid = false;
};

struct Resuming {
  explicit Resuming(Rank count) : nodes(count) {}
  void start(Rank self, std::uint64_t checkpoint, std::uint32_t incarnation = 0,
             std::vector<JobKey> keys = {}) {
    PeersConfig config = ResumingNode::config_of(self, Rank(nodes.size()), incarnation);
    for (const JobKey& key : keys) config.job_hash += digest_of(key);
    config.job_keys = std::move(keys);
    nodes[self] = std::make_unique<ResumingNode>(loop, self, Rank(nodes.size()), incarnation,
                                                 std::move(config));
    if (incarnation == 0)
      nodes[self]->peers.offer({.newest = checkpoint,
                                .members = std::uint32_t(nodes.size()),
                                .has_before = true,
                                .view = {.epoch = 0, .live = RankList::below(Rank(nodes.size()))}});
    std::vector<Address> addresses(nodes.size(), {"127.0.0.1", 9});  // where nobody listens
    for (Rank rank = 0; rank < nodes.size(); ++rank)
      if (nodes[rank]) addresses[rank].port = nodes[rank]->port;
    for (const auto& node : nodes)
      if (node) node->peers.set_addresses(addresses);
    // connect_all() dials first, and waits: here until it is told to stop waiting, at once.
    (void)nodes[self]->peers.connect_all([] { return true; });
  }
  // Whether `self` has all that it waits for before it resumes.
  bool is_ready(Rank self) { return nodes[self]->peers.awaited().empty(); }
  bool until(const std::function<bool()>& holds) {
    const Time end = loop.now() + 20s;
    while (loop.now() < end && !holds()) {
      for (const auto& node : nodes)
        if (node) node->peers.tick();
      (void)loop.run_until(loop.now() + 5ms, holds);
    }
    return holds();
  }
  Loop loop;
  std::vector<std::unique_ptr<ResumingNode>> nodes;
};

// Of two, one was killed and asks to rejoin; the other had no majority, and resumes.
TEST(ResumingPeers, WhoIsNeededToResumeIsToldNotToAskToRejoin) {
  Resuming run(2);
  run.start(0, 3);
  run.start(1, 3, /*incarnation=*/1);
  ASSERT_TRUE(run.until([&] { return !run.nodes[1]->resumes.empty(); }));
  EXPECT_THAT(run.nodes[1]->resumes, HasSubstr("no member of the run is in reach"));
  EXPECT_FALSE(run.is_ready(0));
  run.nodes[1].reset();
  run.start(1, 3);
  ASSERT_TRUE(run.until([&] { return run.is_ready(0) && run.is_ready(1); }));
  const auto chosen = run.nodes[0]->peers.meeting().choose_checkpoint();
  ASSERT_TRUE(chosen && *chosen);
  EXPECT_EQ(**chosen, 3u);
}

// 0 ends for a reason of all. Whoever has met it ends with the same, and so does 2, which has just
// started and knows nobody.
TEST(ResumingPeers, WhyOneLeavesIsHeardByAll) {
  for (const bool unfit : {false, true}) {
    Resuming run(3);
    run.start(0, 3);
    run.start(1, 7);
    ASSERT_TRUE(run.until([&] {
      return std::ranges::count(run.nodes[0]->peers.awaited(), 1u) == 0 &&
             std::ranges::count(run.nodes[1]->peers.awaited(), 0u) == 0;
    }));
    const Error why = unfit ? invalid("site0 lacks a column") : unavailable("they differ");
    const Timer late = run.loop.at(run.loop.now() + 200ms, [&] { run.start(2, 7); });
    const Time began = run.loop.now();
    run.nodes[0]->peers.leave(why, 20s);
    EXPECT_LT(run.loop.now() - began, 10s) << "all have heard it";
    for (const Rank rank : {1u, 2u}) {
      EXPECT_EQ(run.nodes[rank]->refused, why.what);
      EXPECT_EQ(run.nodes[rank]->is_invalid, unfit);
      ASSERT_TRUE(run.nodes[rank]->peers.last_word());
      EXPECT_EQ(run.nodes[rank]->peers.last_word()->what, why.what);
    }
    EXPECT_EQ(run.nodes[0]->refused, "");
  }
}

TEST(ResumingPeers, JobsThatDifferEndAtBothWithBothValues) {
  for (const bool lower_first : {true, false}) {
    Resuming run(2);
    for (const Rank rank : {lower_first ? 0u : 1u, lower_first ? 1u : 0u})
      run.start(rank, 0, 0, {{"[sync] steps", rank == 0 ? "20" : "30"}});
    for (const auto& node : run.nodes)  // each knows the other's port by now
      (void)node->peers.connect_all([] { return true; });
    ASSERT_TRUE(run.until(
        [&] { return !run.nodes[0]->refused.empty() && !run.nodes[1]->refused.empty(); }));
    for (const auto& node : run.nodes) {
      EXPECT_EQ(
          node->refused,
          "site site1 runs another job than site site0: [sync] steps is 20 at site0 and 30 at "
          "site1; start all sites with the same job file, --set and --wan");
      EXPECT_TRUE(node->is_invalid);
    }
  }
}

// A peer believes at its address alone that a node is of another job, after it has refused it.
TEST(ResumingPeers, OneOfAnotherJobStaysUntilTheOthersHaveComeBy) {
  for (const Rank odd : {0u, 1u, 2u}) {
    SCOPED_TRACE(odd);
    Resuming run(3);
    for (Rank rank = 0; rank < 3; ++rank)
      if (rank != odd) run.start(rank, 0, 0, {{"[sync] steps", "20"}});
    run.start(odd, 0, 0, {{"[sync] steps", "30"}});
    const std::string why = "site" + std::to_string(odd) + " has 30 steps";
    run.nodes[odd]->peers.leave(invalid(why), 20s);  // before it has heard of anybody
    run.nodes[odd].reset();
    ASSERT_TRUE(run.until([&] {
      return std::ranges::all_of(run.nodes,
                                 [](const auto& node) { return !node || !node->refused.empty(); });
    }));
    for (const auto& node : run.nodes)
      if (node) EXPECT_TRUE(node->is_invalid);
  }
}

}  // namespace
}  // namespace longhaul::net
