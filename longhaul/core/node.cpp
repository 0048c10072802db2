#include "longhaul/core/node.h"

#include "longhaul/core/codec.h"

namespace longhaul {
namespace {
// A peer that reaches a view first can send messages before it learns of this node. They are of
// about a round: a model in fp64 with two moments of the optimiser is 24 bytes a value. More
// messages are an error of the peer.
constexpr std::size_t kMostEarly = 1 << 16;
constexpr std::uint64_t kEarlyBytes = 16 << 20, kEarlyBytesPerValue = 32;
constexpr ChildName kMembership{0, "membership"}, kBarrier{1, "finish barrier"},
    kStrategy{2, "strategy"}, kScores = ScoreSum::kName;
}  // namespace

class Node::Root final : public Machine {
 public:
  Root(Membership& membership, FinishBarrier& barrier, Strategy& strategy, ScoreSum& scores) {
    own(membership, kMembership);
    own(barrier, kBarrier);
    own(strategy, kStrategy);
    own(scores, kScores);
  }
};

Node::Node(Place place, std::unique_ptr<Strategy> strategy, Learner* learner, Host& host)
    : place_(std::move(place)),
      membership_(std::make_unique<Membership>(
          place_, strategy->lets_return() ? std::nullopt : std::optional(Membership::kShortWait))),
      barrier_(std::make_unique<FinishBarrier>()),
      scores_(std::make_unique<ScoreSum>()),
      strategy_(std::move(strategy)),
      root_(std::make_unique<Root>(*membership_, *barrier_, *strategy_, *scores_)),
      learner_(learner),
      host_(host),
      view_(membership_->view()) {}

Node::~Node() = default;

// Builds the input for the tap only if there is one.
void Node::heard(Time now, auto&& make) {
  if (tap_) tap_->input(now, make(), *this, learner_);
}

void Node::answered(const Status& status) {
  if (tap_) tap_->answered(status);
}

void Node::input(Time now, auto&& make, auto&& enter) {
  heard(now, make);
  take_turn(now, enter);
  answered(Ok{});
}

void Node::take_turn(Time now, auto&& enter) {
  one_turn(now, enter);
  while (!to_self_.empty()) {  // one turn per message
    const Held held = std::move(to_self_.front());
    to_self_.pop_front();
    one_turn(now, [&](TurnContext& c) { LH_CHECK(route(held.from, held.message, c)); });
  }
}

void Node::one_turn(Time now, auto&& enter) {
  TurnContext context;
  context.now = now;
  context.place = &place_;
  context.view = &view_;
  context.learner = learner_;
  context.busy = busy_;
  context.working = steps_left_ > 0;
  context.credits = &credits_;
  enter(context);
  end_turn(context);
}

void Node::end_turn(TurnContext& context) {
  follow_view(context);
  give_sums(context);
  stop_wanted_ |= context.stop_computing;
  if (!context.wanted.empty()) {
    std::tie(work_, steps_left_) = std::move(context.wanted.front());
    computed_ = {};
    stop_wanted_ = false;
  }
  if (steps_left_ > 0 && !busy_) {
    busy_ = true;
    context.actions.push_back(ComputeStep{work_});
  }
  carry(context);
}

void Node::follow_view(TurnContext& context) {
  while (view_.epoch != membership_->view().epoch) {
    const View before = std::exchange(view_, membership_->view());
    for (Rank rank : before.live)
      if (!view_.has(rank)) credits_.forget(rank);
    host_.follow(place_.self, before, view_);
    if (!view_.has(place_.self)) return;
    root_->feed_all([&](Machine& m, Turn& turn) { m.on_view(before, turn); }, Turn(context));
    early_of_.clear();
    for (Queue<Held> held = std::exchange(early_, {}); !held.empty(); held.pop_front()) {
      if (held.front().message.epoch > view_.epoch) {
        LH_CHECK(hold(held.front().from, held.front().message));
      } else if (view_.has(held.front().from)) {
        // The peer's next message reports its errors; here no caller takes them.
        if (!route(held.front().from, held.front().message, context)) ++dropped_;
      }
    }
  }
}

void Node::give_sums(TurnContext& context) {
  while (const auto sum = scores_->take()) {
    host_.summed(place_.self, sum->senior, sum->round, sum->evaluation);
    root_->feed_all([&](Machine& m, Turn& turn) { m.on_scored(sum->round, sum->evaluation, turn); },
                    Turn(context));
  }
}

// Enters the barrier. If sites have their own tests, this node first sends the score of its model.
void Node::arrive(TurnContext& context) {
  if (!ends_ || barrier_->arrived()) return;
  if (place_.own_tests && learner_ && !scores_->has_said_end()) {
    if (busy_ || std::exchange(last_report_, true)) return;
    Turn(context).report(ScoreSum::kAtEnd, nullptr);
    return;
  }
  Turn turn = Turn(context).child(kBarrier.number);
  barrier_->arrive(turn);
}

// Returns true for actions that the host receives: not messages to the node itself or its barrier.
bool Node::leaves(const Action& action) const {
  const auto* send = std::get_if<Send>(&action);
  return send ? send->to != place_.self : !std::holds_alternative<Finish>(action);
}

// For not_finite: adds the name of the model's first tensor with such a value.
Error Node::with_tensor(Error error, const TurnContext& context) const {
  if (error.kind != Error::Kind::not_finite || !learner_ || context.busy) return error;
  const std::span<const float> params = learner_->params();
  for (const LayerRange& layer : place_.layout->layers())
    if (layer.range.end() <= params.size() && !layer.name.empty() &&
        !all_finite(params.subspan(layer.range.offset, layer.range.length))) {
      error.what += "; the first tensor of its model that is not finite is '" + layer.name + "'";
      break;
    }
  return error;
}

void Node::carry(TurnContext& context) {
  struct Carry {
    Node& node;
    TurnContext& context;
    void operator()(Send& a) const {
      if (a.to == node.place_.self) {
        node.to_self_.push_back({a.to, std::move(a.message)});
      } else {
        node.host_.send(node.place_.self, std::move(a));
      }
    }
    void operator()(SetTimer& a) const { node.host_.set_timer(node.place_.self, a); }
    void operator()(CancelTimer& a) const { node.host_.cancel_timer(node.place_.self, a); }
    void operator()(ComputeStep& a) const { node.host_.compute(node.place_.self, std::move(a)); }
    void operator()(Report& a) const { node.host_.report(node.place_.self, std::move(a)); }
    void operator()(Record& a) const { node.host_.record(node.place_.self, a); }
    void operator()(Append& a) const { node.host_.append(node.place_.self, a); }
    void operator()(Reply& a) const { node.host_.reply(node.place_.self, a); }
    void operator()(Fail& a) const {
      node.host_.fail(node.place_.self, node.with_tensor(std::move(a.error), context));
    }
    void operator()(Finish&) const { node.ends_ = true; }
  };
  if (const auto votes = membership_->take_votes()) host_.keep(place_.self, *votes);
  // The handlers can add actions.
  bool computing = context.busy;
  for (std::size_t i = 0;; ++i) {
    if (i == context.actions.size()) arrive(context);
    if (i == context.actions.size()) break;
    Action action = std::move(context.actions[i]);
    if (tap_ && leaves(action)) tap_->action(action, computing ? nullptr : learner_);
    computing |= std::holds_alternative<ComputeStep>(action);
    std::visit(Carry{*this, context}, action);
  }
  const bool all_scored = !place_.own_tests || scores_->ended(place_, view_);
  if (barrier_->complete() && all_scored && !finished_) {
    finished_ = true;
    membership_->close();
    if (tap_) tap_->action(Finish{}, computing ? nullptr : learner_);
    host_.finish(place_.self);
  }
}

Status Node::remember(Time now, const Bytes& kept) {
  heard(now, [&] { return Remembered{kept}; });
  const Status read = kept ? membership_->remember(*kept) : malformed("no votes");
  answered(read);
  return read;
}

void Node::start(Time now) {
  const auto enter = [&](TurnContext& c) {
    root_->feed_all([](Machine& m, Turn& turn) { m.on_start(turn); }, Turn(c));
  };
  input(
      now, [] { return Started{}; }, enter);
}

void Node::stepped(Time now, const StepResult& result) {
  LH_CHECK(busy_ && steps_left_ > 0);
  heard(now, [&] { return Stepped{result}; });
  busy_ = false;
  --steps_left_;
  computed_.add(result);
  take_turn(now, [&](TurnContext& c) {
    Turn turn = Turn(c).child(kStrategy.number);
    if (trains(work_) && result.samples > 0)
      turn.record("samples_computed", strategy_->rounds_done(), double(result.samples));
    strategy_->on_step(result, turn);
    if (stop_wanted_ || c.stop_computing || steps_left_ == 0) {
      steps_left_ = 0;
      c.working = false;
      stop_wanted_ = c.stop_computing = false;
      strategy_->on_computed(computed_, turn);
    }
    strategy_->on_progress(turn);
  });
  answered(Ok{});
}

Status Node::route(Rank from, const Message& message, TurnContext& context) {
  return root_->feed_message(from, message, message.machine, Turn(context));
}

Status Node::deliver(Time now, Rank from, const Message& message) {
  heard(now, [&] { return Delivered{from, message}; });
  const Status status = take_message(now, from, message);
  answered(status);
  return status;
}

bool Node::is_of_membership(const Message& message) {
  return !message.machine.empty() && message.machine.head() == kMembership.number;
}

Status Node::take_message(Time now, Rank from, const Message& message) {
  if (from >= place_.size()) return malformed("a message of an unknown rank");
  const bool of_membership = is_of_membership(message);
  // Must precede the next check: `from` may return in the later view.
  if (!of_membership && message.epoch > view_.epoch) return hold(from, message);
  if (!of_membership && (!view_.has(from) || membership_->has_ended(from))) {
    ++dropped_;
    return Ok{};
  }
  Status status = Ok{};
  take_turn(now, [&](TurnContext& c) { status = route(from, message, c); });
  return status;
}

// Keeps a message of a view that this node has not reached.
Status Node::hold(Rank from, const Message& message) {
  const std::uint64_t values = place_.layout ? place_.layout->size() : 0;
  const std::uint64_t most = kEarlyBytes + kEarlyBytesPerValue * values;
  const std::uint64_t bytes =
      message.head.size() + (message.body.is_phantom() ? 0 : message.body.size());
  Early& of = early_of_[from];
  if (of.messages >= kMostEarly || of.bytes + bytes > most)
    return malformed("too many messages of a view to come");
  ++of.messages;
  of.bytes += bytes;
  early_.push_back({from, message});
  return Ok{};
}

void Node::timer(Time now, Path machine, TimerId id) {
  const auto enter = [&](TurnContext& c) { root_->feed_timer(machine, id, Turn(c)); };
  input(
      now,
      [&] {
        return TimerFired{machine, id};
      },
      enter);
}

void Node::writable(Time now, Rank peer, unsigned service_class) {
  heard(now, [&] { return Departed{peer, service_class}; });
  credits_.give(peer, service_class);
  if (view_.has(peer)) {
    take_turn(now, [&](TurnContext& c) {
      root_->feed_all([&](Machine& m, Turn& turn) { m.on_writable(peer, turn); }, Turn(c));
    });
  }
  answered(Ok{});
}

void Node::scored(Time now, Round round, const Evaluation& evaluation) {
  const auto enter = [&](TurnContext& c) {
    if (place_.own_tests) {
      Turn turn = Turn(c).child(kScores.number);
      return scores_->scored(round, evaluation, turn);
    }
    root_->feed_all([&](Machine& m, Turn& turn) { m.on_scored(round, evaluation, turn); }, Turn(c));
  };
  input(
      now,
      [&] {
        return Scored{round, evaluation};
      },
      enter);
}

void Node::unreachable(Time now, Rank peer, bool unreachable) {
  const auto enter = [&](TurnContext& c) {
    Turn turn = Turn(c).child(kMembership.number);
    membership_->on_reachability(peer, unreachable, turn);
  };
  input(
      now,
      [&] {
        return Reachability{peer, unreachable};
      },
      enter);
}

void Node::returned(Time now, Rank peer) {
  const auto enter = [&](TurnContext& c) {
    Turn turn = Turn(c).child(kMembership.number);
    if (strategy_->lets_return()) membership_->on_returned(peer, turn);
  };
  input(
      now, [&] { return Returned{peer}; }, enter);
}

// Passes an input to the strategy alone, as for a step.
void Node::strategy_input(Time now, auto&& make, auto&& enter) {
  input(now, make, [&](TurnContext& c) {
    Turn turn = Turn(c).child(kStrategy.number);
    enter(turn);
    strategy_->on_progress(turn);
  });
}

void Node::arrived(Time now, std::vector<Item> items) {
  strategy_input(
      now, [&] { return Arrived{items}; },
      [&](Turn& turn) { strategy_->on_arrived(std::move(items), turn); });
}

void Node::requested(Time now, std::uint64_t client, const Bytes& request) {
  strategy_input(
      now,
      [&] {
        return Requested{client, request};
      },
      [&](Turn& turn) { strategy_->on_requested(client, request, turn); });
}

void Node::stored(Time now, std::uint64_t number) {
  strategy_input(
      now, [&] { return Stored{number}; }, [&](Turn& turn) { strategy_->on_stored(number, turn); });
}

Status Node::feed(Time now, const Input& input) {
  struct Feed {
    Node& node;
    Time now;
    Status operator()(const Started&) const { return node.start(now), Ok{}; }
    Status operator()(const Stepped& i) const { return node.stepped(now, i.result), Ok{}; }
    Status operator()(const Delivered& i) const { return node.deliver(now, i.from, i.message); }
    Status operator()(const TimerFired& i) const { return node.timer(now, i.machine, i.id), Ok{}; }
    Status operator()(const Departed& i) const {
      return node.writable(now, i.peer, i.service_class), Ok{};
    }
    Status operator()(const Scored& i) const {
      return node.scored(now, i.round, i.evaluation), Ok{};
    }
    Status operator()(const Reachability& i) const {
      return node.unreachable(now, i.peer, i.unreachable), Ok{};
    }
    Status operator()(const Returned& i) const { return node.returned(now, i.peer), Ok{}; }
    Status operator()(const Arrived& i) const { return node.arrived(now, i.items), Ok{}; }
    Status operator()(const Requested& i) const {
      return node.requested(now, i.client, i.request), Ok{};
    }
    Status operator()(const Stored& i) const { return node.stored(now, i.number), Ok{}; }
    Status operator()(const Remembered& i) const { return node.remember(now, i.votes); }
  };
  return std::visit(Feed{*this, now}, input);
}

std::string Node::waiting_for() const {
  std::string text = membership_->waiting_for();
  if (!text.empty()) return text;
  text = busy_ ? "its learner" : strategy_->waiting_for();
  if (text.empty()) text = barrier_->waiting_for(view_);
  return text.empty() && ends_ && !finished_ ? "the scores of all sites" : text;
}

void Node::state(Archive& ar) {
  ar.expect("node " + std::to_string(place_.self));
  root_->archive(ar);
  archive_work(ar, work_);
  ar(view_, credits_, busy_, ends_, last_report_, finished_, steps_left_, stop_wanted_, computed_,
     early_, dropped_);
  if (!ar.loading()) return;
  early_of_.clear();
  for (Queue<Held> held = std::exchange(early_, {}); !held.empty(); held.pop_front())
    if (!hold(held.front().from, held.front().message))
      return ar.fail("holds more messages of a view to come than it may");
}

}  // namespace longhaul
