#pragma once
#include <string>
#include <variant>

#include "longhaul/core/message.h"
#include "longhaul/core/work.h"

namespace longhaul {

// All that a node can do to the world, as plain data: a test compares it, a trace prints it.
struct Send {
  Rank to = 0;
  Message message;
  Service service;
};
struct SetTimer {  // replaces an earlier one of the same machine and id
  Path machine;
  TimerId id{};
  Time at{0};
};
struct CancelTimer {
  Path machine;
  TimerId id{};
};
struct ComputeStep {  // one step; the host answers with Node::stepped, once
  Work work;
};
struct Report {  // score this model, off the clock; the host answers with Node::scored, once
  Round round = 0;
  Snapshot model;  // nullptr: the learner's parameters as they stand (phantoms: nothing to score)
};
struct Record {  // a figure for metrics: "late", "staleness", "train_loss" ...
  std::string name;
  Round round = 0;
  double value = 0;
};
// What must survive a crash: one more record of this node's log, written in the order of their
// numbers. The host answers with Node::stored once this record and all before it are durable; it
// may write several at once. After a crash the log is a beginning of what was appended, at least
// all that was answered; its last record may be torn.
struct Append {
  std::uint64_t number = 0;  // from 1, without gaps; after a restart it goes on from the log's end
  Bytes record;
};
// An answer to a client of this node, who asked by Node::requested.
struct Reply {
  std::uint64_t client = 0;
  Bytes answer;
  bool last = false;  // the client gets no more
};
struct Finish {};  // this node has nothing more to do; serve() ends when all are here
struct Fail {      // the run cannot go on. Kinds: a peer is unavailable; not_finite: it diverged
  Error error;
};
using Action = std::variant<Send, SetTimer, CancelTimer, ComputeStep, Report, Record, Finish, Fail,
                            Append, Reply>;

}  // namespace longhaul
