#pragma once
// A Machine is a piece of protocol: fed inputs by method call, it answers with actions in the turn.
// It has no clock, thread, socket, file or random device. Machines are made of machines: a parent
// own()s its children, whose messages and timers are routed to them, and is told by
// on_progress() after any of them took an input.
//
// Threads: one node's machines are called from one thread, one call at a time.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/turn.h"

namespace longhaul {

// The name of a child: its number is a step of the Path of its messages and timers, so it stays
// what it is whoever else is owned. The machine that owns the child declares both, once; a class
// and its base class share one set of names.
struct ChildName {
  std::uint8_t number;  // 0 to 14
  std::string_view name;
};

// A turn as a child sees it, as the argument of one call: channel.send(..., within(channel, turn)).
class ChildTurn {
 public:
  explicit ChildTurn(const Turn& turn) : turn_(turn) {}
  operator Turn&() { return turn_; }

 private:
  Turn turn_;
};

class Machine {
 public:
  virtual ~Machine() = default;
  Machine() = default;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // --- what a machine may answer to -------------------------------------------------------------
  virtual void on_start(Turn&) {}
  // An Error means that the peer broke the protocol: counted, told to the user, the message
  // dropped.
  virtual Status on_message(Rank, const Message& message, Turn&) {
    return malformed("unknown kind of message: " + std::to_string(message.kind));
  }

  virtual void on_timer(TimerId, Turn&) {}
  // The host took bulk for this peer off its queue: Turn::room() has grown.
  virtual void on_writable(Rank, Turn&) {}
  // A new view; turn.view() is it already. `before` is the one it follows.
  virtual void on_view(const View& before, Turn&) { (void)before; }
  // The host scored the model reported for this round.
  virtual void on_scored(Round, const Evaluation&, Turn&) {}
  // After any input to a descendant: look at the children, bottom up.
  virtual void on_progress(Turn&) {}
  // This machine's own state, without its children's.
  virtual void state(Archive&) {}

  // --- feeding a tree; called by whoever holds its root, with the root's turn -------------------
  Status feed_message(Rank from, const Message& message, Path way, Turn turn) {
    if (way.empty()) return on_message(from, message, turn);
    const Child* child = find(way.head());
    if (!child) return malformed("a message for a machine that is not here");
    Status status =
        child->machine->feed_message(from, message, way.tail(), turn.child(child->number));
    on_progress(turn);
    return status;
  }

  void feed_timer(Path way, TimerId id, Turn turn) {
    if (way.empty()) return on_timer(id, turn);
    const Child* child = find(way.head());
    LH_CHECK(child);
    child->machine->feed_timer(way.tail(), id, turn.child(child->number));
    on_progress(turn);
  }

  // void(Machine&, Turn&), parents first
  void feed_all(auto&& input, Turn turn) {
    input(*this, turn);
    for (const Child& child : children_) child.machine->feed_all(input, turn.child(child.number));
    if (!children_.empty()) on_progress(turn);
  }
  void archive(Archive& ar) {
    state(ar);
    for (const Child& child : children_) child.machine->archive(ar);
  }

  // From the root of its tree to it: where its timers are filed.
  Path way() const { return owner_ ? owner_->way().child(number_) : Path(); }
  // "channel", "tuned/updates": the names on the way to a descendant; without those of only
  // children.
  std::string name_of(Path way) const {
    if (way.empty()) return "";
    const Child* child = find(way.head());
    if (!child) return "";
    const std::string below = child->machine->name_of(way.tail());
    const bool is_joined = !child->name.empty() && !below.empty();
    return std::string(child->name) + (is_joined ? "/" : "") + below;
  }

 protected:
  // The machine stays the owner of the object, which must live as long as it does. A child of two
  // machines, or two children of one name or number, fail a check. Inputs reach children in the
  // order in which they were owned.
  void own(Machine& child, ChildName name) {
    for (const Child& other : children_)
      LH_CHECK(other.number != name.number && other.name != name.name);  // each its own
    LH_CHECK(!child.owner_);
    child.owner_ = this;
    child.number_ = name.number;
    children_.push_back({name.number, name.name, &child});
  }

  // Of a machine with one child alone.
  void own(Machine& only_child) { own(only_child, {0, ""}); }
  // The same turn, as the owned child sees it: for calling the child directly.
  ChildTurn within(const Machine& child, const Turn& turn) const {
    const auto it = std::ranges::find(children_, &child, &Child::machine);
    LH_CHECK(it != children_.end());
    return ChildTurn(turn.child(it->number));
  }

 private:
  struct Child {
    unsigned number;
    std::string_view name;
    Machine* machine;
  };
  const Child* find(unsigned number) const {
    const auto it = std::ranges::find(children_, number, &Child::number);
    return it == children_.end() ? nullptr : &*it;
  }

  std::vector<Child> children_;
  const Machine* owner_ = nullptr;  // null: the root
  std::uint8_t number_ = 0;         // at its owner
};

inline void Turn::set_timer(const Machine& of, TimerId id, Time at) {
  act(SetTimer{of.way(), id, at});
}
inline void Turn::cancel_timer(const Machine& of, TimerId id) { act(CancelTimer{of.way(), id}); }

}  // namespace longhaul
