#pragma once
#include <string>
#include <variant>

#include "longhaul/core/message.h"
#include "longhaul/core/work.h"

namespace longhaul {

// Actions of a node on the outside world, as plain data: a test compares them, a trace prints them.
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
  Snapshot model;  // nullptr: the learner's current parameters (phantom jobs: nothing to score)
};
struct Record {  // a figure for metrics: "late", "staleness", "train_loss" ...
  std::string name;
  Round round = 0;
  double value = 0;
};
// A record of this node's durable log. Records are written in the order of their numbers. The host
// answers with Node::stored once this record and all before it are durable; it may write several at
// once. After a crash the log is a prefix of the appended records with at least all answered ones;
// its last record may be torn.
struct Append {
  std::uint64_t number = 0;  // from 1, without gaps; continues from the log's end after a restart
  Bytes record;
};
// An answer to a client of this node that called Node::requested.
struct Reply {
  std::uint64_t client = 0;
  Bytes answer;
  bool last = false;  // no more answers follow
};
struct Finish {};  // this node has no more work; serve() ends when all nodes have finished
struct Fail {      // the run cannot continue. Kinds: a peer is unavailable; not_finite: it diverged
  Error error;
};
using Action = std::variant<Send, SetTimer, CancelTimer, ComputeStep, Report, Record, Finish, Fail,
                            Append, Reply>;

}  // namespace longhaul
