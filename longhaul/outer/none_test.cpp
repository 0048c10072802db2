// Invariants: no value changes, nothing is saved.
#include "longhaul/outer/optimisers.h"

#include <vector>

#include <gtest/gtest.h>

#include "longhaul/base/testing/archived.h"

namespace longhaul::outer {
namespace {

TEST(None, LeavesTheUpdateAndHasNoState) {
  None none{NoneConfig{}};
  std::vector<float> update = {1.f, -2.f};
  none.apply(update);
  EXPECT_EQ(update, (std::vector<float>{1.f, -2.f}));
  EXPECT_TRUE(longhaul::testing::saved(none).empty());
}

}  // namespace
}  // namespace longhaul::outer
