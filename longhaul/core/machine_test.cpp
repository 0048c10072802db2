#include "longhaul/core/machine.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

std::vector<std::string> said;

class Named : public Machine {
 public:
  explicit Named(std::string name) : name_(std::move(name)) {}
  void add(Machine& child, ChildName name = {0, "first"}) { own(child, name); }
  Turn inside(const Machine& child, const Turn& turn) { return within(child, turn); }
  Status on_message(Rank from, const Message& m, Turn& turn) override {
    said.push_back(name_ + " message " + std::to_string(m.kind) + " of " + std::to_string(from));
    turn.set_timer(*this, TimerId{m.kind}, Time(5));
    return Ok{};
  }
  void on_timer(TimerId id, Turn&) override {
    said.push_back(name_ + " timer " + std::to_string(unsigned(id)));
  }
  void on_writable(Rank, Turn&) override { said.push_back(name_ + " writable"); }
  void on_progress(Turn&) override { said.push_back(name_ + " progress"); }
  void state(Archive& ar) override { ar(name_); }

 private:
  std::string name_;
};

struct MachineTest : ::testing::Test {
  MachineTest() {
    said.clear();
    left.add(leaf);
    root.add(left);
    root.add(right, {4, "right"});
    place.members = std::make_shared<const Members>(Members{{"a"}, {"b"}});
    context.place = &place;
    context.view = &view;
  }
  Named root{"root"}, left{"left"}, right{"right"}, leaf{"leaf"};
  Place place;
  View view{0, {0, 1}};
  TurnContext context;
};

TEST_F(MachineTest, AMessageGoesDownAndProgressComesUp) {
  Message message;
  message.kind = 3;
  const Path leaf_path = Path().child(0).child(0);
  ASSERT_TRUE(root.feed_message(1, message, leaf_path, Turn(context)));
  EXPECT_EQ(said,
            (std::vector<std::string>{"leaf message 3 of 1", "left progress", "root progress"}));
  const auto& timer = std::get<SetTimer>(context.actions.at(0));
  EXPECT_EQ(timer.machine, leaf_path);
  said.clear();
  root.feed_timer(timer.machine, timer.id, Turn(context));
  EXPECT_EQ(said.front(), "leaf timer 3");
}

// A parent that calls its child gives it the turn that it has.
TEST_F(MachineTest, ATimerIsItsMachinesWhoeversTurnItIs) {
  Turn of_root(context);
  of_root.set_timer(leaf, TimerId{7}, Time(5));
  of_root.cancel_timer(leaf, TimerId{7});
  const auto& timer = std::get<SetTimer>(context.actions.at(0));
  EXPECT_EQ(std::get<CancelTimer>(context.actions.at(1)).machine, timer.machine);
  root.feed_timer(timer.machine, timer.id, of_root);
  EXPECT_EQ(said.front(), "leaf timer 7");
}

TEST_F(MachineTest, AllHearParentsFirst) {
  root.feed_all([](Machine& m, Turn& t) { m.on_writable(1, t); }, Turn(context));
  EXPECT_EQ(said, (std::vector<std::string>{"root writable", "left writable", "leaf writable",
                                            "left progress", "right writable", "root progress"}));
}

// Whoever else is owned.
TEST_F(MachineTest, TheNameOfAChildIsItsStepOfThePath) {
  const Turn at_right = root.inside(right, Turn(context));
  EXPECT_EQ(at_right.path(), Path().child(4));
  Named before("before");
  Named other("other"), same("same");
  other.add(before, {1, "before"});
  other.add(same, {4, "right"});
  EXPECT_EQ(other.inside(same, Turn(context)).path(), at_right.path());
  Message message;
  message.kind = 3;
  EXPECT_TRUE(root.feed_message(1, message, at_right.path(), Turn(context)));
  EXPECT_EQ(said.front(), "right message 3 of 1");
  EXPECT_FALSE(root.feed_message(1, message, Path().child(1), Turn(context)));
}

TEST(MachineDeathTest, TwoChildrenShareNeitherNameNorNumber) {
  Named parent("parent"), first("first"), second("second");
  parent.add(first, {1, "a"});
  EXPECT_DEATH(parent.add(second, {2, "a"}), "check failed");
  EXPECT_DEATH(parent.add(second, {1, "b"}), "check failed");
  Named other("other");
  EXPECT_DEATH(other.add(first, {1, "a"}), "check failed");
}

TEST_F(MachineTest, SendsCarryTheWayOfTheirMachine) {
  Turn turn(context);
  Turn at_leaf = left.inside(leaf, root.inside(left, turn));
  at_leaf.send(1, Message{});
  EXPECT_EQ(std::get<Send>(context.actions.at(0)).message.machine, Path().child(0).child(0));
}

TEST_F(MachineTest, ArchiveWalksTheWholeTree) {
  Archive out;
  root.archive(out);
  const Buffer bytes = out.take();
  Named other_root("?"), other_left("?"), other_right("?"), other_leaf("?");
  other_left.add(other_leaf);
  other_root.add(other_left);
  other_root.add(other_right, {4, "right"});
  Archive in(bytes);
  other_root.archive(in);
  ASSERT_TRUE(in.finish());
  other_root.feed_all([](Machine& m, Turn& t) { m.on_writable(1, t); }, Turn(context));
  EXPECT_EQ(said.at(2), "leaf writable");
}

}  // namespace
}  // namespace longhaul
