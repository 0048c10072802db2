#pragma once
// Writes what happens in a World as text, a line each, for golden transcripts and for reading:
//     0.050000000 1 -> 0 /3 kind 1 epoch 0 head 24 body 64
#include <ostream>

#include "longhaul/sim/watcher.h"

namespace longhaul::sim {

class TextTrace final : public Watcher {
 public:
  explicit TextTrace(std::ostream& out) : out_(out) {}  // must outlive the trace
  void acted(Time, Rank, const Action&) override;
  void delivering(Time, const Packet&) override;
  void crashed(Time, Rank) override;

 private:
  std::ostream& begin(Time, Rank);
  void message(const Message&);
  std::ostream& out_;
};

// "/3/1": the path from the root of a node to a machine.
std::string to_string(Path);

}  // namespace longhaul::sim
