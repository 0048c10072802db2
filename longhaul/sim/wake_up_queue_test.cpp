#include "longhaul/sim/wake_up_queue.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace longhaul::sim {
namespace {

RC_GTEST_PROP(WakeUpQueue, AgreeWithASearch, (const std::vector<std::uint16_t>& script)) {
  WakeUpQueue wakes;
  std::vector<Time> model;
  RC_ASSERT(wakes.first() == WakeUpQueue::kNever);
  for (const std::uint16_t word : script) {
    const Time at = word % 7 == 0 ? WakeUpQueue::kNever : Time{word / 64 % 16};
    if (word % 3 == 0 || model.empty()) {
      wakes.add(at);
      model.push_back(at);
    } else {
      const std::size_t i = word / 256 % model.size();
      model[i] = at;
      if (word % 2 == 0) {
        wakes.set(i, at);
      } else {
        wakes.set_later(i, at);
        wakes.rebuild();
      }
    }
    const auto least = std::min_element(model.begin(), model.end());
    RC_ASSERT(wakes.first() == *least);
    RC_ASSERT(*least == WakeUpQueue::kNever || wakes.who() == std::size_t(least - model.begin()));
  }
}

}  // namespace
}  // namespace longhaul::sim
