#pragma once
// A Machine is a piece of protocol: fed inputs by method call, it answers with actions in the turn.
// It has no clock, thread, socket, file or random device. Machines are made of machines: a parent
// own()s its children, whose messages and timers are routed to them, and is told by
// on_progress() after any of them took an input.
//
// Threads: one node's machines are called from one thread, one call at a time.
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/turn.h"

namespace longhaul {

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
  virtual Status on_message(Rank from, const Message&, Turn&);
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

  // --- feeding a tree; called by whoever holds its root, with the root's turn
  // ----------------------
  Status feed_message(Rank from, const Message&, Path way, Turn turn);
  void feed_timer(Path way, TimerId, Turn turn);
  template <class Input>  // void(Machine&, Turn&), parents first
  void feed_all(Input&& input, Turn turn) {
    input(*this, turn);
    for (std::size_t i = 0; i < children_.size(); ++i)
      children_[i]->feed_all(input, turn.child(unsigned(i)));
    if (!children_.empty()) on_progress(turn);
  }
  void archive(Archive&);

 protected:
  // The child's index is the number of children owned before it; the machine stays the owner of
  // the object, which must live as long as it does.
  unsigned own(Machine& child);
  // The same turn, as the owned child sees it: for calling the child directly.
  Turn within(const Machine& child, const Turn& turn) const;

 private:
  std::vector<Machine*> children_;
};

}  // namespace longhaul
