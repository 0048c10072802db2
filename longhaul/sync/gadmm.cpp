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
                  .when_lost = "the chain closes over the gap and the others go on"},
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
      stop_(gadmm_stop(parts.stop, place)) {
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
}

// --- what may come ------------------------------------------------------------------------------

Status Gadmm::check_shape(const GadmmHeader& header, const ContentShape& shape) const {
  const auto is_doubles = [&](std::uint64_t size) {
    return shape.kind == ContentKind::doubles && shape.size == size;
  };
  bool fits = false;
  if (header.kind == Kind::join) {
    fits = is_doubles(header.steps > 0 ? 2 * size_ : size_);
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
  const bool is_near = k + iterations_apart(place_) >= done_ &&
                       k <= done_ + 2 * iterations_apart(place_);  // twice: it may have joined
  if (header.kind == Kind::join) {
    if (view_.epoch == 0 || !is_near) return malformed("a join that nobody waits for");
  } else {
    if (k < done_ || !is_near || (header.kind == Kind::hello && !chains_.is_first(k)))
      return malformed("a vector of iteration " + std::to_string(k) + ", which is not due");
    const std::vector<Rank> near = chains_.position(place_.self, k, view_).neighbours;
    if (std::find(near.begin(), near.end(), from) == near.end())
      return malformed("a vector of iteration " + std::to_string(k) + " of no neighbour");
  }
  LH_TRY(inbox_.admit(header.kind, from, k));
  return true;
}

// --- inputs -------------------------------------------------------------------------------------

void Gadmm::on_start(Turn& turn) {
  phase_ = Phase::gathering;
  const auto x = turn.params().first(parameter_count(turn.place()));
  theta_.assign(x.begin(), x.end());
}

// The overlay starts after its parent: the first iteration begins here.
void Gadmm::on_progress(Turn& turn) {
  if (phase_ == Phase::unstarted) return;
  if (!has_entered_ || view_.epoch != turn.view().epoch) enter_view(turn);
  receive(turn);
  while (advance(turn)) {
  }
}

// All begin in iteration 0 with equal models. After a loss what is on its way is dropped, each
// worker tells all others where it is, and all go on behind the one that is furthest.
void Gadmm::enter_view(Turn& turn) {
  const bool is_first = !std::exchange(has_entered_, true) && turn.view().epoch == 0;
  view_ = turn.view();
  inbox_.clear();
  seen_.clear();
  const std::vector<Rank> live = live_with(Role::worker, place_, view_);
  if (is_first) {
    for (const Rank rank : chains_.position(place_.self, 0, view_).neighbours) seen_[rank] = theta_;
    return;
  }
  for (Rank rank = 0; rank < place_.size(); ++rank)
    if (!view_.has(rank)) duals_.drop(rank);
  for (const Rank rank : live) {
    if (rank == place_.self) continue;
    const gadmm::DualLedger::Dual* dual = duals_.of(rank);
    std::vector<double> values = theta_;
    if (dual) values.insert(values.end(), dual->values.begin(), dual->values.end());
    if (place_.phantom) values.resize(dual ? 2 * size_ : size_);
    send({rank}, Kind::join, dual ? dual->steps : 0, doubles(std::move(values)), turn);
  }
  if (phase_ == Phase::averaging || phase_ == Phase::ended) return;
  is_stale_ = phase_ == Phase::solving || is_stale_;
  phase_ = Phase::joining;
  asked_ = turn.now();
}

void Gadmm::receive(Turn& turn) {
  Turn below = within(*channel_, turn);
  while (channel_->lost()) {
  }  // of a neighbour that is lost: enter_view() has seen to it
  while (auto one = channel_->poll(below))
    if (one->header.epoch == view_.epoch)
      inbox_.keep(one->header, one->from, std::move(one->content));
}

void Gadmm::on_step(const StepResult& result, Turn&) {
  solved_ = result.solution;
  loss_ = result.loss;
}

void Gadmm::on_computed(const Computed& computed, Turn& turn) {
  samples_ += computed.samples;
  if (std::exchange(is_stale_, false) || phase_ != Phase::solving) return;
  send_model(turn);
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
      if (is_stale_ || !missing().empty()) return false;
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
    case Phase::deciding: {
      const StopRule::Step step = done_ == 0 ? StopRule::Step::go_on : stop_.after(done_ - 1);
      if (step == StopRule::Step::wait) return false;
      if (step == StopRule::Step::go_on) {
        phase_ = Phase::gathering;
        return true;
      }
      phase_ = Phase::averaging;
      const Status begun = final_.begin(turn, within(final_.overlay(), turn));
      if (!begun) fail(begun.error(), turn);
      return true;
    }
    case Phase::averaging:
      if (!final_.take(turn)) return false;
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

// All have told where they are: nobody is in an iteration of the view before.
void Gadmm::join(Turn& turn) {
  Round first = done_;
  for (const auto& [rank, iteration] : inbox_.joins()) {
    first = std::max(first, iteration);
    const gadmm::Inbox::Item item = inbox_.take(Kind::join, rank, iteration);
    std::vector<double> values = item.content.doubles();
    gadmm::DualLedger::Dual dual{item.steps, {}};
    if (item.steps > 0 && !place_.phantom)
      dual.values.assign(values.begin() + std::ptrdiff_t(size_), values.end());
    if (!place_.phantom) values.resize(size_);
    duals_.repair(rank, dual);
    seen_[rank] = std::move(values);
  }
  turn.record("join_s", done_, seconds(turn.now() - asked_));
  skip_to(first, turn);
  joined_at_ = first;
  is_greeted_ = false;
  phase_ = Phase::deciding;
}

// Rounds that this worker has missed count as done with its model as it stands.
void Gadmm::skip_to(Round iteration, Turn& turn) {
  show_model(turn);
  while (done_ < iteration) {
    ++done_;
    report_round(turn);
  }
  inbox_.pass(done_);
}

// Where it stands in the chain; whoever is new beside it is sent its model.
void Gadmm::enter_iteration(Turn& turn) {
  is_greeted_ = true;
  asked_ = turn.now();
  position_ = chains_.position(place_.self, done_, view_);
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

void Gadmm::solve(Turn& turn) {
  LocalSolve work;
  work.summed = true;
  if (!place_.phantom) {
    work.linear = duals_.sum(size_);
    for (const Rank rank : position_.neighbours)
      work.anchors.emplace_back(config_.rho, seen_[rank]);
    if (config_.mu > 0) work.anchors.emplace_back(config_.mu, std::vector<double>(size_));
  }
  phase_ = Phase::solving;
  turn.record("wait_s", done_, seconds(turn.now() - asked_));
  turn.compute(std::move(work));
}

// theta_n, as the neighbours will decode it.
void Gadmm::send_model(Turn& turn) {
  phase_ = Phase::exchanging;
  asked_ = turn.now();
  if (!are_finite(solved_))
    return fail(not_finite("the solution of its local problem is not finite"), turn);
  const std::vector<Rank>& to = position_.neighbours;
  VectorContent content;
  if (to.empty() || config_.send == "fp64") {
    theta_ = std::move(solved_);
    content = doubles(theta_);
  } else if (config_.send == "codec") {
    auto values = std::make_shared<std::vector<float>>();
    for (const double v : solved_) values->push_back(float(v));
    const Range all{0, size_};
    if (!place_.phantom) {
      const auto read = channel_->as_received(*values, all, to.front(), {.group = 0});
      theta_.assign(read.begin(), read.end());
    }
    content = VectorContent::values(std::move(values), all);
  } else if (place_.phantom) {
    content = VectorContent::phantom({.kind = ContentKind::bytes,
                                      .range = {},
                                      .size = gadmm::quantised_bytes(size_, config_.bits)});
  } else {
    Random random = turn.random(Purpose::codec, done_, place_.self);
    content = VectorContent::bytes(share(gadmm::quantise(solved_, theta_, config_.bits, random)));
  }
  if (!are_finite(theta_)) return fail(not_finite("its model is too large for [codec]"), turn);
  solved_.clear();
  if (!to.empty()) send(to, Kind::model, 0, std::move(content), turn);
}

// What the neighbours have sent for this iteration, if it is time for it.
void Gadmm::take_models(Turn& turn) {
  for (const Rank rank : position_.neighbours) {
    if (inbox_.has(Kind::hello, rank, done_))
      seen_[rank] = inbox_.take(Kind::hello, rank, done_).content.doubles();
    if (position_.is_head != (phase_ == Phase::exchanging)) continue;
    if (!inbox_.has(Kind::model, rank, done_)) continue;  // a tail has taken it before it solved
    if (!read_model(rank, inbox_.take(Kind::model, rank, done_).content, turn)) return;
  }
}

bool Gadmm::read_model(Rank from, const VectorContent& content, Turn& turn) {
  std::vector<double>& seen = seen_[from];
  if (place_.phantom) return true;
  Status read = Ok{};
  if (content.kind() == ContentKind::doubles) {
    seen = content.doubles();
  } else if (content.kind() == ContentKind::values) {
    seen.assign(content.values()->begin(), content.values()->end());
  } else {
    read = gadmm::dequantise(*content.bytes(), seen, config_.bits);
  }
  if (read && !are_finite(seen)) read = malformed("a model that is not finite");
  if (read) return true;
  fail({read.error().kind,
        "rank " + std::to_string(from) + " broke the protocol: " + read.error().what},
       turn);
  return false;
}

void Gadmm::end_iteration(Turn& turn) {
  for (const Rank rank : position_.neighbours) duals_.step(rank, config_.rho, theta_, seen_[rank]);
  if (!place_.phantom && config_.send == "fp64") {
    double square = 0;
    for (const double v : theta_) square += v * v;
    turn.record("objective", done_, loss_ + config_.mu / 2 * square);
  }
  ++done_;
  is_greeted_ = false;
  inbox_.pass(done_);
  phase_ = Phase::deciding;
  show_model(turn);
  report_round(turn);
}

// All workers together are taken to have used what this one has, each.
void Gadmm::report_round(Turn& turn) {
  const auto live = live_with(Role::worker, place_, view_).size();
  Turn below = within(stop_, turn);
  stop_.round_done(done_ - 1, turn.params(), samples_ * live, below);
}

void Gadmm::show_model(Turn& turn) {
  const auto x = turn.params();
  for (std::size_t i = 0; i < theta_.size(); ++i) x[i] = float(theta_[i]);
}

VectorContent Gadmm::doubles(std::vector<double> values) const {
  if (!place_.phantom) return VectorContent::doubles(values);
  const std::uint64_t size = values.empty() ? size_ : values.size();
  return VectorContent::phantom({.kind = ContentKind::doubles, .range = {}, .size = size});
}

void Gadmm::send(const std::vector<Rank>& to, Kind kind, std::uint64_t steps, VectorContent content,
                 Turn& turn) {
  Turn below = within(*channel_, turn);
  channel_->send(to, {.kind = kind, .epoch = view_.epoch, .iteration = done_, .steps = steps},
                 std::move(content), {.group = 0}, below);
}

void Gadmm::fail(const Error& error, Turn& turn) {
  phase_ = Phase::ended;
  turn.fail({error.kind, "gadmm, iteration " + std::to_string(done_) + ", site " +
                             place_.me().site + " (rank " + std::to_string(place_.self) +
                             "): " + error.what});
}

std::string Gadmm::waiting_for() const {
  if (phase_ == Phase::deciding) return stop_.waiting_for();
  if (phase_ == Phase::averaging) return final_.waiting_for();
  const std::vector<Rank> ranks = missing();
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
  ar(theta_, solved_, loss_, samples_, position_.is_head, position_.neighbours);
  ar(seen_, duals_, inbox_, asked_);
}

}  // namespace longhaul::sync
