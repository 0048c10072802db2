#pragma once
#include "longhaul/core/action.h"
#include "longhaul/core/place.h"

namespace longhaul {

// A Host carries out a node's actions: sim::World or net::EventLoop. It is the only interface
// between the deterministic half of the system and the rest. It calls the Node (core/node.h) from
// one thread. It holds at most Credits::kPerClass bulk messages per peer and class, and calls
// Node::writable when one is on the wire.
class Host {
 public:
  virtual ~Host() = default;
  virtual void send(Rank from, Send) = 0;
  virtual void set_timer(Rank node, const SetTimer&) = 0;
  virtual void cancel_timer(Rank node, const CancelTimer&) = 0;
  virtual void compute(Rank node, ComputeStep) = 0;
  virtual void report(Rank node, Report) = 0;
  virtual void record(Rank node, const Record&) = 0;
  virtual void finish(Rank node) = 0;  // all members are done: the node makes no more calls
  virtual void fail(Rank node, const Error&) = 0;
  // For strategies that index growing data. A host without a disk or users refuses.
  virtual void append(Rank node, const Append&) {
    fail(node, invalid("this host stores no records"));
  }
  virtual void reply(Rank node, const Reply&) { fail(node, invalid("this host serves no users")); }
  // Called on every node if sites have their own test samples (core/score_sum.h). `sum` is the
  // score of a report over all sites, computed by `senior`. Node::scored() receives only the node's
  // own part.
  virtual void summed(Rank node, Rank senior, Round round, const Evaluation& sum) {
    (void)node, (void)senior, (void)round, (void)sum;
  }
  // Keeps the node's votes for its next process (Node::remember) in place of older ones. Messages
  // of membership that follow must not leave before the votes are durable.
  virtual void keep(Rank node, const Buffer& votes) { (void)node, (void)votes; }
  // Changes the node's view. The node may now send to all members; those returned since `before`
  // are new to it.
  virtual void follow(Rank node, const View& before, const View& now) {
    (void)node, (void)before, (void)now;
  }
};

}  // namespace longhaul
