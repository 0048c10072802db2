#include "longhaul/sim/testing/checker.h"

#include <gmock/gmock.h>

#include "longhaul/sim/testing/small_job.h"

namespace longhaul::sim {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

Message message(int kind) {
  Message m;
  m.machine = Path().child(2).child(0);
  m.kind = std::uint16_t(kind);
  m.body = Payload(share(Buffer(8, std::byte{7})));
  return m;
}
Send send(int kind) { return {.to = 1, .message = message(kind), .service = {}}; }
Packet packet_of(int kind) { return {0, 1, 48, {}, message(kind)}; }

// A world that has not begun, for after().
class Checkers : public ::testing::Test {
 protected:
  testing::RunningJob job_{testing::SmallJob{.ranks = 2}};
  OrderChecker in_order_;
  std::string verdict() {
    const Status status = in_order_.after(job_.world(), 0);
    return status ? "" : status.error().what;
  }
};

TEST_F(Checkers, MessagesInOrderPass) {
  for (const int kind : {1, 2, 3}) in_order_.acted(0s, 0, send(kind));
  for (const int kind : {1, 2, 3}) in_order_.delivering(1s, packet_of(kind));
  EXPECT_EQ(verdict(), "");
}

TEST_F(Checkers, ALaterMessageFirstIsFound) {
  for (const int kind : {1, 2}) in_order_.acted(0s, 0, send(kind));
  in_order_.delivering(1s, packet_of(2));
  EXPECT_THAT(verdict(), HasSubstr("from rank 0 to rank 1 out of order"));
}

TEST_F(Checkers, AMessageTwiceIsFound) {
  in_order_.acted(0s, 0, send(1));
  in_order_.delivering(1s, packet_of(1));
  EXPECT_EQ(verdict(), "");
  in_order_.delivering(2s, packet_of(1));
  EXPECT_THAT(verdict(), HasSubstr("out of order"));
}

TEST_F(Checkers, AMessageToADeadNodeIsFound) {
  in_order_.acted(0s, 0, send(1));
  in_order_.crashed(1s, 1);
  in_order_.delivering(2s, packet_of(1));
  EXPECT_THAT(verdict(), HasSubstr("which is dead"));
}

TEST(TraceHash, EveryFieldCounts) {
  const auto hash = [](const auto& feed) {
    TraceHash trace;
    feed(trace);
    return trace.value();
  };
  Service urgent{.priority = 7};
  const std::set<std::uint64_t> hashes = {
      hash([](TraceHash&) {}),
      hash([](TraceHash& t) { t.acted(0s, 0, send(1)); }),
      hash([](TraceHash& t) { t.acted(1ns, 0, send(1)); }),
      hash([](TraceHash& t) { t.acted(0s, 1, send(1)); }),
      hash([](TraceHash& t) { t.acted(0s, 0, send(2)); }),
      hash([&](TraceHash& t) {
        t.acted(0s, 0, Send{1, message(1), urgent});
      }),
      hash([](TraceHash& t) {
        t.acted(0s, 0, SetTimer{Path(), TimerId{1}, 5s});
      }),
      hash([](TraceHash& t) {
        t.acted(0s, 0, SetTimer{Path(), TimerId{1}, 6s});
      }),
      hash([](TraceHash& t) { t.acted(0s, 0, ComputeStep{LocalStep{}}); }),
      hash([](TraceHash& t) { t.acted(0s, 0, ComputeStep{Gradient{}}); }),
      hash([](TraceHash& t) {
        t.acted(0s, 0, Record{"loss", 1, 0.5});
      }),
      hash([](TraceHash& t) {
        t.acted(0s, 0, Record{"loss", 1, 0.25});
      }),
      hash([](TraceHash& t) { t.acted(0s, 0, Fail{unavailable("a")}); }),
      hash([](TraceHash& t) { t.acted(0s, 0, Finish{}); }),
      hash([](TraceHash& t) { t.delivering(0s, packet_of(1)); }),
      hash([](TraceHash& t) { t.crashed(0s, 1); })};
  EXPECT_EQ(hashes.size(), 16u);
}

}  // namespace
}  // namespace longhaul::sim
