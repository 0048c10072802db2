// The example that docs/channels.md links to.
#include <gtest/gtest.h>

#include "longhaul/core/registry.h"
#include "longhaul/core/vector_channel.h"
#include "longhaul/sync/testing/one_node.h"
#include "longhaul/transfer/reliable.h"

namespace longhaul::sync {
namespace {

struct ModelHeader {
  std::uint64_t steps = 0;  // that the model has behind it
  LONGHAUL_FIELDS((steps, .max = 0x1p50))
};

class NextRank final : public Strategy {
 public:
  NextRank(SyncParts parts, const Place& place)
      : channel_(place, {.stream = "model", .limits = ChannelLimits::models(2, *place.layout)},
                 std::move(parts.transfer), parts.make_codec(true), nullptr,
                 [](Rank, const ModelHeader&, const ContentShape& shape) -> Result<bool> {
                   if (shape.kind != ContentKind::values) return malformed("a model of no values");
                   return true;
                 }) {
    own(channel_);
  }
  void on_start(Turn& turn) override { turn.compute(LocalStep{}, 10); }
  void on_computed(const Computed&, Turn& turn) override {
    const auto x = turn.params();
    Turn below = within(channel_, turn);
    while (auto model = channel_.poll(below))
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = (x[i] + (*model->content.values())[i]) / 2;
    ++rounds_;
    const Rank next = (turn.self() + 1) % turn.place().size();
    const auto model = std::make_shared<const std::vector<float>>(x.begin(), x.end());
    channel_.send({next}, ModelHeader{10 * rounds_}, VectorContent::values(model, {0, x.size()}),
                  {}, below);
    rounds_ < 5 ? turn.compute(LocalStep{}, 10) : turn.finish();
  }
  Round rounds_done() const override { return rounds_; }
  std::string waiting_for() const override { return channel_.waiting_for(); }
  void state(Archive& ar) override { ar(rounds_); }

 private:
  VectorChannel<ModelHeader> channel_;
  Round rounds_ = 0;
};

// Two nodes without a host: what one sends the other is given.
TEST(ChannelExample, EachMixesWhatTheOneBeforeSent) {
  std::vector<std::unique_ptr<testing::OneNode>> nodes;
  std::vector<std::unique_ptr<NextRank>> strategies;
  for (Rank rank = 0; rank < 2; ++rank) {
    nodes.push_back(std::make_unique<testing::OneNode>(
        4, testing::Quadratic::Config{.target = float(rank)}, Members{{"a"}, {"b"}}));
    nodes[rank]->place.self = rank;
    SyncParts parts;
    parts.transfer = std::make_unique<transfer::Reliable>(nodes[rank]->place);
    parts.make_codec = [](bool) { return nullptr; };
    strategies.push_back(std::make_unique<NextRank>(std::move(parts), nodes[rank]->place));
  }
  const auto computed = [&](Rank rank, float x) {
    nodes[rank]->context.wanted.clear();
    std::fill(nodes[rank]->params().begin(), nodes[rank]->params().end(), x);
    strategies[rank]->on_computed({.steps = 10}, nodes[rank]->turn);
    for (const Send& send : nodes[rank]->done<Send>())
      EXPECT_TRUE(strategies[1 - rank]->feed_message(rank, send.message, send.message.machine,
                                                     nodes[1 - rank]->turn));
    nodes[rank]->context.actions.clear();
  };
  computed(0, 2);
  computed(1, 4);
  EXPECT_EQ(nodes[1]->params()[3], 3.f);
  computed(0, 1);
  EXPECT_EQ(nodes[0]->params()[0], 2.f);
  EXPECT_EQ(strategies[0]->rounds_done(), 2u);
}

}  // namespace
}  // namespace longhaul::sync
