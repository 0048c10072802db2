#pragma once
// A Machine is a piece of protocol. Its inputs are method calls, and its outputs are actions in the
// turn. It has no clock, thread, socket, file or random device. Machines form trees: a parent
// own()s its children, receives none of their messages and timers, and gets on_progress() after
// each input to one of them.
//
// Threads: one node's machines are called from one thread, one call at a time.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/turn.h"

namespace longhaul {

// The name of a child. Its number is a step of the Path of its messages and timers, so it must not
// depend on other children. The owner declares both, once; a class and its base class share one set
// of names.
struct ChildName {
  std::uint8_t number;  // 0 to 14
  std::string_view name;
};

// A turn from the view of a child, as the argument of one call: channel.send(..., within(channel,
// turn)).
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

  // --- inputs that a machine can override -------------------------------------------------------
  virtual void on_start(Turn&) {}
  // Called with a message. An Error means that the peer broke the protocol: it is counted and
  // reported to the user, and the message is dropped.
  virtual Status on_message(Rank, const Message& message, Turn&) {
    return malformed("unknown kind of message: " + std::to_string(message.kind));
  }

  virtual void on_timer(TimerId, Turn&) {}
  // Called when the host has sent bulk for this peer: Turn::room() has grown.
  virtual void on_writable(Rank, Turn&) {}
  // Called with a new view, which turn.view() already returns. `before`: the previous view.
  virtual void on_view(const View& before, Turn&) { (void)before; }
  // Called when the host has scored the model reported for this round.
  virtual void on_scored(Round, const Evaluation&, Turn&) {}
  // Called after any input to a descendant, bottom up, to look at the children.
  virtual void on_progress(Turn&) {}
  // Saves or loads this machine's own state, without its children's.
  virtual void state(Archive&) {}

  // --- inputs to a tree; called by the owner of its root, with the root's turn ------------------
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

  // Calls `input`, a void(Machine&, Turn&), on all machines, parents first.
  void feed_all(auto&& input, Turn turn) {
    input(*this, turn);
    for (const Child& child : children_) child.machine->feed_all(input, turn.child(child.number));
    if (!children_.empty()) on_progress(turn);
  }
  void archive(Archive& ar) {
    state(ar);
    for (const Child& child : children_) child.machine->archive(ar);
  }

  // Returns the path from the root to this machine, under which its timers are stored.
  Path way() const { return owner_ ? owner_->way().child(number_) : Path(); }
  // Returns the names on the path to a descendant: "channel", "tuned/updates"; only children are
  // left out.
  std::string name_of(Path way) const {
    if (way.empty()) return "";
    const Child* child = find(way.head());
    if (!child) return "";
    const std::string below = child->machine->name_of(way.tail());
    const bool is_joined = !child->name.empty() && !below.empty();
    return std::string(child->name) + (is_joined ? "/" : "") + below;
  }

 protected:
  // Adds a child. This machine does not own the object, which must live as long. A child of two
  // machines, or two children with one name or number, fail a check. Inputs reach children in the
  // order of these calls.
  void own(Machine& child, ChildName name) {
    for (const Child& other : children_)
      LH_CHECK(other.number != name.number && other.name != name.name);  // must be unique
    LH_CHECK(!child.owner_);
    child.owner_ = this;
    child.number_ = name.number;
    children_.push_back({name.number, name.name, &child});
  }

  // Adds the only child of a machine.
  void own(Machine& only_child) { own(only_child, {0, ""}); }
  // Returns the same turn from the view of the owned child, for direct calls.
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
  std::uint8_t number_ = 0;         // number at the owner
};

inline void Turn::set_timer(const Machine& of, TimerId id, Time at) {
  act(SetTimer{of.way(), id, at});
}
inline void Turn::cancel_timer(const Machine& of, TimerId id) { act(CancelTimer{of.way(), id}); }

}  // namespace longhaul
