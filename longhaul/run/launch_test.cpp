#include "longhaul/run/launch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

namespace longhaul::run {
namespace {

constexpr ChildExit exited(int code) { return {code, 0}; }
constexpr ChildExit killed{0, SIGKILL};

int code_of(std::vector<ChildExit> ends) {
  const int code = exit_code(ends, false);
  std::reverse(ends.begin(), ends.end());
  EXPECT_EQ(exit_code(ends, false), code) << "in the other order";
  return code;
}

TEST(Launch, EndsAsItsNodesDid) {
  EXPECT_EQ(code_of({exited(0), exited(0)}), 0);
  EXPECT_EQ(code_of({exited(0), exited(1)}), 1);
  EXPECT_EQ(code_of({exited(0), killed}), 0) << "the others went on without it";
  EXPECT_EQ(code_of({exited(1), exited(3)}), 1);
  EXPECT_EQ(code_of({exited(3), killed}), 3);
  EXPECT_EQ(code_of({killed, killed}), 3);
  EXPECT_EQ(code_of({exited(130), killed}), 3) << "asked to end by somebody else";
  EXPECT_EQ(code_of({exited(3), exited(2)}), 2);
  EXPECT_EQ(code_of({exited(130), exited(4), exited(3)}), 4);
  EXPECT_EQ(code_of({exited(0), exited(4)}), 4);
  EXPECT_EQ(exit_code(std::vector{exited(0), exited(4)}, true), 130);
}

}  // namespace
}  // namespace longhaul::run
