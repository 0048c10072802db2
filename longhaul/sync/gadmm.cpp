#include "longhaul/sync/gadmm.h"

#include <algorithm>
#include <cmath>

#include "longhaul/overlay/belief.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"

namespace longhaul::sync {
namespace {

// As fp32: of a neighbour the models of two iterations, of others a hello or a join (two models in
// fp64) each. All is read at once.
constexpr std::uint32_t kUnreadModels = 16;

std::uint64_t worker_count(const Place& place) {
  std::uint64_t count = 0;
  for (const Member& member : *place.members) count += member.is(Role::worker);
  return count;
}

// The most iterations that one worker is ahead of another. Who has an iteration behind it has
// models of the one before from its neighbours, and they of theirs: each step back at least one
// worker more, whatever the chains.
std::uint64_t iterations_apart(const Place& place) { return worker_count(place) + 1; }

// Rounds are iterations, and the reporter alone says when enough samples were used.
StopConfig gadmm_stop(StopConfig config, const Place& place) {
  config.apart = iterations_apart(place);
  config.reporter_counts = true;
  return config;
}

gadmm::Chains chains_of(const Gadmm::Config& config, const SyncParts& parts, const Place& place) {
  std::vector<Rank> workers;
  for (Rank rank = 0; rank < place.size(); ++rank)
    if (place.member(rank).is(Role::worker)) workers.push_back(rank);
  gadmm::LinkCost round_trip;
  if (const auto delays = overlay::delays_of(parts.network, place))
    round_trip = [delays](Rank a, Rank b) { return delays(a, b) + delays(b, a); };
  return {{.order = config.chain, .every = config.chain_every, .seed = place.seed},
          std::move(workers),
          round_trip};
}

}  // namespace

SyncEntry Gadmm::entry() {
  return strategy_entry<Gadmm>(
      {.name = "gadmm",
       .summary = "convex models on a chain of workers, each solving its own part exactly",
       .traits = {.takes_outer = false,
                  .no_feedback = "sends whole models, which carry no error of the one before",
                  .takes_unbiased = false,
                  .when_lost = "the chain closes over the gap and the others go on",
                  .lets_return = true,
                  .mean_at_end = true},
       .small = {{"bits", {std::int64_t(8)}}},
       .costs = {{.rounds = "every iteration",
                  .sent = "2 S (fp64) to each of two neighbours",
                  .waits_for = "its neighbours in the chain",
                  .staleness = "0, with those",
                  .memory = "16 S",
                  .when_lost = "4 S to each other, and goes on"},
                 {.variant = "quantised",
                  .settings = {{"send", {std::string("quantised")}}},
                  .rounds = "every iteration",
                  .sent = "b bits a value (2) to each of two neighbours",
                  .waits_for = "its neighbours in the chain",
                  .staleness = "0, with those",
                  .memory = "16 S",
                  .when_lost = "4 S to each other, and goes on"}}});
}

Status Gadmm::check(const Config& config, const Place&) {
  const bool needs_losses = config.stop_when == "published" || config.stop_when == "settled";
  if (needs_losses && config.method == "admm" && config.send != "fp64")
    return invalid("[sync] stop_when = \"" + config.stop_when +
                   "\": expected send = \"fp64\", as "
                   "the loss is known at the solution and not at the model that neighbours read; "
                   "every_model goes with any");
  if (config.chain_every > 0 && config.chain != "random" && config.chain != "strides")
    return invalid("[sync] chain_every: expected 0 with chain = \"" + config.chain +
                   "\", of which there is one; chain = \"random\" or \"strides\" change");
  return Ok{};
}

Gadmm::Gadmm(const Config& config, SyncParts parts, const Place& place)
    : config_(config),
      place_(place),
      size_(place.layout->parameters().length),
      chains_(chains_of(config, parts, place)),
      final_(std::move(parts.overlay)),
      stop_(gadmm_stop(parts.stop, place)),
      final_return_(final_),
      stopping_({.rule = place.phantom ? "rounds" : config.stop_when,
                 .least = config.least,
                 .tolerance = config.tolerance,
                 .hold = config.hold}) {
  own(final_.overlay(), kOverlayChild);
  channel_ = std::make_unique<Channel>(
      place,
      ChannelConfig{.stream = "gadmm",
                    .limits = ChannelLimits::models(kUnreadModels, *place.layout)},
      std::move(parts.transfer), parts.make_codec(false), nullptr,
      [this](Rank from, const GadmmHeader& header, const ContentShape& shape) {
        return admit(from, header, shape);
      });
  own(*channel_, {1, "channel"});
  own(stop_, {2, "stop rule"});
  own(state_transfer_, {3, "state transfer"});
  own(final_return_, {4, "final model"});
}

// --- what may come ------------------------------------------------------------------------------

Status Gadmm::check_shape(const GadmmHeader& header, const ContentShape& shape) const {
  const auto is_doubles = [&](std::uint64_t size) {
    return shape.kind == ContentKind::doubles && shape.size == size;
  };
  bool fits = false;
  if (header.kind == Kind::figure) {
    fits = shape.kind == ContentKind::none;
  } else if (header.kind == Kind::join) {
    fits = header.knows_model ? is_doubles(header.steps > 0 ? 2 * size_ : size_)
                              : shape.kind == ContentKind::none;
  } else if (header.kind == Kind::hello || config_.send == "fp64") {
    fits = is_doubles(size_);
  } else if (config_.send == "codec") {
    fits =
        shape.kind == ContentKind::values && shape.range.offset == 0 && shape.range.length == size_;
  } else {
    fits =
        shape.kind == ContentKind::bytes &&
        (shape.size == sizeof(float) || shape.size == gadmm::quantised_bytes(size_, config_.bits));
  }
  if (!fits) return malformed("a vector that is no model, or of another size");
  return Ok{};
}

Result<bool> Gadmm::admit(Rank from, const GadmmHeader& header, const ContentShape& shape) {
  if (!place_.member(from).is(Role::worker)) return malformed("a model of no worker");
  LH_TRY(check_shape(header, shape));
  if (header.epoch > view_.epoch) return malformed("a vector of a view to come");
  if (header.epoch < view_.epoch) return false;
  const Round k = header.iteration;
  if (header.end_at > 0 && (!stopping_.is_on() || header.end_at > k + 4 * iterations_apart(place_)))
    return malformed("an end of the run that is not due");
  if (header.kind == Kind::figure) {
    if (!stopping_.is_on() || judge_rank() != place_.self || !is_near(from, k))
      return malformed("a figure that nobody waits for");
    return true;
  }
  if (header.kind == Kind::join) {
    LH_TRY(check_join(from, header));
  } else {
    if (k < done_ || !is_near(from, k) || (header.kind == Kind::hello && !chains_.is_first(k)))
      return malformed("a vector of iteration " + std::to_string(k) + ", which is not due");
    const std::vector<Rank> near = chains_.position(place_.self, k, view_).neighbours;
    if (std::find(near.begin(), near.end(), from) == near.end())
      return malformed("a vector of iteration " + std::to_string(k) + " of no neighbour");
  }
  LH_TRY(inbox_.admit(header.kind, from, k));
  return true;
}

Status Gadmm::check_join(Rank from, const GadmmHeader& header) const {
  const bool may_be = header.knows_model ? !knows_model_ || is_near(from, header.iteration)
                                         : view_.since(from) > 0 && header.iteration == 0;
  if (view_.epoch == 0 || !may_be) return malformed("a join that nobody waits for");
  return Ok{};
}

// Twice: it may have joined. A worker that has returned goes by what the sender has joined with.
bool Gadmm::is_near(Rank from, Round iteration) const {
  Round mine = done_;
  if (!knows_model_) {
    const auto joins = inbox_.joins();
    const auto found = joins.find(from);
    if (found == joins.end()) return false;
    mine = found->second;
  }
  return iteration + iterations_apart(place_) >= mine &&
         iteration <= mine + 2 * iterations_apart(place_);
}

// --- inputs -------------------------------------------------------------------------------------

void Gadmm::on_start(Turn& turn) {
  phase_ = Phase::gathering;
  knows_model_ = !turn.place().comes_back();
  const auto x = turn.params().first(parameter_count(turn.place()));
  start_.assign(x.begin(), x.end());
  theta_ = start_;
  if (config_.method == "dual_averaging") theta_.assign(theta_.size(), 0);
}

void Gadmm::on_view(const View&, Turn& turn) { newcomers_.on_view(turn); }

// The overlay starts after its parent: the first iteration begins here.
void Gadmm::on_progress(Turn& turn) {
  if (phase_ == Phase::unstarted) return;
  if (place_.comes_back() && turn.view().epoch == 0) return;  // not let in yet
  if (!has_entered_ || view_.epoch != turn.view().epoch) enter_view(turn);
  receive(turn);
  judge(turn);
  hand_over(turn);
  while (advance(turn)) {
  }
  if (phase_ != Phase::ended) return;
  Turn below = within(final_return_, turn);
  final_return_.serve(below);
}

// All begin in iteration 0 with equal models. In a new view what is on its way is dropped, each
// worker tells all others where it is, and all go on behind the one that is furthest.
void Gadmm::enter_view(Turn& turn) {
  const bool is_first = !std::exchange(has_entered_, true) && turn.view().epoch == 0;
  view_ = turn.view();
  inbox_.clear();
  penalties_.clear();  // rounds before the loss are not judged any more
  seen_.clear();
  if (is_first) {
    for (const Rank rank : chains_.position(place_.self, 0, view_).neighbours) seen_[rank] = theta_;
    return;
  }
  for (Rank rank = 0; rank < place_.size(); ++rank)
    if (!view_.has(rank)) duals_.drop(rank);
  send_joins(turn);
  if (phase_ == Phase::averaging || phase_ == Phase::ended) return;
  is_stale_ = phase_ == Phase::solving || is_stale_;
  phase_ = Phase::joining;
  asked_ = turn.now();
}

void Gadmm::receive(Turn& turn) {
  Turn below = within(*channel_, turn);
  while (channel_->lost()) {
  }  // of a neighbour that is lost: enter_view() has seen to it
  while (auto one = channel_->poll(below)) {
    if (one->header.epoch != view_.epoch) continue;
    if (one->header.end_at > 0) end_at_ = one->header.end_at;
    if (one->header.kind == Kind::figure)
      stopping_.add(one->from, one->header.iteration, one->header.value);
    else
      inbox_.keep(one->header, one->from, std::move(one->content));
  }
}

void Gadmm::on_step(const StepResult& result, Turn&) {
  solved_ = result.solution;
  loss_ = result.loss;
}

void Gadmm::on_computed(const Computed& computed, Turn& turn) {
  samples_ += computed.samples;
  if (std::exchange(is_stale_, false) || phase_ != Phase::solving) return;
  use_result(turn);
}

// --- the machine --------------------------------------------------------------------------------

// Whose vectors are awaited, in this phase.
std::vector<Rank> Gadmm::missing() const {
  std::vector<Rank> ranks;
  if (phase_ == Phase::joining) {
    const auto joins = inbox_.joins();
    for (const Rank rank : live_with(Role::worker, place_, view_))
      if (rank != place_.self && !joins.contains(rank)) ranks.push_back(rank);
    return ranks;
  }
  if (phase_ != Phase::gathering && phase_ != Phase::exchanging) return ranks;
  const bool needs_models = position_.is_head == (phase_ == Phase::exchanging);
  for (const Rank rank : position_.neighbours) {
    const bool has_seen = seen_.contains(rank) || inbox_.has(Kind::hello, rank, done_);
    if (!has_seen || (needs_models && !inbox_.has(Kind::model, rank, done_))) ranks.push_back(rank);
  }
  return ranks;
}

// One move, if one can be made now.
bool Gadmm::advance(Turn& turn) {
  switch (phase_) {
    case Phase::joining:
      if (is_stale_ || !missing().empty() || !has_state(turn)) return false;
      join(turn);
      return true;
    case Phase::gathering:
      if (!is_greeted_) enter_iteration(turn);
      if (!missing().empty()) return false;
      take_models(turn);
      if (phase_ == Phase::gathering) solve(turn);
      return false;
    case Phase::exchanging:
      if (!missing().empty()) return false;
      take_models(turn);
      if (phase_ == Phase::exchanging) end_iteration(turn);
      return true;
    case Phase::deciding:
      return decide(turn);
    case Phase::averaging:
      if (!take_final(turn)) return false;
      phase_ = Phase::ended;
      turn.finish();
      return false;
    case Phase::unstarted:
    case Phase::solving:
    case Phase::ended:
      return false;
  }
  return false;
}

// Goes on, or ends.
bool Gadmm::decide(Turn& turn) {
  StopRule::Step step = done_ == 0 ? StopRule::Step::go_on : stop_.after(done_ - 1);
  if (end_at_ > 0 && done_ >= end_at_) step = StopRule::Step::stop;
  if (step == StopRule::Step::wait) return false;
  if (step == StopRule::Step::go_on) {
    if (!may_judge_later()) return false;
    phase_ = Phase::gathering;
    return true;
  }
  phase_ = Phase::averaging;
  if (place_.comes_back()) return true;  // FinalReturn begins
  const Status begun = final_.begin(turn, within(final_.overlay(), turn));
  if (!begun) fail(begun.error(), turn);
  return true;
}

// Where it stands in the chain; whoever is new beside it is sent its model.
void Gadmm::enter_iteration(Turn& turn) {
  is_greeted_ = true;
  asked_ = turn.now();
  position_ = chains_.position(place_.self, done_, view_);
  if (!is_admm()) position_.is_head = true;  // all compute at the same time
  const std::vector<Rank>& near = position_.neighbours;
  std::erase_if(seen_, [&](const auto& one) {
    return std::find(near.begin(), near.end(), one.first) == near.end();
  });
  const bool is_new_chain = chains_.is_first(done_) && done_ != joined_at_;
  if (!is_new_chain) return;
  const std::vector<Rank> before = chains_.position(place_.self, done_ - 1, view_).neighbours;
  std::vector<Rank> fresh;
  for (const Rank rank : near)
    if (std::find(before.begin(), before.end(), rank) == before.end()) fresh.push_back(rank);
  for (const Rank rank : fresh) seen_.erase(rank);
  if (!fresh.empty()) send(fresh, Kind::hello, 0, doubles(theta_), turn);
}

// --- stopping rules ------------------------------------------------------------------------------

// With n workers the judge is at most n iterations ahead of what it has judged. So when it finds in
// iteration k that the rule holds, models of iteration k + n + 1 at the latest carry the end, and
// all know it n iterations later: whatever the chains, one worker more in each.
bool Gadmm::may_judge_later() const {
  return !stopping_.is_on() || end_at_ > 0 || judge_rank() != place_.self ||
         done_ <= stopping_.next() + worker_count(place_);
}

void Gadmm::tell_figure(Round round, double value, Turn& turn) {
  if (!stopping_.is_on() || end_at_ > 0) return;
  if (judge_rank() == place_.self) return stopping_.add(place_.self, round, value);
  Turn below = within(*channel_, turn);
  channel_->send({judge_rank()},
                 {.kind = Kind::figure, .epoch = view_.epoch, .iteration = round, .value = value},
                 {}, {.group = 0}, below);
}

void Gadmm::judge(Turn& turn) {
  const bool is_busy = phase_ != Phase::joining && phase_ < Phase::averaging;
  if (!stopping_.is_on() || !is_busy || judge_rank() != place_.self) return;
  for (const auto& [round, error] : stopping_.judge(live_with(Role::worker, place_, view_)))
    turn.record("error", round, error);
  if (end_at_ > 0 || !stopping_.holds_since()) return;
  end_at_ = stopping_.next() + 2 * worker_count(place_) + 2;
  turn.record("rule_holds", *stopping_.holds_since(), 1);
}

void Gadmm::on_scored(Round round, const Evaluation& evaluation, Turn& turn) {
  if (!stopping_.wants_scores() || phase_ >= Phase::averaging) return;
  const auto penalty = penalties_.extract(round);
  if (penalty.empty()) return;
  const double value = evaluation.loss * double(evaluation.samples) +
                       penalty.mapped() * double(live_with(Role::worker, place_, view_).size());
  const bool is_known = evaluation.samples > 0 && std::isfinite(value);
  tell_figure(round, is_known ? value : gadmm::Stopping::kUnknown, turn);
  on_progress(turn);
}

// All workers together are taken to have used what this one has, each.
void Gadmm::report_round(Turn& turn) {
  const auto live = live_with(Role::worker, place_, view_).size();
  Turn below = within(stop_, turn);
  stop_.round_done(done_ - 1, turn.params(), samples_ * live, below);
}

void Gadmm::show_model(Turn& turn) {
  const auto x = turn.params();
  const std::vector<double> theta = point();
  for (std::size_t i = 0; i < theta.size(); ++i) x[i] = float(theta[i]);
}

VectorContent Gadmm::doubles(std::vector<double> values) const {
  if (!place_.phantom) return VectorContent::doubles(values);
  const std::uint64_t size = values.empty() ? size_ : values.size();
  return VectorContent::phantom({.kind = ContentKind::doubles, .range = {}, .size = size});
}

void Gadmm::send(const std::vector<Rank>& to, Kind kind, std::uint64_t steps, VectorContent content,
                 Turn& turn) {
  Turn below = within(*channel_, turn);
  channel_->send(to,
                 {.kind = kind,
                  .epoch = view_.epoch,
                  .iteration = done_,
                  .steps = steps,
                  .end_at = end_at_,
                  .knows_model = knows_model_},
                 std::move(content), {.group = 0}, below);
}

void Gadmm::fail(const Error& error, Turn& turn) {
  phase_ = Phase::ended;
  turn.fail({error.kind, "gadmm, iteration " + std::to_string(done_) + ", site " +
                             place_.me().site + " (rank " + std::to_string(place_.self) +
                             "): " + error.what});
}

std::string Gadmm::waiting_for() const {
  if (phase_ == Phase::deciding) {
    std::string text = stop_.waiting_for();
    if (!text.empty() || may_judge_later()) return text;
    text = "figures of iteration " + std::to_string(stopping_.next()) + " of ranks";
    for (const Rank rank : stopping_.missing(live_with(Role::worker, place_, view_)))
      text += " " + std::to_string(rank);
    return text;
  }
  if (phase_ == Phase::averaging) return final_.waiting_for();
  const std::vector<Rank> ranks = missing();
  if (ranks.empty() && phase_ == Phase::joining && !knows_model_)
    return "the verdicts of the senior worker, as this node has returned";
  if (ranks.empty()) return "";
  std::string text = "iteration " + std::to_string(done_) + ": ";
  text += phase_ == Phase::joining ? "where ranks are:" : "models of ranks";
  for (const Rank rank : ranks) text += " " + std::to_string(rank);
  const std::string below = channel_->waiting_for();
  return below.empty() ? text : text + "; " + below;
}

void Gadmm::state(Archive& ar) {
  ar.expect("gadmm");
  ar(phase_, done_, has_entered_, view_, joined_at_, is_greeted_, is_stale_);
  ar(start_, theta_, solved_, loss_, samples_, position_.is_head, position_.neighbours);
  ar(seen_, duals_, inbox_, asked_, stopping_, penalties_, end_at_);
  ar(knows_model_, has_state_, newcomers_);
}

}  // namespace longhaul::sync
