#include "longhaul/sim/link_queue.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "longhaul/flow/testing/draw.h"

namespace longhaul::sim {
namespace {

constexpr std::uint64_t kRoomy = 1u << 30;

struct Sent {
  std::uint32_t slot, bytes;
  Time begin, end;
};

// Sends all that waits, one item after the other.
std::vector<Sent> send_all(LinkQueue& link_queue, Time now) {
  std::vector<Sent> sent;
  while (const auto end = link_queue.start(now)) {
    const LinkQueue::Item item = link_queue.finish();
    sent.push_back({item.slot, item.bytes, now, *end});
    now = *end;
  }
  return sent;
}

// S1: a busy link is exact: after any number of items it has taken their bytes / rate, to within a
// nanosecond.
RC_GTEST_PROP(LinkQueue, S1_TakesItsBytesOverItsRate, ()) {
  static int turn = 0;
  if (!flow::testing::tried(turn)) return;
  const double rate = *rc::gen::inRange(1000, 200'000'000);
  const auto sizes =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<unsigned>>(rc::gen::inRange(20u, 1500u)));
  LinkQueue link_queue(rate);
  double bytes = 0;
  for (int repeat = 0; repeat < 50; ++repeat)
    for (const unsigned size : sizes) {
      RC_ASSERT(link_queue.push(0, 0, {0, size}, kRoomy));
      bytes += size;
    }
  const Time end = send_all(link_queue, Time{0}).back().end;
  RC_ASSERT(std::abs(double(end.count()) - bytes * 1e9 / rate) <= 1.0);
}

// S2: what waits of a higher class goes first, and a class serves a flow in order.
RC_GTEST_PROP(LinkQueue, S2_StrictPriorityAndOrderOfAFlow, ()) {
  static int turn = 0;
  if (!flow::testing::tried(turn)) return;
  struct Given {
    unsigned service_class;
    std::uint64_t flow;
  };
  std::vector<Given> given;
  LinkQueue link_queue(1e6);
  for (std::uint32_t i = 0; i < 60; ++i) {
    given.push_back({*rc::gen::inRange(0u, kClasses), *rc::gen::inRange<std::uint64_t>(0, 4)});
    const unsigned bytes = *rc::gen::inRange(20u, 1500u);
    RC_ASSERT(link_queue.push(given[i].service_class, given[i].flow, {i, bytes}, kRoomy));
  }
  const auto sent = send_all(link_queue, Time{0});
  RC_ASSERT(sent.size() == given.size());
  RC_ASSERT(link_queue.empty());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    bool priority = true, order = true;
    for (std::size_t j = i + 1; j < sent.size(); ++j) {
      const Given &first = given[sent[i].slot], &second = given[sent[j].slot];
      priority &= first.service_class >= second.service_class;
      if (first.service_class == second.service_class && first.flow == second.flow)
        order &= sent[i].slot < sent[j].slot;
    }
    RC_ASSERT(priority);
    RC_ASSERT(order);
  }
}

// S3: flows of a class that always wait get equal bytes, whatever the sizes of their packets.
RC_GTEST_PROP(LinkQueue, S3_FlowsThatWaitShareEvenly, ()) {
  static int turn = 0;
  if (!flow::testing::tried(turn, 8)) return;
  LinkQueue link_queue(1e6);
  std::map<std::uint32_t, double> bytes;
  for (std::uint32_t flow = 0; flow < 3; ++flow) {
    const unsigned size = flow == 0 ? 1500 : *rc::gen::inRange(100u, 1500u);
    for (unsigned sum = 0; sum < 300'000; sum += size)
      RC_ASSERT(link_queue.push(3, flow, {flow, size}, kRoomy));
  }
  auto sent = send_all(link_queue, Time{0});
  for (const Sent& one : sent) {
    if (one.end > std::chrono::milliseconds(600)) break;
    bytes[one.slot] += one.bytes;
  }
  for (const auto& [flow, sum] : bytes) RC_ASSERT(std::abs(sum - 200'000) <= 2 * 1500.0);
}

// S4: a queue takes what it has room for, and no more; each flow has its own.
TEST(LinkQueue, S4_TailDropPerFlow) {
  LinkQueue link_queue(1e6);
  EXPECT_TRUE(link_queue.push(0, 1, {0, 1000}, 2500));
  EXPECT_TRUE(link_queue.push(0, 1, {1, 1000}, 2500));
  EXPECT_FALSE(link_queue.push(0, 1, {2, 1000}, 2500));
  EXPECT_TRUE(link_queue.push(0, 1, {3, 500}, 2500));
  EXPECT_TRUE(link_queue.push(0, 2, {4, 1000}, 2500));
  EXPECT_EQ(send_all(link_queue, Time{0}).size(), 4u);
}

// S5: a change of rate holds for the rest of what is under way.
TEST(LinkQueue, S5_TheRateChangesUnderWay) {
  LinkQueue link_queue(1000.0);
  ASSERT_TRUE(link_queue.push(0, 0, {0, 1000}, kRoomy));
  EXPECT_EQ(link_queue.start(Time{0}), std::chrono::seconds(1));
  // 250 of 1000 bytes are through; the others take 3 s at 250 bytes/s, none without a limit.
  EXPECT_EQ(link_queue.set_rate(250.0, std::chrono::milliseconds(250)),
            std::chrono::milliseconds(3250));
  EXPECT_EQ(link_queue.set_rate({}, std::chrono::milliseconds(300)),
            std::chrono::milliseconds(300));
  link_queue.finish();
  EXPECT_EQ(link_queue.set_rate(1000.0, std::chrono::milliseconds(400)), std::nullopt);
}

// Lower effort stands behind what is unmarked; the two bits of ECN say nothing about the class.
TEST(LinkQueue, ClassesGoByTheirMarks) {
  EXPECT_EQ(service_class_of(1 << 2), 0u);
  EXPECT_EQ(service_class_of(1 << 2 | 3), 0u);
  EXPECT_EQ(service_class_of(0), 1u);
  EXPECT_EQ(service_class_of(3), 1u);
  EXPECT_EQ(service_class_of(8 << 2), 2u);   // CS1
  EXPECT_EQ(service_class_of(46 << 2), 6u);  // expedited forwarding, as CS5
  EXPECT_EQ(service_class_of(56 << 2), kClasses - 1);
}

}  // namespace
}  // namespace longhaul::sim
