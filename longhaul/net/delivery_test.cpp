// Outbox and Inbox together, over connections that break.
#include <gtest/gtest.h>

#include <deque>

#include "longhaul/base/rng.h"
#include "longhaul/base/testing/effort.h"
#include "longhaul/net/inbox.h"
#include "longhaul/net/outbox.h"

namespace longhaul::net {
namespace {

Message message(std::uint16_t kind, std::size_t body = 0) {
  Message m;
  m.kind = kind;
  if (body > 0) m.body = Payload(share(Buffer(body)));
  return m;
}

std::vector<std::uint16_t> kinds(const std::vector<Frame>& frames) {
  std::vector<std::uint16_t> kinds;
  for (const Frame& frame : frames) kinds.push_back(frame.header.kind);
  return kinds;
}

std::vector<std::uint16_t> drain(Outbox& outbox) {
  std::vector<Frame> frames;
  while (auto frame = outbox.next()) frames.push_back(*frame);
  return kinds(frames);
}

TEST(Outbox, HigherPriorityFirstThenLowerOrderThenEarlier) {
  Outbox outbox;
  outbox.push(message(1), {.priority = 4, .order = 2});
  outbox.push(message(2), {.priority = 4, .order = 1});
  outbox.push(message(3), {.priority = 4, .order = 1});
  outbox.push(message(4), {.priority = 0});
  outbox.push(message(5), kControl);
  EXPECT_EQ(drain(outbox), (std::vector<std::uint16_t>{5, 2, 3, 1, 4}));
}

TEST(Outbox, WritesAgainWhatIsNotAcknowledgedUnderTheSameNumbers) {
  Outbox outbox;
  for (std::uint16_t i = 0; i < 5; ++i) outbox.push(message(i), {});
  for (int i = 0; i < 4; ++i) (void)outbox.next();
  ASSERT_TRUE(outbox.acknowledged({4, 2}));
  outbox.rewind();
  for (std::uint16_t i = 2; i < 5; ++i) {
    const auto frame = outbox.next();
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->header.kind, i);
    EXPECT_EQ(frame->header.number, i);
  }
  EXPECT_FALSE(outbox.next());
  EXPECT_FALSE(outbox.idle());
  ASSERT_TRUE(outbox.acknowledged({4, 5}));
  EXPECT_TRUE(outbox.idle());
  EXPECT_EQ(outbox.kept_bytes(), 0u);
}

TEST(Outbox, WhatWasNeverWrittenCannotBeAcknowledged) {
  Outbox outbox;
  outbox.push(message(1), {});
  EXPECT_FALSE(outbox.acknowledged({4, 1}));
  (void)outbox.next();
  EXPECT_TRUE(outbox.acknowledged({4, 1}));
  EXPECT_TRUE(outbox.acknowledged({4, 0}));  // an old one that was overtaken
  EXPECT_FALSE(outbox.acknowledged({4, 2}));
}

TEST(Outbox, WritesNothingNewWhileTooMuchIsOutButOtherClassesGoOn) {
  Outbox outbox({.unacknowledged = 1000});
  for (std::uint16_t i = 0; i < 4; ++i) outbox.push(message(i, 400), {});
  EXPECT_EQ(drain(outbox), (std::vector<std::uint16_t>{0, 1}));
  outbox.push(message(9), kControl);
  EXPECT_EQ(drain(outbox), (std::vector<std::uint16_t>{9}));
  ASSERT_TRUE(outbox.acknowledged({4, 1}));
  EXPECT_EQ(drain(outbox), (std::vector<std::uint16_t>{2}));
  outbox.push(message(10, 5000), {.priority = 2});  // longer than the limit: alone
  EXPECT_EQ(drain(outbox), (std::vector<std::uint16_t>{10}));
}

TEST(Inbox, KeepsWhatComesEarlyWithinABound) {
  Inbox inbox({.early_bytes = 300});
  const auto frame = [](std::uint64_t number) {
    Frame f = message_frame(message(std::uint16_t(number), 100), {});
    f.header.number = number;
    return f;
  };
  EXPECT_TRUE(inbox.accept(frame(2))->empty());
  EXPECT_TRUE(inbox.accept(frame(1))->empty());
  EXPECT_TRUE(inbox.accept(frame(2))->empty());  // again
  EXPECT_FALSE(inbox.accept(frame(4)));
  EXPECT_EQ(kinds(*inbox.accept(frame(0))), (std::vector<std::uint16_t>{0, 1, 2}));
  EXPECT_TRUE(inbox.accept(frame(1))->empty());
  EXPECT_EQ(inbox.take_unsent(), (std::vector<Acknowledged>{{4, 3}}));
  EXPECT_TRUE(inbox.take_unsent().empty());
  EXPECT_EQ(inbox.all(), (std::vector<Acknowledged>{{4, 3}}));
}

// Several streams, each in order but not with each other; acknowledgements may be lost with a
// connection; a break loses whatever is on its way. Every message arrives once, in order.
TEST(Delivery, FiftyBreaksLoseAndDoubleNothing) {
  for (std::uint64_t seed = 0; seed < longhaul::testing::cases(20); ++seed) {
    Random random(seed, {Purpose::batches, 0, 0, 0});
    Outbox outbox({.unacknowledged = 2000});
    Inbox inbox;
    constexpr std::size_t kStreams = 3, kMessages = 3000;
    std::array<std::deque<Frame>, kStreams> wires;
    std::deque<Acknowledged> acks;
    std::array<std::vector<std::uint16_t>, 2> sent, got;
    std::size_t pushed = 0, breaks = 0;
    for (int step = 0; step < 1000000 && !(pushed == kMessages && outbox.idle()); ++step) {
      const auto dice = random.below(100);
      if (dice < 20 && pushed < kMessages) {
        const std::size_t which = random.below(2);
        const auto kind = std::uint16_t(pushed++);
        sent[which].push_back(kind);
        outbox.push(message(kind, which ? 100 : 0), which ? Service{} : kControl);
      } else if (dice < 60) {
        if (auto frame = outbox.next()) wires[random.below(kStreams)].push_back(*frame);
      } else if (dice < 97) {
        auto& wire = wires[random.below(kStreams)];
        if (wire.empty()) continue;
        const auto ready = inbox.accept(wire.front());
        wire.pop_front();
        ASSERT_TRUE(ready) << ready.error().what;
        for (const Frame& frame : *ready)
          got[frame.service().priority == 7 ? 0 : 1].push_back(frame.header.kind);
        for (const Acknowledged& ack : inbox.take_unsent()) acks.push_back(ack);
      } else if (dice < 99) {
        for (; !acks.empty(); acks.pop_front()) ASSERT_TRUE(outbox.acknowledged(acks.front()));
      } else if (breaks < 50 && random.below(2) == 0) {
        ++breaks;
        for (auto& wire : wires) wire.clear();
        acks.clear();
        for (const Acknowledged& have : inbox.all()) ASSERT_TRUE(outbox.acknowledged(have));
        outbox.rewind();
      }
    }
    EXPECT_EQ(breaks, 50u) << "seed " << seed;
    EXPECT_EQ(got[0], sent[0]) << "seed " << seed;
    EXPECT_EQ(got[1], sent[1]) << "seed " << seed;
  }
}

}  // namespace
}  // namespace longhaul::net
