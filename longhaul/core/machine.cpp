#include "longhaul/core/machine.h"

#include <algorithm>

namespace longhaul {

Status Machine::on_message(Rank, const Message& message, Turn&) {
  return malformed("unknown kind of message: " + std::to_string(message.kind));
}

void Machine::own(Machine& child, ChildName name) {
  for (const Child& other : children_)
    LH_CHECK(other.number != name.number && other.name != name.name);  // each its own
  LH_CHECK(!child.owner_);
  child.owner_ = this;
  child.number_ = name.number;
  children_.push_back({name.number, name.name, &child});
}

const Machine::Child* Machine::find(unsigned number) const {
  const auto it = std::ranges::find(children_, number, &Child::number);
  return it == children_.end() ? nullptr : &*it;
}

Turn Machine::within(const Machine& child, const Turn& turn) const {
  const auto it = std::ranges::find(children_, &child, &Child::machine);
  LH_CHECK(it != children_.end());
  return turn.child(it->number);
}

Status Machine::feed_message(Rank from, const Message& message, Path way, Turn turn) {
  if (way.empty()) return on_message(from, message, turn);
  const Child* child = find(way.head());
  if (!child) return malformed("a message for a machine that is not here");
  Status status =
      child->machine->feed_message(from, message, way.tail(), turn.child(child->number));
  on_progress(turn);
  return status;
}

void Machine::feed_timer(Path way, TimerId id, Turn turn) {
  if (way.empty()) return on_timer(id, turn);
  const Child* child = find(way.head());
  LH_CHECK(child);
  child->machine->feed_timer(way.tail(), id, turn.child(child->number));
  on_progress(turn);
}

void Machine::archive(Archive& ar) {
  state(ar);
  for (const Child& child : children_) child.machine->archive(ar);
}

}  // namespace longhaul
