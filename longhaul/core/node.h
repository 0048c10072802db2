#pragma once
// A Node is one process of the job: membership, the finish barrier and the strategy, fed by a Host
// (core/host.h) and answering to it. One thread.
//
// What the Node itself does, the same in all hosts: messages to oneself arrive in the next turn;
// messages of nodes outside the view, or of new processes that are not let in, are dropped;
// messages of a view this node has not reached yet wait for it; compute() is taken step by step;
// room() is counted.
#include <memory>

#include "longhaul/base/queue.h"
#include "longhaul/core/finish_barrier.h"
#include "longhaul/core/host.h"
#include "longhaul/core/membership.h"
#include "longhaul/core/score_sum.h"
#include "longhaul/core/strategy.h"
#include "longhaul/core/tap.h"

namespace longhaul {

class Node final {
 public:
  // `learner` is nullptr for a node without one; it and the host outlive the node.
  Node(Place place, std::unique_ptr<Strategy> strategy, Learner* learner, Host& host);
  ~Node();

  // Before start(), of a node that comes back: what the process before has kept (Host::keep).
  Status remember(Time now, const Bytes& kept);
  void start(Time now);
  // The step asked for by Host::compute is done.
  void stepped(Time now, const StepResult&);
  // An Error: the peer broke the protocol; the message had no effect. The host says so and goes on.
  Status deliver(Time now, Rank from, const Message&);
  void timer(Time now, Path machine, TimerId);
  // A bulk message of this class has left the host's queue.
  void writable(Time now, Rank peer, unsigned service_class);
  void scored(Time now, Round, const Evaluation&);
  // The host has lost touch with the peer, or has it again. Only membership decides what follows.
  void unreachable(Time now, Rank peer, bool unreachable);
  // A new process of a peer asks to be let in, and the one before it has ended.
  void returned(Time now, Rank peer);
  // Items of the node's own source, requests of its users, records that are durable (core/input.h).
  void arrived(Time now, std::vector<Item>);
  void requested(Time now, std::uint64_t client, const Bytes& request);
  void stored(Time now, std::uint64_t number);
  // Any of these, as data.
  Status feed(Time now, const Input&);

  // From the next input on; nullptr: nobody listens. Outlives the node or is taken off.
  void tap(Tap* tap) { tap_ = tap; }

  static bool is_of_membership(const Message&);
  const Place& place() const { return place_; }
  const View& view() const { return membership_->view(); }
  Strategy& strategy() { return *strategy_; }
  const Strategy& strategy() const { return *strategy_; }
  bool finished() const { return finished_; }
  bool excluded() const { return membership_->excluded(); }  // the others have declared it lost
  bool has_quorum() const { return membership_->has_quorum(); }
  bool outside() const { return membership_->outside(); }  // it is not let in yet
  // What the workers have said that their models are worth; where sites have tests of their own.
  const ScoreSum& scores() const { return *scores_; }
  // This node has nothing left to do but to serve those that have not finished. Relays and state
  // servers have not from the beginning.
  bool at_end() const { return ends_; }
  bool computing() const { return busy_; }  // the learner is between two step boundaries
  // Whom and what this node waits for, for the user: "round 7: parts of ranks 2 5".
  std::string waiting_for() const;
  std::uint64_t dropped() const { return dropped_; }
  // Everything but the learner and what the host holds.
  void state(Archive&);

 private:
  struct Held {
    Rank from = 0;
    Message message;
    void state(auto& archive) { archive(from, message); }
  };
  class Root;

  void heard(Time now, auto&& make);
  void answered(const Status&);
  void input(Time now, auto&& make, auto&& enter);
  void strategy_input(Time now, auto&& make, auto&& enter);
  bool leaves(const Action&) const;
  void take_turn(Time now, auto&& enter);
  void one_turn(Time now, auto&& enter);
  void end_turn(TurnContext&);
  void follow_view(TurnContext&);
  void give_sums(TurnContext&);
  void arrive(TurnContext&);
  void carry(TurnContext&);
  Error with_tensor(Error, const TurnContext&) const;
  Status take_message(Time now, Rank from, const Message&);
  Status route(Rank from, const Message&, TurnContext&);

  Place place_;
  std::unique_ptr<Membership> membership_;
  std::unique_ptr<FinishBarrier> barrier_;
  std::unique_ptr<ScoreSum> scores_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<Root> root_;
  Learner* learner_;
  Host& host_;
  Tap* tap_ = nullptr;

  View view_;  // the last one the machines were told of
  Credits credits_;
  bool busy_ = false;
  bool ends_ = false;         // the strategy has finished
  bool last_report_ = false;  // of its model, which is scored at the end
  bool finished_ = false;
  Work work_;  // of the running compute()
  std::uint32_t steps_left_ = 0;
  bool stop_wanted_ = false;
  Computed computed_;
  Queue<Held> to_self_;  // empty between turns
  Queue<Held> early_;    // of views to come; bounded
  std::uint64_t dropped_ = 0;
};

}  // namespace longhaul
