// Nodes that resume a run, and one that thinks it goes on: in one loop.
#include <gmock/gmock.h>

#include "longhaul/net/peers.h"

namespace longhaul::net {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

struct ResumingNode final : Peers::Events {
  ResumingNode(Loop& loop, Rank self, Rank nodes, std::uint32_t incarnation)
      : place{.self = self,
              .members = members(self, nodes, incarnation),
              .layout = Layout::flat(1)},
        peers(loop, config(self, nodes, incarnation), place, *this) {
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
  static PeersConfig config(Rank self, Rank nodes, std::uint32_t incarnation) {
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
  void on_refused(const Error& why) override { refused = why.what; }
  void on_resumes(const Error& why) override { resumes = why.what; }
  void on_rejoin_request(Rank) override {}
  void on_note(const std::string&) override {}

  Place place;
  Peers peers;
  std::uint16_t port = 0;
  std::string refused, resumes;
};

struct Resuming {
  explicit Resuming(Rank count) : nodes(count) {}
  void start(Rank self, std::uint64_t checkpoint, std::uint32_t incarnation = 0) {
    nodes[self] = std::make_unique<ResumingNode>(loop, self, Rank(nodes.size()), incarnation);
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

}  // namespace
}  // namespace longhaul::net
