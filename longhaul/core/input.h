#pragma once
// All that can happen to a node, as plain data: one struct for each method by which a host feeds it
// (core/node.h), so that a run can be written down and fed again.
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
using Input =
    std::variant<Started, Stepped, Delivered, TimerFired, Departed, Scored, Reachability, Returned>;

// Any bytes load as an input or fail the archive.
void archive_input(Archive&, Input&);

}  // namespace longhaul
