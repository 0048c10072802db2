#pragma once
// A Node is one process of the job: membership, the finish barrier and the strategy. A Host
// (core/host.h) passes its inputs and carries out its actions. One thread.
//
// The Node itself does the following, in the same way in all hosts. It delivers messages to itself
// in the next turn. It drops messages of nodes outside the view, or of new processes that are not
// admitted. It holds messages of a view that it has not reached yet. It takes compute() step by
// step, and counts room().
#include <map>
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
  // `learner`: nullptr if the node has none. Learner and host must outlive the node.
  Node(Place place, std::unique_ptr<Strategy> strategy, Learner* learner, Host& host);
  ~Node();

  // Takes what the previous process has kept (Host::keep). Must be called before start(), on a
  // returned node only.
  Status remember(Time now, const Bytes& kept);
  void start(Time now);
  // Called when the step of Host::compute is done.
  void stepped(Time now, const StepResult&);
  // Delivers a message. Returns an Error if the peer broke the protocol; the message then had no
  // effect. The host reports the Error and continues.
  Status deliver(Time now, Rank from, const Message&);
  void timer(Time now, Path machine, TimerId);
  // Called when a bulk message of this class has left the host's queue.
  void writable(Time now, Rank peer, unsigned service_class);
  void scored(Time now, Round, const Evaluation&);
  // Called when the host loses or regains contact with the peer. Only membership decides what
  // follows.
  void unreachable(Time now, Rank peer, bool unreachable);
  // Called when a new process of a peer asks for admission and the previous one has ended.
  void returned(Time now, Rank peer);
  // Called with items of the node's own source, requests of its users, and durable records
  // (core/input.h).
  void arrived(Time now, std::vector<Item>);
  void requested(Time now, std::uint64_t client, const Bytes& request);
  void stored(Time now, std::uint64_t number);
  // Passes any of these inputs, as data.
  Status feed(Time now, const Input&);

  // Sets the observer from the next input on; nullptr: none. It must outlive the node or be
  // removed.
  void tap(Tap* tap) { tap_ = tap; }

  static bool is_of_membership(const Message&);
  const Place& place() const { return place_; }
  const View& view() const { return membership_->view(); }
  Strategy& strategy() { return *strategy_; }
  const Strategy& strategy() const { return *strategy_; }
  bool finished() const { return finished_; }
  bool excluded() const { return membership_->excluded(); }  // declared lost by the others
  bool has_quorum() const { return membership_->has_quorum(); }
  bool outside() const { return membership_->outside(); }  // not admitted yet
  // Returns the scores of the workers' models, if sites have their own test samples.
  const ScoreSum& scores() const { return *scores_; }
  // Returns true if this node only serves nodes that have not finished. True from the start for
  // relays and state servers.
  bool at_end() const { return ends_; }
  bool computing() const { return busy_; }  // the learner is between two step boundaries
  // Returns the nodes and messages that this node waits for, for the user: "round 7: parts of ranks
  // 2 5".
  std::string waiting_for() const;
  std::uint64_t dropped() const { return dropped_; }
  // Saves or loads all but the learner and the host's data.
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
  Status hold(Rank from, const Message&);
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

  View view_;  // last view that the machines know
  Credits credits_;
  bool busy_ = false;
  bool ends_ = false;         // the strategy has finished
  bool last_report_ = false;  // last report of the model, scored at the end
  bool finished_ = false;
  Work work_;  // work of the running compute()
  std::uint32_t steps_left_ = 0;
  bool stop_wanted_ = false;
  Computed computed_;
  Queue<Held> to_self_;  // empty between turns
  // Messages of later views, and what each peer has of them here. Each has its own bounds, so that
  // none is refused for what another has sent.
  struct Early {
    std::size_t messages = 0;
    std::uint64_t bytes = 0;
  };
  Queue<Held> early_;
  std::map<Rank, Early> early_of_;
  std::uint64_t dropped_ = 0;
};

}  // namespace longhaul
