#include "longhaul/sync/lag.h"

#include <algorithm>
#include <cmath>

#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"

namespace longhaul::sync {
namespace {

// As fp32, of a peer: a model or an answer, of which each waits for the other.
constexpr std::uint32_t kUnreadLagModels = 8;

lag::Descent::Config descent_config(const Lag::Config& config) {
  const lag::Rule rule = lag::rule_of(config.rule);
  const double usual = rule == lag::Rule::server ? 1 : 0.1;
  return {.rule = rule,
          .xi = config.xi < 0 ? usual : config.xi,
          .memory = config.memory,
          .smoothness = config.smoothness};
}

// Every node makes the same, one without a learner too: it may be the server.
Result<std::unique_ptr<Strategy>> make_lag(const Settings& settings, SyncParts parts,
                                           const Place& place) {
  Lag::Config config;
  LH_TRY(read_settings(settings, config));
  return std::unique_ptr<Strategy>(std::make_unique<Lag>(config, std::move(parts), place));
}

}  // namespace

SyncEntry Lag::entry() {
  return strategy_entry<Lag>(
      {.name = "lag",
       .summary = "gradient descent in which gradients that barely moved are not sent again",
       .traits = {.takes_outer = false,
                  .no_feedback = "sends fp64 differences of gradients, which lose nothing",
                  .takes_unbiased = false,
                  .when_lost = "its gradient is taken out of the sum and the others go on",
                  .lets_return = true,
                  .served = true,
                  .only_overlay = "hub"},
       .presets = {{"overlay", "kind", {std::string("hub")}}},
       .small = {{"memory", {std::int64_t(2)}}},
       .costs = {{.rounds = "every step",
                  .sent = "2 S (fp64) if its gradient has moved; receives 2 S",
                  .waits_for = "all",
                  .staleness = "until the gradient has moved",
                  .memory = "6 S; server (2 n + 6) S",
                  .when_lost = "goes on without"}}},
      make_lag);
}

Lag::Lag(const Config& config, SyncParts parts, const Place& place)
    : config_(config),
      place_(place),
      size_(place.layout->parameters().length),
      named_server_(parts.server),
      stop_(parts.stop),
      overlay_(std::move(parts.overlay)),
      descent_(descent_config(config)) {
  own(*overlay_, kOverlayChild);
  channel_ = std::make_unique<Channel>(
      place,
      ChannelConfig{.stream = "lag",
                    .limits = ChannelLimits::models(kUnreadLagModels, *place.layout)},
      std::move(parts.transfer), nullptr, nullptr,
      [this](Rank from, const LagHeader& header, const ContentShape& shape) {
        return admit(from, header, shape);
      });
  own(*channel_, {1, "channel"});
}

// --- both ---------------------------------------------------------------------------------------

Result<bool> Lag::admit(Rank from, const LagHeader& header, const ContentShape& shape) {
  const bool is_empty =
      header.kind == Kind::skip || (header.kind == Kind::resume && !header.knows_model);
  const bool fits = is_empty ? shape.kind == ContentKind::none
                             : shape.kind == ContentKind::doubles && shape.size == size_;
  if (!fits) return malformed("a vector of another size, or one where none belongs");
  if (header.reign > reign_) return malformed("a vector under a server to come");
  if (header.reign < reign_) return false;
  if (header.is_for_server()) {
    if (!is_server() || !place_.member(from).is(Role::worker))
      return malformed("an answer to a server that this node is not, or of no worker");
    LH_TRY(admit_answer(from, header));
    return true;
  }
  const bool is_due = header.round >= round_ && !asked_ && !has_ended_;
  if (from != server_ || !is_worker() || !is_due)
    return malformed("a model that this worker does not wait for");
  return true;
}

Rank Lag::server_of(const View& view) const {
  if (named_server_ && view.has(*named_server_)) return *named_server_;
  const auto workers = live_with(Role::worker, place_, view);
  return workers.empty() ? view.lowest() : workers.front();
}

void Lag::on_start(Turn& turn) {
  has_started_ = true;
  if (!is_worker()) return;
  const auto x = turn.params().first(parameter_count(place_));
  theta_.assign(x.begin(), x.end());
  knows_model_ = !place_.comes_back();
}

void Lag::on_progress(Turn& turn) {
  if (!has_started_ || has_failed_) return;
  if (place_.comes_back() && turn.view().epoch == 0) return;  // not let in yet
  if (!has_entered_ || view_.epoch != turn.view().epoch) enter_view(turn);
  do {
    if (is_server()) advance(turn);
  } while (!has_failed_ && receive(turn));
}

void Lag::enter_view(Turn& turn) {
  const bool is_first = !std::exchange(has_entered_, true);
  view_ = turn.view();
  if (live_workers().empty())
    return fail(state_lost("all workers are lost: restart them and resume"), turn);
  const Rank server = server_of(view_);
  const bool has_returned = std::ranges::any_of(view_.returned, [&](const auto& one) {
    return one.second == view_.epoch &&
           (place_.member(one.first).is(Role::worker) || one.first == server);
  });
  if (is_first || has_returned || server != server_) {
    server_ = server;
    return begin_reign(turn);
  }
  std::erase_if(awaited_, [&](Rank rank) { return !view_.has(rank); });
  for (Rank rank = 0; rank < place_.size(); ++rank)
    if (!view_.has(rank)) descent_.drop(rank);
}

// Every worker tells the server the model that it knows.
void Lag::begin_reign(Turn& turn) {
  reign_ = view_.epoch;
  is_stale_ = is_computing_;
  asked_.reset();
  uploaded_.clear();
  if (is_server()) {
    phase_ = Phase::resuming;
    admitted_.clear();
    answers_.clear();
    awaited_ = live_workers();
  } else {
    phase_ = Phase::idle;
    awaited_.clear();
    answers_.clear();
    if (!is_worker() && !std::exchange(has_ended_, true))
      turn.finish();  // neither learns nor serves
  }
  if (is_worker())
    send({server_},
         {.kind = Kind::resume,
          .round = round_,
          .has_ended = has_ended_,
          .knows_model = knows_model_,
          .samples = used_},
         knows_model_ ? &theta_ : nullptr, turn);
}

bool Lag::receive(Turn& turn) {
  bool any = false;
  Turn below = within(*channel_, turn);
  while (channel_->lost()) {
  }  // of a lost peer: enter_view() has seen to it
  while (auto one = channel_->poll(below)) {
    if (one->header.reign != reign_ || has_failed_) continue;
    any = true;
    Model values = one->content.doubles();
    if (!are_finite(values)) {
      fail(not_finite("rank " + std::to_string(one->from) + " sent a vector that is not finite"),
           turn);
    } else if (one->header.is_for_server()) {
      serve(one->from, one->header, std::move(values), turn);
    } else {
      take_model(one->header, std::move(values), turn);
    }
  }
  return any;
}

void Lag::send(const std::vector<Rank>& to, LagHeader header, const Model* values, Turn& turn) {
  header.reign = reign_;
  VectorContent content;
  if (values && place_.phantom)
    content = VectorContent::phantom({.kind = ContentKind::doubles, .range = {}, .size = size_});
  else if (values)
    content = VectorContent::doubles(*values);
  Turn below = within(*channel_, turn);
  channel_->send(to, header, std::move(content), {}, below);
}

void Lag::fail(const Error& error, Turn& turn) {
  has_failed_ = true;
  turn.fail({error.kind, "lag, round " + std::to_string(round_) + ", site " + place_.me().site +
                             " (rank " + std::to_string(place_.self) + "): " + error.what});
}

std::string Lag::waiting_for() const {
  if (has_failed_ || is_computing_) return "";
  if (is_server() && !awaited_.empty()) {
    std::string text = "round " + std::to_string(round_) + ": answers of ranks";
    for (const Rank rank : awaited_)
      if (!answers_.contains(rank)) text += " " + std::to_string(rank);
    return text;
  }
  if (has_ended_ || is_server()) return "";
  if (!has_entered_) return place_.comes_back() ? "being let in by the others" : "";
  return "round " + std::to_string(round_) + ": the model of rank " + std::to_string(server_) +
         ", the server";
}

// --- a worker -----------------------------------------------------------------------------------

void Lag::take_model(const LagHeader& header, Model values, Turn& turn) {
  theta_ = std::move(values);
  round_ = header.round;
  used_ = header.samples;
  knows_model_ = true;
  if (header.kind == Kind::end) return take_end(turn);
  asked_ = header;
  if (!is_computing_) compute(theta_, turn);
}

void Lag::compute(Model at, Turn& turn) {
  is_computing_ = true;
  computed_at_ = at;
  turn.compute(FullGradient{std::move(at), true});
}

void Lag::on_step(const StepResult& result, Turn&) { result_ = result; }

void Lag::on_computed(const Computed& computed, Turn& turn) {
  is_computing_ = false;
  samples_ = computed.samples;
  for (std::size_t i = 0; i < result_.solution.size(); ++i)
    result_.solution[i] += config_.mu * computed_at_[i];
  if (has_failed_) return;
  if (has_ended_) return take_end(turn);
  if (std::exchange(is_stale_, false)) {
    if (asked_) compute(theta_, turn);
    return;
  }
  next_gradient(turn);
}

// The gradient at theta_; the first time, those by which L_m is found.
void Lag::next_gradient(Turn& turn) {
  if (!are_finite(result_.solution) || !std::isfinite(result_.loss))
    return fail(not_finite("its gradient is not finite; set a larger [sync] smoothness"), turn);
  if (smoothness_.is_known() || !smoothness_.has_begun() || computed_at_ == theta_) {
    gradient_ = result_.solution;
    loss_ = result_.loss;
    if (!smoothness_.has_begun())
      smoothness_.begin(theta_, gradient_, turn.random(Purpose::init, 0, place_.self, 1));
  } else {
    smoothness_.probed(result_.solution);
  }
  if (!smoothness_.is_known()) return compute(smoothness_.probe(), turn);
  answer(turn);
}

void Lag::answer(Turn& turn) {
  LagHeader header = *std::exchange(asked_, std::nullopt);
  double square = 0, moved = 0;
  uploaded_.resize(gradient_.size());
  Model delta = gradient_;
  for (std::size_t i = 0; i < delta.size(); ++i) {
    delta[i] -= uploaded_[i];
    moved += delta[i] * delta[i];
    square += theta_[i] * theta_[i];
  }
  header.objective = loss_ + config_.mu / 2 * square;
  header.samples = samples_;
  header.smoothness = smoothness_.value();
  const bool uploads = header.must_upload || moved > header.rhs;
  header.kind = uploads ? Kind::delta : Kind::skip;
  for (std::size_t i = 0; uploads && i < delta.size(); ++i) uploaded_[i] += delta[i];
  send({server_}, header, uploads ? &delta : nullptr, turn);
}

void Lag::take_end(Turn& turn) {
  has_ended_ = true;
  asked_.reset();
  if (is_computing_) return;  // for a server before this one; on_computed() comes back
  const auto x = turn.params();
  for (std::size_t i = 0; i < theta_.size() && i < x.size(); ++i) x[i] = float(theta_[i]);
  turn.finish();
}

void Lag::state(Archive& ar) {
  ar.expect("lag");
  ar(has_started_, has_entered_, has_ended_, has_failed_, view_, server_, reign_, round_, theta_);
  ar(knows_model_, used_);
  ar(asked_, is_computing_, is_stale_, computed_at_, result_, gradient_, uploaded_, loss_, samples_,
     smoothness_);
  ar(phase_, descent_, admitted_, answers_, awaited_, open_, is_over_);
}

}  // namespace longhaul::sync
