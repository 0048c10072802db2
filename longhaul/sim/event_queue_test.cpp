#include "longhaul/sim/event_queue.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

namespace longhaul::sim {
namespace {

TEST(EventQueue, PopsByTimeAndTiesInOrderOfPushing) {
  EventQueue<int> queue;
  const int times[] = {5, 3, 5, 1, 3, 5, 1};
  for (int i = 0; i < 7; ++i) queue.push(Time{times[i]}, i);
  std::vector<int> order;
  while (!queue.empty()) order.push_back(queue.pop().event);
  EXPECT_EQ(order, (std::vector{3, 6, 1, 4, 0, 2, 5}));
}

RC_GTEST_PROP(EventQueue, AgreesWithAnOrderedMap, (const std::vector<std::uint8_t>& script)) {
  EventQueue<std::uint64_t> queue;
  std::map<std::pair<Time, std::uint64_t>, std::uint64_t> model;
  for (const std::uint8_t word : script) {
    if (word % 3 != 0 || model.empty()) {
      const std::uint64_t sequence = queue.push(Time{word / 16}, word);
      model.emplace(std::pair(Time{word / 16}, sequence), word);
    } else {
      const auto entry = queue.pop();
      RC_ASSERT(std::pair(entry.at, entry.sequence) == model.begin()->first);
      RC_ASSERT(entry.event == model.begin()->second);
      model.erase(model.begin());
    }
    RC_ASSERT(queue.size() == model.size());
  }
}

TEST(EventQueue, AnArchivedQueueGoesOn) {
  EventQueue<int> queue, loaded;
  for (int i = 0; i < 100; ++i) queue.push(Time{i * 37 % 11}, i);
  for (int i = 0; i < 40; ++i) queue.pop();
  Archive save;
  queue.state(save);
  const Buffer bytes = save.take();
  Archive load(bytes);
  loaded.state(load);
  ASSERT_TRUE(load.finish());
  EXPECT_EQ(loaded.push(Time{3}, 1000), queue.push(Time{3}, 1000));
  while (!queue.empty()) EXPECT_EQ(loaded.pop().event, queue.pop().event);
  EXPECT_TRUE(loaded.empty());
}

}  // namespace
}  // namespace longhaul::sim
