#include "longhaul/base/print.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace longhaul {
namespace {

enum class Reason : std::uint8_t { none, lost };

struct Verdict {
  std::uint64_t round = 3;
  bool stop = true;
  Reason reason = Reason::lost;
  std::string who = "rank 2";
  std::vector<std::uint32_t> members = {1, 2};
  LONGHAUL_FIELDS(round, stop, reason, who, members)
};

TEST(Print, IsOneLineWithEveryField) {
  EXPECT_EQ(print(Verdict{}), "{round=3 stop=true reason=1 who='rank 2' members=[1 2]}");
}

TEST(Print, CutsLongLists) {
  EXPECT_EQ(print(std::vector<int>(10, 5)), "[5 5 5 5 5 5 5 5 ... of 10]");
}

}  // namespace
}  // namespace longhaul
