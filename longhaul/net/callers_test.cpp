#include "longhaul/net/callers.h"

#include <gtest/gtest.h>

#include <vector>

namespace longhaul::net {
namespace {

using namespace std::chrono_literals;

// A port with its callers, without sockets; the oldest first.
struct Port {
  std::vector<Caller> callers;
  Time now{0};

  // Whether it has a place then.
  bool call(const std::string& host, bool is_member, bool is_silent = true) {
    const Caller next{host, is_member, is_silent, now};
    const auto place = Callers::place_of(next, callers, now);
    if (!place) return false;
    if (*place < callers.size()) callers.erase(callers.begin() + std::ptrdiff_t(*place));
    callers.push_back(next);
    return true;
  }
  std::size_t of(const std::string& host) const {
    std::size_t count = 0;
    for (const Caller& one : callers) count += one.host == host ? 1 : 0;
    return count;
  }
};

TEST(Callers, OneHostTakesFewPlacesAndTheOldestSilentOneGoes) {
  Port port;
  for (int i = 0; i < 1000; ++i) {
    port.now += 5ms;
    EXPECT_TRUE(port.call("stranger", false));
  }
  EXPECT_EQ(port.of("stranger"), Callers::kMostOfOne);
  EXPECT_EQ(port.callers.back().since, port.now) << "the newest is in";
  EXPECT_EQ(port.callers.front().since, port.now - 5ms * (Callers::kMostOfOne - 1));
}

TEST(Callers, StrangersOfManyHostsLeaveRoomForMembers) {
  Port port;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(port.call("stranger " + std::to_string(i), false));
  EXPECT_EQ(port.callers.size(), Callers::kMostStrangers);
  for (std::size_t i = Callers::kMostStrangers; i < Callers::kMost; ++i)
    EXPECT_TRUE(port.call("tokyo", true, false));
  EXPECT_EQ(port.callers.size(), Callers::kMost);
  // A stranger takes a stranger's place, a member that of any silent one.
  EXPECT_TRUE(port.call("another", false));
  EXPECT_EQ(port.of("tokyo"), Callers::kMost - Callers::kMostStrangers);
  EXPECT_TRUE(port.call("lima", true));
  EXPECT_EQ(port.callers.size(), Callers::kMost);
  EXPECT_EQ(port.of("tokyo"), Callers::kMost - Callers::kMostStrangers);
}

// At a member's address the silence alone tells a stranger from the member.
TEST(Callers, WhoSpeaksAtOnceIsNotDisplacedByWhoeverIsSilent) {
  Port port;
  EXPECT_TRUE(port.call("tokyo", true, false));
  for (int i = 0; i < 1000; ++i) {
    port.now += 1ms;
    EXPECT_TRUE(port.call("tokyo", true));
  }
  EXPECT_EQ(port.callers.size(), Callers::kMost);
  EXPECT_FALSE(port.callers.front().is_silent);
}

TEST(Callers, WhoHasSpokenHasItsTimeAndThenMakesRoom) {
  Port port;
  for (std::size_t i = 0; i < Callers::kMostOfOne; ++i)
    EXPECT_TRUE(port.call("stranger", false, false));
  port.now += Callers::kPatience - 1ms;
  EXPECT_FALSE(port.call("stranger", false));
  EXPECT_TRUE(port.call("tokyo", true));
  port.now += 1ms;
  EXPECT_TRUE(port.call("stranger", false));
  EXPECT_EQ(port.of("stranger"), Callers::kMostOfOne);
}

TEST(Callers, AMachineHasOneHostWhateverItsPort) {
  EXPECT_EQ(host_of("10.0.0.7:7000"), host_of("10.0.0.7:7001"));
  EXPECT_NE(host_of("10.0.0.7:7000"), host_of("10.0.0.8:7000"));
  EXPECT_EQ(host_of("[2001:db8::7]:7000"), host_of("[2001:db8::a:8]:9"));
  EXPECT_NE(host_of("[2001:db8::7]:7000"), host_of("[2001:db8:0:1::7]:7000"));
}

}  // namespace
}  // namespace longhaul::net
