#include "longhaul/lab/server.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

namespace longhaul::lab {
namespace {

constexpr std::uint64_t kRoomy = 1u << 30;

struct Sent {
  std::uint32_t slot, bytes;
  Time begin, end;
};

// Sends all that waits, one item after the other.
std::vector<Sent> drain(Server& server, Time now) {
  std::vector<Sent> sent;
  while (const auto end = server.start(now)) {
    const Server::Item item = server.finish();
    sent.push_back({item.slot, item.bytes, now, *end});
    now = *end;
  }
  return sent;
}

// S1: a busy link is exact: after any number of items it has taken their bytes / rate, to within a
// nanosecond.
RC_GTEST_PROP(Server, S1_TakesItsBytesOverItsRate, ()) {
  const double rate = *rc::gen::inRange(1000, 200'000'000);
  const auto sizes =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<unsigned>>(rc::gen::inRange(20u, 1500u)));
  Server server(rate);
  double bytes = 0;
  for (int repeat = 0; repeat < 50; ++repeat)
    for (const unsigned size : sizes) {
      RC_ASSERT(server.push(0, 0, {0, size}, kRoomy));
      bytes += size;
    }
  const Time end = drain(server, Time{0}).back().end;
  RC_ASSERT(std::abs(double(end.count()) - bytes * 1e9 / rate) <= 1.0);
}

// S2: what waits of a higher class goes first, and a class serves a flow in order.
RC_GTEST_PROP(Server, S2_StrictPriorityAndOrderOfAFlow, ()) {
  struct Given {
    unsigned service_class;
    std::uint64_t flow;
  };
  std::vector<Given> given;
  Server server(1e6);
  for (std::uint32_t i = 0; i < 60; ++i) {
    given.push_back({*rc::gen::inRange(0u, kClasses), *rc::gen::inRange<std::uint64_t>(0, 4)});
    const unsigned bytes = *rc::gen::inRange(20u, 1500u);
    RC_ASSERT(server.push(given[i].service_class, given[i].flow, {i, bytes}, kRoomy));
  }
  const auto sent = drain(server, Time{0});
  RC_ASSERT(sent.size() == given.size());
  RC_ASSERT(server.empty());
  for (std::size_t i = 0; i < sent.size(); ++i)
    for (std::size_t j = i + 1; j < sent.size(); ++j) {
      const Given &first = given[sent[i].slot], &second = given[sent[j].slot];
      RC_ASSERT(first.service_class >= second.service_class);
      if (first.service_class == second.service_class && first.flow == second.flow)
        RC_ASSERT(sent[i].slot < sent[j].slot);
    }
}

// S3: flows of a class that always wait get equal bytes, whatever the sizes of their packets.
RC_GTEST_PROP(Server, S3_FlowsThatWaitShareEvenly, ()) {
  Server server(1e6);
  std::map<std::uint32_t, double> bytes;
  for (std::uint32_t flow = 0; flow < 3; ++flow) {
    const unsigned size = flow == 0 ? 1500 : *rc::gen::inRange(100u, 1500u);
    for (unsigned sum = 0; sum < 300'000; sum += size)
      RC_ASSERT(server.push(3, flow, {flow, size}, kRoomy));
  }
  auto sent = drain(server, Time{0});
  for (const Sent& one : sent) {
    if (one.end > std::chrono::milliseconds(600)) break;
    bytes[one.slot] += one.bytes;
  }
  for (const auto& [flow, sum] : bytes) RC_ASSERT(std::abs(sum - 200'000) <= 2 * 1500.0);
}

// S4: a queue takes what it has room for, and no more; each flow has its own.
TEST(Server, S4_TailDropPerFlow) {
  Server server(1e6);
  EXPECT_TRUE(server.push(0, 1, {0, 1000}, 2500));
  EXPECT_TRUE(server.push(0, 1, {1, 1000}, 2500));
  EXPECT_FALSE(server.push(0, 1, {2, 1000}, 2500));
  EXPECT_TRUE(server.push(0, 1, {3, 500}, 2500));
  EXPECT_TRUE(server.push(0, 2, {4, 1000}, 2500));
  EXPECT_EQ(drain(server, Time{0}).size(), 4u);
}

// S5: a change of rate holds for the rest of what is under way.
TEST(Server, S5_TheRateChangesUnderWay) {
  Server server(1000.0);
  ASSERT_TRUE(server.push(0, 0, {0, 1000}, kRoomy));
  EXPECT_EQ(server.start(Time{0}), std::chrono::seconds(1));
  // 250 of 1000 bytes are through; the others take 3 s at 250 bytes/s, none without a limit.
  EXPECT_EQ(server.set_rate(250.0, std::chrono::milliseconds(250)),
            std::chrono::milliseconds(3250));
  EXPECT_EQ(server.set_rate({}, std::chrono::milliseconds(300)), std::chrono::milliseconds(300));
  server.finish();
  EXPECT_EQ(server.set_rate(1000.0, std::chrono::milliseconds(400)), std::nullopt);
}

}  // namespace
}  // namespace longhaul::lab
