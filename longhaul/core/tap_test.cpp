#include "longhaul/core/tap.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/core/node.h"
#include "longhaul/core/testing/message_of.h"
#include "longhaul/core/testing/quadratic.h"

namespace longhaul {
namespace {

using testing::Quadratic;
using namespace std::chrono_literals;

struct CountedPing {
  LONGHAUL_MESSAGE(1, "ping");
  std::uint32_t number = 0;
  static void fields(auto& self, auto&& visit) { LONGHAUL_FIELD(number, .max = 1000); }
};

// Answers every input with actions of another kind.
class Busy final : public Strategy {
 public:
  void on_start(Turn& turn) override {
    turn.send(turn.self(), CountedPing{1});  // arrives in a turn of its own
    turn.report(3, nullptr);
    turn.compute(LocalStep{}, 2);
  }
  void on_step(const StepResult& result, Turn& turn) override {
    turn.record("loss", 0, result.loss);
    turn.params()[0] = 77;
  }
  Status on_message(Rank, const Message& message, Turn& turn) override {
    return dispatch(MessageList<CountedPing>{}, message, [&](const CountedPing& ping) -> Status {
      turn.send(1, CountedPing{ping.number + 1});
      return Ok{};
    });
  }
  void on_timer(TimerId, Turn& turn) override { turn.finish(); }
  void on_writable(Rank, Turn& turn) override { turn.set_timer(*this, TimerId{4}, 9s); }
  void on_scored(Round, const Evaluation&, Turn& turn) override {
    turn.cancel_timer(*this, TimerId{4});
  }
  Round rounds_done() const override { return 0; }
  std::string waiting_for() const override { return ""; }
};

class DeafHost final : public Host {
 public:
  void send(Rank, Send) override { ++calls; }
  void set_timer(Rank, const SetTimer&) override { ++calls; }
  void cancel_timer(Rank, const CancelTimer&) override { ++calls; }
  void compute(Rank, ComputeStep) override { ++calls; }
  void report(Rank, Report) override { ++calls; }
  void record(Rank, const Record&) override { ++calls; }
  void finish(Rank) override { ++calls; }
  void fail(Rank, const Error&) override { ++calls; }
  std::size_t calls = 0;
};

struct Listener final : Tap {
  void input(Time now, const Input& in, Node& node, Learner* learner) override {
    log += "(" + std::to_string(in.index()) + "@" + std::to_string(now / 1s);
    was_computing.push_back(node.computing());
    if (learner && std::holds_alternative<Stepped>(in)) seen = learner->params()[0];
    inputs.push_back({now, in});
  }
  void action(const Action& action, Learner* idle) override {
    log += " " + std::to_string(action.index()) + (idle ? "i" : "");
    ++actions;
  }
  void answered(const Status& status) override { log += status ? ")" : "!)"; }
  std::string log;
  std::vector<bool> was_computing;
  std::vector<std::pair<Time, Input>> inputs;
  std::size_t actions = 0;
  float seen = 0;
};

Place place(Rank nodes) {
  Place p;
  Members members;
  for (Rank rank = 0; rank < nodes; ++rank) members.push_back({"s" + std::to_string(rank)});
  p.members = std::make_shared<const Members>(members);
  p.layout = Layout::flat(4);
  return p;
}

Message ping(std::uint32_t number) {
  Message m = longhaul::testing::message_of(CountedPing{number});
  m.machine = Path().child(2);
  return m;
}

struct TapTest : ::testing::Test {
  Quadratic learner{4, {}};
  DeafHost host;
  Node node{place(2), std::make_unique<Busy>(), &learner, host};
  Listener tap;

  void feed_all() {
    node.start(0s);
    node.stepped(1s, {.loss = 0.5});
    node.writable(2s, 1, 4);
    node.scored(3s, 3, {});
    EXPECT_TRUE(node.deliver(4s, 1, ping(5)));
    EXPECT_FALSE(node.deliver(5s, 1, ping(2000)));
    node.timer(6s, Path().child(2), TimerId{4});
    node.unreachable(7s, 1, true);
  }
};

// Indices: of Input in "(0@", of Action after it; "i": the learner is idle.
TEST_F(TapTest, HearsEveryInputAndEveryActionInOrder) {
  node.tap(&tap);
  feed_all();
  EXPECT_EQ(tap.log,
            "(0@0 4i 3i 0)"  // a message to itself was answered in a turn of its own
            "(1@1 5i 3i)(4@2 1)(5@3 2)(2@4 0)(2@5!)(3@6)(6@7 1)");
  EXPECT_EQ(tap.actions, host.calls) << "all that the host was told, and nothing else";
}

TEST_F(TapTest, ListensBeforeTheNodeChangesAnything) {
  node.tap(&tap);
  learner.params()[0] = 12;
  node.start(0s);
  node.stepped(1s, {});
  EXPECT_EQ(tap.was_computing, (std::vector<bool>{false, true}));
  EXPECT_EQ(tap.seen, 12);
  EXPECT_EQ(learner.params()[0], 77) << "then the strategy had its turn";
}

TEST(Tap, HearsTheEnd) {
  DeafHost host;
  Listener tap;
  Node node(place(1), std::make_unique<Busy>(), nullptr, host);
  node.tap(&tap);
  node.timer(1s, Path().child(2), TimerId{4});
  EXPECT_EQ(tap.log, "(3@1 6)");
}

// What is said after a step was asked for, in the same turn, is said while the learner computes.
TEST(Tap, NobodyLooksAtALearnerThatComputes) {
  class Ends final : public Strategy {
   public:
    void on_start(Turn& turn) override {
      turn.compute(LocalStep{});
      turn.finish();
    }
    Round rounds_done() const override { return 0; }
    std::string waiting_for() const override { return ""; }
  };
  DeafHost host;
  Listener tap;
  Quadratic learner{4, {}};
  Place second = place(2);
  second.self = 1;
  Node node(second, std::make_unique<Ends>(), &learner, host);
  node.tap(&tap);
  node.start(0s);
  EXPECT_EQ(tap.log, "(0@0 3i 0)") << "the step, then the word to the barrier";
}

TEST_F(TapTest, TakenOffItHearsNothing) {
  node.tap(&tap);
  node.start(0s);
  node.tap(nullptr);
  node.stepped(1s, {});
  EXPECT_EQ(tap.inputs.size(), 1u);
}

// What was heard, written down, read back and fed again does the same.
TEST_F(TapTest, InputsAreDataThatCanBeFedAgain) {
  node.tap(&tap);
  feed_all();
  Quadratic again_learner{4, {}};
  Node again{place(2), std::make_unique<Busy>(), &again_learner, host};
  Listener second;
  again.tap(&second);
  for (auto& [now, input] : tap.inputs) {
    Archive out;
    archive_input(out, input);
    const Buffer bytes = out.take();
    Archive in(bytes);
    Input read;
    archive_input(in, read);
    ASSERT_TRUE(in.finish());
    Archive once_more;
    archive_input(once_more, read);
    EXPECT_EQ(once_more.take(), bytes);
    (void)again.feed(now, read);
  }
  EXPECT_EQ(second.log, tap.log);
  const auto* departed = good(std::get_if<Departed>(&second.inputs[2].second));
  EXPECT_EQ(departed->service_class, 4u);
  const auto* delivered = good(std::get_if<Delivered>(&second.inputs[4].second));
  EXPECT_EQ(delivered->from, 1u);
}

TEST(ArchiveInput, AllOfEveryKindIsSaved) {
  const auto saved = [](Input input) {
    Archive out;
    archive_input(out, input);
    return out.take();
  };
  const Bytes request = std::make_shared<const Buffer>(3, std::byte{1});
  const std::vector<std::pair<Input, Input>> filled_and_empty = {
      {Stepped{{.loss = 2}}, Stepped{}},
      {Delivered{1, ping(7)}, Delivered{0, ping(7)}},
      {TimerFired{Path().child(2), TimerId{3}}, TimerFired{}},
      {Departed{1, 2}, Departed{}},
      {Scored{1, {.loss = 2}}, Scored{}},
      {Reachability{0, true}, Reachability{}},
      {Returned{1}, Returned{}},
      {Arrived{{Item{1, 2, Time{3}, {4}}}}, Arrived{}},
      {Requested{1, request}, Requested{}},
      {Stored{1}, Stored{}},
      {Remembered{request}, Remembered{}}};
  for (const auto& [filled, empty] : filled_and_empty) {
    const Buffer bytes = saved(filled);
    EXPECT_NE(bytes, saved(empty)) << filled.index();
    Archive in(bytes);
    Input read;
    archive_input(in, read);
    EXPECT_TRUE(in.finish()) << filled.index();
    EXPECT_EQ(saved(read), bytes) << filled.index();
  }
}

TEST(ArchiveInput, AnyBytesAreAnInputOrAnError) {
  Input input = Delivered{1, ping(7)};
  Archive out;
  archive_input(out, input);
  const Buffer whole = out.take();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    Archive in(std::span<const std::byte>(whole).first(size));
    archive_input(in, input);
    EXPECT_FALSE(in.finish()) << size;
  }
  Buffer unknown = whole;
  unknown[0] = std::byte{99};
  Archive in(unknown);
  archive_input(in, input);
  EXPECT_FALSE(in.finish());

  Message headless = ping(7);
  headless.head = Payload::phantom(100);
  input = Delivered{1, headless};
  Archive bad;
  archive_input(bad, input);
  const Buffer bytes = bad.take();
  Archive loaded(bytes);
  archive_input(loaded, input);
  EXPECT_FALSE(loaded.finish());
}

}  // namespace
}  // namespace longhaul
