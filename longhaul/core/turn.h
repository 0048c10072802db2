#pragma once
// A Turn is one activation of a node's machines: one input in, any number of actions out. It is a
// light handle; turn.child(i) is the same turn from the view of the machine's child number i.
#include <map>
#include <span>
#include <string>
#include <vector>

#include "longhaul/base/rng.h"
#include "longhaul/core/action.h"
#include "longhaul/core/learner.h"
#include "longhaul/core/place.h"

namespace longhaul {

class Machine;

// Bulk messages that the host holds and has not yet put on the wire, per peer and class.
class Credits {
 public:
  static constexpr std::uint8_t kPerClass = 2;
  unsigned room(Rank peer, const Service& s) const {
    auto it = held_.find({peer, s.service_class()});
    return it == held_.end() ? kPerClass : unsigned(kPerClass - it->second);
  }
  void take(Rank peer, const Service& s) { ++held_[{peer, s.service_class()}]; }
  void give(Rank peer, unsigned service_class) {
    auto it = held_.find({peer, service_class});
    if (it == held_.end()) return;  // the peer was forgotten meanwhile
    LH_CHECK(it->second > 0);
    if (--it->second == 0) held_.erase(it);
  }

  void forget(Rank peer) {
    std::erase_if(held_, [&](const auto& entry) { return entry.first.first == peer; });
  }

  void state(Archive& ar) { ar(held_); }

 private:
  std::map<std::pair<Rank, unsigned>, std::uint8_t> held_;
};

// Data that all handles of one turn share; owned by the Node.
struct TurnContext {
  Time now{0};
  const Place* place = nullptr;
  const View* view = nullptr;
  Learner* learner = nullptr;  // nullptr: a node without a learner (a server)
  bool busy = false;           // the learner is between two step boundaries
  bool working = false;        // steps of a compute() are left
  Credits* credits = nullptr;
  std::vector<Action> actions = {};
  // Requests of compute() and stop_computing(); the Node carries them out after the turn.
  std::vector<std::pair<Work, std::uint32_t>> wanted = {};
  bool stop_computing = false;
};

class Turn {
 public:
  explicit Turn(TurnContext& context) : context_(&context) {}
  Turn child(unsigned index) const {
    Turn turn = *this;
    turn.path_ = path_.child(index);
    return turn;
  }

  Time now() const { return context_->now; }
  const Place& place() const { return *context_->place; }
  Rank self() const { return context_->place->self; }
  const View& view() const { return *context_->view; }
  Path path() const { return path_; }
  // Equal on all nodes and in all hosts for equal arguments.
  Random random(Purpose purpose, Round round, std::uint32_t origin, std::uint32_t range = 0) const {
    return Random(context_->place->seed, Stream{purpose, round, origin, range});
  }

  // The learner's vectors. Valid only at step boundaries, while it does not compute.
  bool learner_is_busy() const { return context_->busy; }
  bool has_learner() const { return context_->learner != nullptr; }
  std::span<float> params() {
    LH_CHECK(context_->learner && !context_->busy);
    return context_->learner->params();
  }

  std::span<float> grads() {
    LH_CHECK(context_->learner && !context_->busy);
    return context_->learner->grads();
  }

  // Returns the bulk messages that can be sent to `to` in this class now; on_writable reports more
  // room.
  unsigned room(Rank to, Service service = {}) const {
    return to == self() ? Credits::kPerClass : context_->credits->room(to, service);
  }
  // Sends a message. Bulk needs room(). A message to the own node arrives in the next turn, at no
  // cost.
  void send(Rank to, Message message, Service service = {}) {
    LH_CHECK(to < place().size());
    message.machine = path_;
    message.epoch = view().epoch;
    if (message.is_bulk() && to != self()) {
      LH_CHECK(room(to, service) > 0);
      context_->credits->take(to, service);
    }
    act(Send{to, std::move(message), service});
  }

  // Sends `fields`. A number that its receiver would refuse as too large has grown without bound:
  // the run then fails as diverged, and nothing is sent.
  template <MessageStruct M>
  void send(Rank to, const M& fields, Payload body = {}, Service service = {}) {
    if (const auto number = number_out_of_range(fields); !number.empty())
      return diverge(std::string(M::kName) + ": " + std::string(number));
    Message message;
    message.kind = M::kKind;
    message.head = Payload(share(to_wire(fields)));
    message.body = std::move(body);
    send(to, std::move(message), service);
  }
  // Sets a timer of the machine `of`, whichever machine's turn this is; `of` receives on_timer().
  inline void set_timer(const Machine& of, TimerId id, Time at);
  inline void cancel_timer(const Machine& of, TimerId id);

  // Starts `steps` steps of the work. Every boundary calls Strategy::on_step; the last one then
  // calls on_computed. One compute at a time.
  void compute(Work work, std::uint32_t steps = 1) {
    LH_CHECK(context_->learner && steps > 0);
    LH_CHECK(!context_->busy && !context_->working && context_->wanted.empty());
    context_->wanted.emplace_back(std::move(work), steps);
  }

  // Ends the running compute at the next boundary (in on_step: at this one).
  void stop_computing() { context_->stop_computing = true; }
  void report(Round round, Snapshot model) { act(Report{round, std::move(model)}); }

  void record(std::string name, Round round, double value) {
    act(Record{std::move(name), round, value});
  }

  void append(std::uint64_t number, Buffer record) {
    act(Append{number, share(std::move(record))});
  }

  void reply(std::uint64_t client, Buffer answer, bool last) {
    act(Reply{client, share(std::move(answer)), last});
  }

  void finish() { act(Finish{}); }
  void fail(Error error) { act(Fail{std::move(error)}); }
  void fail(std::string reason) { fail(unavailable(std::move(reason))); }
  // Fails the run: `what` is not finite or would leave this node without a bound.
  void diverge(std::string_view what) {
    fail(not_finite("site " + place().me().site + " (rank " + std::to_string(self()) +
                    "): " + std::string(what) +
                    " has grown too large to be sent; training has diverged: "
                    "lower its rate, or make its steps shorter"));
  }

 private:
  void act(Action action) { context_->actions.push_back(std::move(action)); }

  TurnContext* context_;
  Path path_;
};

inline RankList live_workers(const Turn& turn) {
  return live_with(Role::worker, turn.place(), turn.view());
}
inline bool is_senior(const Turn& turn) {
  return senior_worker(turn.place(), turn.view()) == turn.self();
}

}  // namespace longhaul
