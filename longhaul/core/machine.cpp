#include "longhaul/core/machine.h"

#include <algorithm>

namespace longhaul {

Status Machine::on_message(Rank, const Message& message, Turn&) {
  return malformed("unknown kind of message: " + std::to_string(message.kind));
}

unsigned Machine::own(Machine& child) {
  children_.push_back(&child);
  return unsigned(children_.size() - 1);
}

Turn Machine::within(const Machine& child, const Turn& turn) const {
  const auto it = std::find(children_.begin(), children_.end(), &child);
  LH_CHECK(it != children_.end());
  return turn.child(unsigned(it - children_.begin()));
}

Status Machine::feed_message(Rank from, const Message& message, Path way, Turn turn) {
  if (way.empty()) return on_message(from, message, turn);
  if (way.head() >= children_.size()) return malformed("a message for a machine that is not here");
  Status status =
      children_[way.head()]->feed_message(from, message, way.tail(), turn.child(way.head()));
  on_progress(turn);
  return status;
}

void Machine::feed_timer(Path way, TimerId id, Turn turn) {
  if (way.empty()) return on_timer(id, turn);
  LH_CHECK(way.head() < children_.size());
  children_[way.head()]->feed_timer(way.tail(), id, turn.child(way.head()));
  on_progress(turn);
}

void Machine::archive(Archive& ar) {
  state(ar);
  for (Machine* child : children_) child->archive(ar);
}

}  // namespace longhaul
