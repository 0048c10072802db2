#include "longhaul/sim/monotone_queue.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

namespace longhaul::sim {
namespace {

TEST(MonotoneQueue, PopsByTimeAndTiesInOrderOfPushing) {
  MonotoneQueue<int> queue;
  const int times[] = {5, 3, 5, 1, 3, 5, 1, -2};
  for (int i = 0; i < 8; ++i) queue.push(Time{times[i]}, i);
  std::vector<int> order;
  while (!queue.empty()) {
    const Time first = queue.first();
    const auto entry = queue.pop();
    EXPECT_EQ(entry.at, first);
    order.push_back(entry.event);
  }
  EXPECT_EQ(order, (std::vector{7, 3, 6, 1, 4, 0, 2, 5}));
}

// Words: bits 0-1 pop or push, the rest how much later than the last pop. The queue is saved and
// loaded in between.
RC_GTEST_PROP(MonotoneQueue, AgreesWithAnOrderedMap, (const std::vector<std::uint32_t>& script)) {
  MonotoneQueue<std::uint64_t> queue;
  std::map<std::pair<Time, std::uint64_t>, std::uint64_t> model;
  std::uint64_t pushes = 0;
  Time last{0};
  for (const std::uint32_t word : script) {
    if (word % 4 != 0 || model.empty()) {
      const Time at = last + Time{(word >> 2) >> (word % 29)};
      queue.push(at, pushes);
      model.emplace(std::pair(at, pushes), pushes);
      ++pushes;
    } else {
      RC_ASSERT(queue.first() == model.begin()->first.first);
      const auto entry = queue.pop();
      last = entry.at;
      RC_ASSERT(std::pair(entry.at, entry.event) == model.begin()->first);
      model.erase(model.begin());
    }
    RC_ASSERT(queue.size() == model.size());
    if (word % 7 != 0) continue;
    Archive save;
    queue.state(save);
    const Buffer bytes = save.take();
    Archive load(bytes);
    queue.state(load);
    RC_ASSERT(bool(load.finish()));
  }
  std::uint64_t visited = 0;
  queue.for_each([&](const auto&) { ++visited; });
  RC_ASSERT(visited == model.size());
  for (; !model.empty(); model.erase(model.begin()))
    RC_ASSERT(queue.pop().event == model.begin()->second);
  RC_ASSERT(queue.empty());
}

TEST(MonotoneQueue, AnEventOfThePastInAnArchiveIsRefused) {
  MonotoneQueue<int> queue;
  Archive save;
  Time last{10};
  std::vector<MonotoneQueue<int>::Entry> entries = {{Time{9}, 1}};
  save(last, entries);
  const Buffer bytes = save.take();
  Archive load(bytes);
  queue.state(load);
  EXPECT_FALSE(load.finish());
}

}  // namespace
}  // namespace longhaul::sim
