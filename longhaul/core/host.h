#pragma once
#include "longhaul/core/action.h"
#include "longhaul/core/place.h"

namespace longhaul {

// A Host carries out a node's actions: sim::World or net::EventLoop. The one seam between the
// deterministic half of the system and the rest. It feeds the Node (core/node.h) from one thread
// and holds no bulk queue of its own: at most Credits::kPerClass messages per peer and class, each
// answered by Node::writable once it is on the wire.
class Host {
 public:
  virtual ~Host() = default;
  virtual void send(Rank from, Send) = 0;
  virtual void set_timer(Rank node, const SetTimer&) = 0;
  virtual void cancel_timer(Rank node, const CancelTimer&) = 0;
  virtual void compute(Rank node, ComputeStep) = 0;
  virtual void report(Rank node, Report) = 0;
  virtual void record(Rank node, const Record&) = 0;
  virtual void finish(Rank node) = 0;  // all members are done: the node will say nothing more
  virtual void fail(Rank node, const Error&) = 0;
  // Of strategies that index growing data. A host without a disk or users refuses.
  virtual void append(Rank node, const Append&) {
    fail(node, invalid("this host stores no records"));
  }
  virtual void reply(Rank node, const Reply&) { fail(node, invalid("this host serves no users")); }
  // Where sites have test samples of their own (core/score_sum.h): the sum over all sites of what a
  // report is worth, which `senior` has made. Every node hears it; what Node::scored() was told is
  // its own part.
  virtual void summed(Rank node, Rank senior, Round round, const Evaluation& sum) {
    (void)node, (void)senior, (void)round, (void)sum;
  }
  // Keeps the node's votes for its next process (Node::remember) in place of older ones. Messages
  // of membership that follow must not leave before the votes are durable.
  virtual void keep(Rank node, const Buffer& votes) { (void)node, (void)votes; }
  // The node goes by another view from now on, and may speak to all in it: those who have come
  // back since `before` are new to it.
  virtual void follow(Rank node, const View& before, const View& now) {
    (void)node, (void)before, (void)now;
  }
};

}  // namespace longhaul
