#include "longhaul/core/node.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/archived.h"
#include "longhaul/core/testing/message_of.h"
#include "longhaul/core/testing/quadratic.h"

namespace longhaul {
namespace {

using testing::Quadratic;
using namespace std::chrono_literals;

struct Note {
  LONGHAUL_MESSAGE(1, "note");
  std::uint32_t number = 0;
  static void fields(auto& self, auto&& visit) { LONGHAUL_FIELD(number, .max = 1000); }
};

constexpr std::uint32_t kStop = 99;  // the number of a note that stops the computing

// Does what the test tells it to, and writes down what it is told.
class Scripted final : public Strategy {
 public:
  std::function<void(Turn&)> start, step, computed;
  std::vector<std::string> log;
  bool asks_for_params_while_busy = false;

  void on_start(Turn& turn) override {
    if (start) start(turn);
  }
  void on_step(const StepResult&, Turn& turn) override {
    log.push_back("step");
    turn.params();
    if (step) step(turn);
  }
  void on_computed(const Computed& c, Turn& turn) override {
    log.push_back("computed " + std::to_string(c.steps));
    if (computed) computed(turn);
  }
  Status on_message(Rank from, const Message& message, Turn& turn) override {
    if (asks_for_params_while_busy) turn.params();
    return dispatch(MessageList<Note>{}, message, [&](const Note& note) -> Status {
      log.push_back("note " + std::to_string(note.number) + " of " + std::to_string(from));
      if (note.number == kStop) turn.stop_computing();
      return Ok{};
    });
  }
  void on_writable(Rank peer, Turn&) override { log.push_back("writable " + std::to_string(peer)); }
  void on_view(const View&, Turn& turn) override {
    log.push_back("view " + std::to_string(turn.view().epoch));
  }
  Round rounds_done() const override { return 0; }
  std::string waiting_for() const override { return ""; }
  void state(Archive& ar) override { ar(log); }
};

class FakeHost final : public Host {
 public:
  void send(Rank, Send a) override { sends.push_back(std::move(a)); }
  void set_timer(Rank, const SetTimer&) override {}
  void cancel_timer(Rank, const CancelTimer&) override {}
  void compute(Rank, ComputeStep) override { ++computes; }
  void report(Rank, Report) override {}
  void record(Rank, const Record&) override {}
  void finish(Rank) override { ++finishes; }
  void fail(Rank, const Error& error) override { failure = error.what; }
  std::vector<Send> sends;
  int computes = 0, finishes = 0;
  std::string failure;
};

struct NodeTest : ::testing::Test {
  NodeTest() {
    auto owned = std::make_unique<Scripted>();
    script = owned.get();
    node = std::make_unique<Node>(place(), std::move(owned), &learner, host);
  }
  static Place place() {
    Place p;
    p.members = std::make_shared<const Members>(Members{{"a"}, {"b"}, {"c"}});
    p.layout = Layout::flat(4);
    return p;
  }
  static Message note(std::uint32_t number, Epoch epoch = 0) {
    Message m;
    m.machine = Path().child(2);  // the strategy
    m.kind = Note::kKind;
    m.epoch = epoch;
    m.head = Payload(share(to_wire(Note{number})));
    return m;
  }
  static Message decided(Epoch epoch, std::vector<Rank> live) {
    Message m;
    m.machine = Path().child(0);  // membership
    m.kind = Membership::Decided::kKind;
    m.head = Payload(share(to_wire(Membership::Decided{epoch, std::move(live)})));
    return m;
  }
  Quadratic learner{4, {}};
  FakeHost host;
  Scripted* script;
  std::unique_ptr<Node> node;
};
using NodeDeathTest = NodeTest;

TEST_F(NodeTest, ComputesStepByStepAndTellsAtTheLast) {
  script->start = [](Turn& t) { t.compute(LocalStep{}, 3); };
  node->start(0s);
  EXPECT_EQ(host.computes, 1);
  for (int i = 0; i < 3; ++i) node->stepped(1s, {.samples = 2});
  EXPECT_EQ(host.computes, 3);
  EXPECT_EQ(script->log, (std::vector<std::string>{"step", "step", "step", "computed 3"}));
}

TEST_F(NodeTest, StopsComputingAtTheNextBoundary) {
  script->start = [](Turn& t) { t.compute(LocalStep{}, 100); };
  node->start(0s);
  node->stepped(1s, {});
  ASSERT_TRUE(node->deliver(1s, 1, note(kStop)));  // in the middle of the second step
  EXPECT_EQ(script->log.back(), "note 99 of 1");
  node->stepped(2s, {});
  EXPECT_EQ(script->log.back(), "computed 2");
  EXPECT_EQ(host.computes, 2);

  script->computed = [](Turn& t) { t.compute(LocalStep{}, 100); };
  script->start = [](Turn& t) { t.compute(LocalStep{}, 2); };
  node->start(3s);
  script->step = [](Turn& t) { t.stop_computing(); };  // at a boundary: it is the last one
  node->stepped(4s, {});
  EXPECT_EQ(script->log.back(), "computed 1");
  EXPECT_EQ(host.computes, 4) << "and what follows it is not stopped";
}

TEST_F(NodeTest, AMessageToOneselfArrivesInTheNextTurnAndNeverReachesTheHost) {
  script->start = [&](Turn& t) {
    t.send(t.self(), Note{7});
    EXPECT_TRUE(script->log.empty());
  };
  node->start(0s);
  EXPECT_EQ(script->log, std::vector<std::string>{"note 7 of 0"});
  EXPECT_TRUE(host.sends.empty());
}

TEST_F(NodeDeathTest, ParametersBelongToTheLearnerBetweenBoundaries) {
  script->start = [](Turn& t) { t.compute(LocalStep{}); };
  node->start(0s);
  script->asks_for_params_while_busy = true;
  EXPECT_DEATH((void)node->deliver(1s, 1, note(1)), "check failed");
}

TEST_F(NodeTest, TheHostHoldsTwoBulkMessagesPerPeerAndClass) {
  script->start = [](Turn& t) {
    EXPECT_EQ(t.room(1), 2u);
    t.send(1, Note{1}, Payload::phantom(100));
    t.send(1, Note{2}, Payload::phantom(100));
    t.send(1, Note{3});  // control needs no room
    EXPECT_EQ(t.room(1), 0u);
    EXPECT_EQ(t.room(2), 2u);
    EXPECT_EQ(t.room(1, {.priority = 5}), 2u);
  };
  node->start(0s);
  node->writable(1s, 1, Service{}.service_class());
  EXPECT_EQ(script->log, std::vector<std::string>{"writable 1"});
  script->start = [](Turn& t) { EXPECT_EQ(t.room(1), 1u); };
  node->start(2s);
}

TEST_F(NodeDeathTest, BulkWithoutRoomIsOurBug) {
  script->start = [](Turn& t) {
    for (std::uint32_t i = 0; i < 3; ++i) t.send(1, Note{i}, Payload::phantom(100));
  };
  EXPECT_DEATH(node->start(0s), "check failed");
}

TEST_F(NodeTest, AMessageOfAViewToComeWaitsForIt) {
  ASSERT_TRUE(node->deliver(1s, 1, note(5, 1)));
  EXPECT_TRUE(script->log.empty());
  ASSERT_TRUE(node->deliver(2s, 1, decided(1, {0, 1})));
  EXPECT_EQ(script->log, (std::vector<std::string>{"view 1", "note 5 of 1"}));
}

TEST_F(NodeTest, AMessageOfALaterViewWaitsOn) {
  ASSERT_TRUE(node->deliver(1s, 1, note(5, 2)));
  ASSERT_TRUE(node->deliver(2s, 1, decided(1, {0, 1, 2})));
  EXPECT_EQ(script->log, std::vector<std::string>{"view 1"});
  ASSERT_TRUE(node->deliver(3s, 1, decided(2, {0, 1})));
  EXPECT_EQ(script->log, (std::vector<std::string>{"view 1", "view 2", "note 5 of 1"}));
}

// By bytes too; and no peer has less room for what another has sent.
TEST_F(NodeTest, KeepsALimitedNumberOfMessagesOfViewsToComeFromEach) {
  Message large = note(5, 9);
  large.body = Payload(share(Buffer(1 << 20)));
  std::size_t kept = 0;
  while (kept < 1000 && node->deliver(1s, 1, large)) ++kept;
  EXPECT_EQ(kept, 16u) << "16 MiB, and as much as the model needs";
  std::size_t small = 0;
  while (small < 100'000 && node->deliver(1s, 2, note(5, 9))) ++small;
  EXPECT_EQ(small, std::size_t{1} << 16);
  ASSERT_TRUE(node->deliver(2s, 1, decided(1, {0, 1, 2})));
  EXPECT_FALSE(node->deliver(3s, 1, large)) << "they wait on";
}

TEST_F(NodeTest, SaysThatItWaitsForItsLearner) {
  script->start = [](Turn& t) { t.compute(LocalStep{}, 1); };
  node->start(0s);
  EXPECT_EQ(node->waiting_for(), "its learner");
  node->stepped(1s, {});
  EXPECT_NE(node->waiting_for(), "its learner");
}

TEST_F(NodeTest, WhoIsNotInTheViewIsNotHeard) {
  ASSERT_TRUE(node->deliver(1s, 1, decided(1, {0, 1})));
  ASSERT_TRUE(node->deliver(2s, 2, note(5)));
  EXPECT_EQ(script->log, std::vector<std::string>{"view 1"});
  EXPECT_EQ(node->dropped(), 1u);
}

TEST_F(NodeTest, AnythingElseIsAnErrorOfThePeer) {
  EXPECT_FALSE(node->deliver(0s, 9, note(1)));
  EXPECT_FALSE(node->deliver(0s, 1, note(2000)));
  Message m = note(1);
  m.kind = 77;
  EXPECT_FALSE(node->deliver(0s, 1, m));
  m = note(1);
  m.machine = Path().child(2).child(3);
  EXPECT_FALSE(node->deliver(0s, 1, m));
  m.machine = Path();
  EXPECT_FALSE(node->deliver(0s, 1, m));
  EXPECT_TRUE(script->log.empty());
}

TEST_F(NodeTest, FinishWaitsForAllMembers) {
  script->start = [](Turn& t) { t.finish(); };
  node->start(0s);
  EXPECT_EQ(host.finishes, 0);
  for (Rank rank : {1u, 2u}) {
    Message m = longhaul::testing::message_of(FinishBarrier::Done{0});
    m.machine = Path().child(1);
    ASSERT_TRUE(node->deliver(1s, rank, m));
  }
  EXPECT_EQ(host.finishes, 1);
  EXPECT_TRUE(node->finished());
}

TEST_F(NodeTest, SavedAndLoadedItGoesOn) {
  script->start = [](Turn& t) {
    t.compute(LocalStep{}, 2);
    t.send(1, Note{1}, Payload::phantom(10));
  };
  node->start(0s);
  ASSERT_TRUE(node->deliver(1s, 1, note(5, 1)));  // held for view 1
  const Buffer bytes = longhaul::testing::saved(*node);
  auto owned = std::make_unique<Scripted>();
  Scripted* loaded = owned.get();
  Node other(place(), std::move(owned), &learner, host);
  Archive in(bytes);
  other.state(in);
  ASSERT_TRUE(in.finish());
  other.stepped(2s, {});
  other.stepped(3s, {});
  EXPECT_EQ(loaded->log.back(), "computed 2");
  ASSERT_TRUE(other.deliver(4s, 2, decided(1, {0, 1})));
  EXPECT_EQ(loaded->log.back(), "note 5 of 1");
}

TEST(Path, LeadsDownAndBack) {
  const Path path = Path().child(2).child(0).child(14);
  EXPECT_EQ(path.head(), 2u);
  EXPECT_EQ(path.tail().head(), 0u);
  EXPECT_EQ(path.tail().tail().head(), 14u);
  EXPECT_TRUE(path.tail().tail().tail().empty());
}

}  // namespace
}  // namespace longhaul
