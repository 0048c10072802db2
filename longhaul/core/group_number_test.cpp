#include "longhaul/core/group_number.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

TEST(GroupNumber, NamesTheViewThatTheGroupWasMadeIn) {
  for (const Epoch made : {0u, 1u, 63u, 64u, 65u, 1000u})
    for (const Epoch later : {0u, 1u, 63u})
      for (const std::uint64_t group : {std::uint64_t{0}, std::uint64_t{7}, ~std::uint64_t{0}}) {
        const std::uint32_t number = group_number(made, group);
        EXPECT_NE(number, 0u);
        EXPECT_EQ(epoch_of_group(number, made + later), made);
      }
}

TEST(GroupNumber, DiffersFromGroupToGroup) {
  EXPECT_NE(group_number(3, 5), group_number(3, 6));
  EXPECT_NE(group_number(3, 5), group_number(4, 5));
  EXPECT_EQ(group_number(3, 5), group_number(3 + kGroupEpochs, 5 + kGroupsOfAnEpoch));
}

// A peer may say any number: of a view to come there is none.
TEST(GroupNumber, OfNoViewYetIsOfTheFirst) { EXPECT_EQ(epoch_of_group(group_number(9, 1), 3), 0u); }

}  // namespace
}  // namespace longhaul
