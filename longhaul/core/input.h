#pragma once
// The inputs of a node as plain data: one struct for each method that a host calls on it
// (core/node.h). With them a run can be recorded and replayed.
#include <variant>

#include "longhaul/core/learner.h"
#include "longhaul/core/message.h"

namespace longhaul {

struct Started {};
struct Stepped {
  StepResult result;
};
struct Delivered {
  Rank from = 0;
  Message message;
};
struct TimerFired {
  Path machine;
  TimerId id{};
};
struct Departed {  // Node::writable
  Rank peer = 0;
  std::uint32_t service_class = 0;
};
struct Scored {
  Round round = 0;
  Evaluation evaluation;
};
struct Reachability {  // Node::unreachable
  Rank peer = 0;
  bool unreachable = false;
};
struct Returned {  // Node::returned
  Rank peer = 0;
};
struct Arrived {  // items of this node's own source
  std::vector<Item> items;
};
struct Requested {  // a user of this node asks; nothing: the user is gone, or wants no more
  std::uint64_t client = 0;
  Bytes request;
};
struct Stored {  // appended records up to this number are durable
  std::uint64_t number = 0;
};
struct Remembered {  // Node::remember
  Bytes votes;
};
using Input = std::variant<Started, Stepped, Delivered, TimerFired, Departed, Scored, Reachability,
                           Returned, Arrived, Requested, Stored, Remembered>;

// Any bytes load as an input or fail the archive.
void archive_input(Archive&, Input&);

}  // namespace longhaul
