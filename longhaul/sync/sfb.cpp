#include "longhaul/sync/sfb.h"

#include <algorithm>
#include <functional>

#include "longhaul/core/sample_count.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"
#include "longhaul/sync/sfb/rule.h"

namespace longhaul::sync {
namespace {

constexpr Service kFactorService{.priority = 3}, kSfbControl{.priority = 5},
    kModelService{.priority = 4};
// Models: two moments each of the optimiser and of [outer], and room for the rest.
constexpr std::uint64_t kMostModels = 8;
constexpr std::uint32_t kMostNodes = 4096, kClocksUnread = 2, kControlsUnread = 8;
constexpr std::uint64_t kMostRestBytes = 1000000;  // staleness > 0: sent to all workers

// Returns the maximum lead of a worker with partial spread. A worker receives from each other one
// once in a cycle, and in a view with newcomers one clock later. The longest cycle over all numbers
// of workers counts, since workers may be lost.
std::uint32_t lead_of(const sfb::Config& config, const Place& place) {
  if (config.spread != "partial") return 0;
  std::uint32_t longest = 0;
  const std::size_t all = place.members.with(Role::worker).size();
  for (auto workers = std::uint32_t(all); workers > 1; --workers)
    longest = std::max(longest, sfb::partial_cycle(config.partial_peers, workers));
  return longest + 1;
}

// With site spread a site is one party: its uplink carries the factors of all its workers.
sfb::Parts parts_for(const sfb::Config& config, const SyncParts& with, const Place& place) {
  const RankList workers = place.members.with(Role::worker);
  std::map<std::string, std::uint32_t> sites;
  std::uint32_t most = 0;
  for (const Rank rank : workers) most = std::max(most, ++sites[place.member(rank).site]);
  const bool by_site = sfb::spread_of(config.spread, place) == sfb::Spread::site;
  constexpr std::uint64_t kSpan = 1024;
  const Coder coder(place.phantom, with.make_codec(false), nullptr);
  const double bytes =
      double(coder.size(Coding::up, {0, kSpan})) / double(kSpan) * place.wire_scale;
  return {*place.layout,
          std::uint64_t(with.batch) * (by_site ? most : 1),
          by_site ? sites.size() : workers.size(),
          bytes,
          bytes,
          config};
}

Status check_sfb(const sfb::Config& config, const SyncParts& with, const Place& place) {
  if (place.size() > kMostNodes)
    return invalid("[sync] kind = \"sfb\": expected " + std::to_string(kMostNodes) +
                   " nodes at most, found " + std::to_string(place.size()));
  const auto stages =
      parts_for(config, with, place).stages(*place.layout, place.phantom, config.backward_shares);
  const bool is_known = place.layout->layers().size() > 1;  // a job is first read without its model
  if (config.wait_free && is_known && !stages) return stages.error();
  if (config.staleness == 0) return Ok{};
  if (config.spread == "partial")
    return invalid(
        "[sync] spread = \"partial\": expected staleness = 0, found " +
        std::to_string(config.staleness) +
        ": the means of models are of one clock, to which all would have to wait for each other");
  if (!with.plain_sgd)
    return invalid(
        "[sync] staleness: expected 0, or [optimizer] kind = \"sgd\" without momentum and "
        "weight_decay: gradients are applied one by one, as they come");
  const std::uint64_t rest = parts_for(config, with, place).rest_length() * sizeof(float);
  if (rest > kMostRestBytes)
    return invalid("[sync] staleness: expected 0, since " + std::to_string(rest) +
                   " bytes of the gradient do not go as factors, and more than " +
                   std::to_string(kMostRestBytes) + " are not sent to every worker");
  return Ok{};
}

Result<std::unique_ptr<Strategy>> make_sfb(const Settings& settings, SyncParts with,
                                           const Place& place) {
  sfb::Config config;
  LH_TRY(read_settings(settings, config));
  LH_TRY(check_sfb(config, with, place));
  if (!(with.rate > 0))
    return invalid(
        "[sync] kind = \"sfb\": every node takes the steps of all workers, at one [optimizer] "
        "rate: remove rate from [[site]]");
  return make_strategy<Sfb>(settings, std::move(with), place);
}

std::vector<sfb::BackwardStage> stages_for(const sfb::Config& config, const sfb::Parts& parts,
                                           const Place& place) {
  if (config.wait_free)
    if (auto stages = parts.stages(*place.layout, place.phantom, config.backward_shares))
      return *std::move(stages);
  sfb::BackwardStage whole{.rest = parts.rest(), .rest_length = parts.rest_length()};
  for (std::uint32_t k = std::uint32_t(parts.layers().size()); k-- > 0;) whole.layers.push_back(k);
  return {whole};
}

void adapt_sfb(const Settings& settings, SyncTraits& traits) {
  const auto config = config_of<sfb::Config>(settings);
  if (config.on_divergence == "adopt") traits.lets_return = false;
  if (config.staleness == 0) return;
  traits.bits = Bits::schedule;
  traits.takes_outer = false;
}

// Returns the overlay's range of a stage. Ranges: the rest of the first stage, buffers, the rest of
// the other stages. With partial spread: the final model, models, the rest of each stage.
std::uint32_t mean_range(std::uint32_t stage, bool is_partial) {
  if (is_partial) return stage + 2;
  return stage == 0 ? 0 : stage + 1;
}

}  // namespace

SyncEntry Sfb::entry() {
  return strategy_entry<Sfb>(
      {.name = "sfb",
       .summary = "send the factors of a matrix gradient instead of the matrix",
       .sends = "For a fully connected layer a worker sends the factors of its gradient where they "
                "are smaller than the matrix. The rest goes over the overlay as a mean",
       .traits = {.no_feedback = "has nothing to add an error to: every clock has other factors",
                  .takes_unbiased = false,
                  .when_lost = "the others agree which of its clocks count and continue",
                  .lets_return = true,
                  .asks = "sufficient factors",
                  .mean_at_end = true},
       .small = {{"hash_every", {std::int64_t(2)}},
                 {"mean_every", {std::int64_t(3)}},
                 {"rule", {std::string("always")}}},
       .costs = {{.rounds = "every step",
                  .sent = "(n-1) factors; an exchange of the rest",
                  .waits_for = "all, every step",
                  .staleness = "0",
                  .memory = "3 n factors",
                  .when_lost = "its last 2 factors to some"},
                 {.variant = "stale",
                  .settings = {{"staleness", {std::int64_t(1)}}},
                  .rounds = "every step",
                  .sent = "(n-1) times factors and the rest",
                  .waits_for = "the slowest, once s ahead",
                  .staleness = "s clocks",
                  .memory = "(3 s + 4) n factors",
                  .when_lost = "its last 2 s + 2 factors to some"},
                 {.variant = "partial",
                  .settings = {{"spread", {std::string("partial")}}},
                  .rounds = "every step, a mean every mean_every",
                  .sent = "Q factors; an exchange of the rest, or of S",
                  .waits_for = "those that send to it; all at a mean",
                  .staleness = "(n-1) / Q steps, less in a mean",
                  .memory = "3 Q factors",
                  .when_lost = "a small message to each"}},
       .adapt = adapt_sfb},
      make_sfb);
}

Sfb::Sfb(const Config& config, SyncParts with, const Place& place)
    : config_(config),
      place_(place),
      batch_(with.batch),
      rate_(with.rate),
      rate_share_(with.rate_share),
      spread_(sfb::spread_of(config.spread, place)),
      lead_(lead_of(config, place)),
      coder_(place.phantom, with.make_codec(false), nullptr),
      parts_(parts_for(config, with, place)),
      stages_(stages_for(config, parts_, place)),
      final_(std::move(with.overlay)),
      outer_(std::move(with.outer)),
      stop_(config.staleness + lead_ > 0 ? apart_by(config.staleness + lead_ + 2, with.stop)
                                         : with.stop),
      final_return_(final_),
      store_(std::max(1u, kinds_of_parts())) {
  own(final_.overlay(), kOverlayChild);
  std::uint64_t numbers = parts_.rest_length();
  for (const sfb::FactorLayer& layer : parts_.layers()) numbers += batch_ * (layer.out + layer.in);
  ChannelConfig factors{.stream = "factors", .limits = {}, .service = kFactorService};
  factors.limits.vectors = kClocksUnread * (kinds_of_parts() + 1);
  factors.limits.bytes =
      kClocksUnread * numbers * sizeof(float) + factors.limits.vectors * channel::kMostHeaderBytes;
  factors_ = std::make_unique<FactorChannel>(place, factors, with.make_transfer(), nullptr, nullptr,
                                             std::bind_front(&Sfb::admit, this));
  control_ = std::make_unique<ControlChannel>(
      place,
      ChannelConfig{.stream = "sfb control",
                    .limits = {kControlsUnread, kControlsUnread * channel::kMostHeaderBytes},
                    .service = kSfbControl},
      std::move(with.transfer), nullptr, nullptr,
      [this](Rank, const sfb::ControlHeader& header, const ContentShape& shape) {
        return admit_control(header, shape);
      });
  own(*control_, {1, "control"});
  own(*factors_, {2, "factors"});
  own(stop_, {3, "stop rule"});
  own(state_transfer_, {4, "state transfer"});
  own(final_return_, {5, "final model"});
  if (!adopts()) return;
  models_ = std::make_unique<ModelChannel>(
      place,
      ChannelConfig{.stream = "models",
                    .limits = {1, kMostModels * sizeof(float) * place.layout->size() + (1u << 20)},
                    .service = kModelService},
      with.make_transfer(), nullptr, nullptr,
      [this](Rank, const sfb::AdoptedHeader& header, const ContentShape& shape) {
        return admit_model(header, shape);
      });
  own(*models_, {6, "models"});
}

// Returns the number of messages of one origin in a clock: one per layer, and one for the rest if
// no mean of it is awaited.
std::uint32_t Sfb::kinds_of_parts() const {
  return std::uint32_t(parts_.layers().size()) + (is_eager() && parts_.rest_length() > 0 ? 1 : 0);
}

void Sfb::on_start(Turn& turn) {
  phase_ = turn.place().comes_back() ? Phase::outside : Phase::ready;
}

// The overlay starts after its parent: the first clock begins here.
void Sfb::on_progress(Turn& turn) {
  if (phase_ == Phase::unstarted || phase_ == Phase::failed) return;
  if (place_.comes_back() && turn.view().epoch == 0) return;  // not let in yet
  if (has_entered_) receive(turn);  // in the view that the factors were sent in
  if (!has_entered_ || epoch_ != turn.view().epoch) enter_view(turn);
  receive_control(turn);
  receive(turn);
  receive_model(turn);
  hand_over(turn);
  while (phase_ != Phase::failed && advance(turn)) {
  }
}

// Makes one move, if one is possible now.
bool Sfb::advance(Turn& turn) {
  const Round s = config_.staleness;
  switch (phase_) {
    case Phase::ready:
      if (turn.learner_is_busy()) return false;  // busy with a state no longer needed
      if (is_eager()) apply_arrived(turn);
      if (is_eager() && (!is_settled_ || !is_complete(clock_ - std::min(clock_, s)))) return false;
      if (clock_ > 0 && is_eager()) turn.record("wait_s", clock_, seconds(turn.now() - asked_));
      phase_ = Phase::computing;
      stage_ = 0;
      own_samples_ = 0;
      compute_s_ = 0;
      means_.clear();
      extras_.reset();
      compute(turn);
      return false;
    case Phase::exchanging:
      if (!is_settled_ || !can_apply() || !is_mean_here()) return false;
      apply_sum(turn);
      return false;
    case Phase::mixing:
      return end_mixing(turn);
    case Phase::comparing:
      return end_comparison(turn);
    case Phase::adopting:
      return adopt(turn);
    case Phase::deciding:
      return !gives_state(turn) && decide(turn);
    case Phase::flushing: {
      if (is_eager()) apply_arrived(turn);
      if (!is_settled_ || (is_eager() && !is_complete(clock_))) return false;
      phase_ = Phase::averaging;
      const Status begun = final_return_.begin(turn, within(final_.overlay(), turn));
      if (!begun) fail(begun.error(), turn);
      return true;
    }
    case Phase::averaging:
      return end_run(turn);
    case Phase::outside:
      return come_in(turn);
    case Phase::entering:
      return enter_run(turn);
    default:
      return false;
  }
}

void Sfb::on_step(const StepResult& result, Turn&) {
  optimizer_.on_step(result);
  step_ = result;
}

void Sfb::on_computed(const Computed&, Turn& turn) {
  const StepResult step = std::exchange(step_, {});
  if (optimizer_.on_computed()) {
    if (phase_ == Phase::restoring) phase_ = Phase::deciding;
    if (phase_ == Phase::adopting && giver_ != turn.self()) begin_comparison(turn);
    return;
  }
  if (phase_ == Phase::applying) return end_clock(turn);
  if (phase_ != Phase::computing) return;  // the run has failed
  on_stage(step, turn);
  if (phase_ == Phase::failed) return;
  if (++stage_ < stages_.size()) return compute(turn);
  asked_ = turn.now();
  turn.record("compute_s", clock_, compute_s_);
  phase_ = Phase::exchanging;
  if (!is_eager()) return begin_buffers(turn);
  send_rest(turn);
  apply_arrived(turn);
  if (all_finite(turn.params())) return end_clock(turn);
  fail(not_finite("its model has values that are not finite; lower [optimizer] rate"), turn);
}

void Sfb::end_clock(Turn& turn) {
  ++clock_;
  if (has_factors()) {
    turn.record("sent_bytes", clock_ - 1, double(std::exchange(sent_bytes_, 0)));
    turn.record("saved_bytes", clock_ - 1, saved_bytes(live_.size()));
  }
  // A worker that has sent clock c has all clocks before c - s. A worker in clock c + s + 1 has all
  // of clock c.
  const Round s = config_.staleness, kept = is_eager() ? 2 * s + 2 : 1;
  if (is_partial()) {
    for (const Rank rank : live_) store_.begin_at(rank, clock_);
    if (clock_ % config_.mean_every == 0) return begin_mixing(turn);
  } else if (clock_ > kept && is_settled_) {  // otherwise the clocks are reported
    store_.drop_before(clock_ - kept);
  }
  finish_clock(turn);
}

void Sfb::finish_clock(Turn& turn) {
  if (is_compared(turn)) {
    if (adopts()) return begin_comparison(turn);
    send_hash(turn);
  }
  if (phase_ != Phase::failed) close_clock(turn);
}

void Sfb::close_clock(Turn& turn) {
  phase_ = Phase::deciding;
  asked_ = turn.now();
  stop_.round_done(clock_ - 1, turn.params(), samples_, within(stop_, turn));
}

bool Sfb::end_run(Turn& turn) {
  const auto taken = final_return_.take(/*gives=*/true, within(final_return_, turn),
                                        within(final_.overlay(), turn));
  if (!taken) fail(taken.error(), turn);
  if (!taken || !*taken) return false;
  phase_ = Phase::ended;
  turn.finish();
  return false;
}

bool Sfb::decide(Turn& turn) {
  const StopRule::Step step = stop_.after(clock_ - 1);
  if (step == StopRule::Step::wait) return false;
  if (step == StopRule::Step::go_on) {
    phase_ = Phase::ready;
    return true;
  }
  phase_ = copies_differ() ? Phase::flushing : Phase::ended;
  if (!copies_differ()) turn.finish();
  return true;
}

bool Sfb::is_complete(Round clocks) const {
  if (!has_factors()) return true;
  return std::ranges::all_of(place_.members.with(Role::worker),
                             [&](Rank rank) { return store_.is_complete(rank, clocks); });
}

bool Sfb::can_apply() const {
  if (!is_partial()) return is_complete(clock_ + 1);
  return !has_factors() || std::ranges::all_of(senders_of(clock_), [&](Rank rank) {
    return store_.is_here(rank, clock_);
  });
}

std::vector<Rank> Sfb::origins(Round clock) const {
  if (is_partial()) {
    std::vector<Rank> ranks = senders_of(clock);
    ranks.insert(std::ranges::upper_bound(ranks, place_.self), place_.self);
    return ranks;
  }
  std::vector<Rank> ranks = place_.members.with(Role::worker);
  std::erase_if(ranks, [&](Rank rank) { return !store_.counts(rank, clock); });
  return ranks;
}

std::uint32_t Sfb::parties() const {
  return std::uint32_t(
      std::ranges::count_if(live_, [&](Rank rank) { return store_.entry(rank) <= clock_; }));
}

void Sfb::fail(const Error& error, Turn& turn) {
  phase_ = Phase::failed;
  turn.fail({error.kind, who("sfb, clock " + std::to_string(clock_), turn.place()) + error.what});
}

std::string Sfb::waiting_for() const {
  if (phase_ == Phase::deciding) return stop_.waiting_for();
  if (phase_ == Phase::averaging || phase_ == Phase::mixing || phase_ == Phase::comparing)
    return final_.waiting_for();
  if (phase_ == Phase::adopting)
    return "copies differ: the model of rank " + std::to_string(giver_);
  const bool flushes = phase_ == Phase::flushing, waits = phase_ == Phase::exchanging;
  const bool returns = phase_ == Phase::outside;
  if (phase_ == Phase::entering) return "the verdict on clock " + std::to_string(clock_);
  if (!flushes && !waits && !returns && phase_ != Phase::ready) return "";
  if (!is_settled_)
    return "epoch " + std::to_string(epoch_) +
           ": which clocks ranks have:" + listed(recovery_.missing());
  if (returns)
    return "the model of the senior worker, to enter with clock " +
           std::to_string(store_.entry(place_.self)) + "; " + final_.waiting_for();
  const Round clocks = waits     ? clock_ + 1
                       : flushes ? clock_
                                 : clock_ - std::min<Round>(clock_, config_.staleness);
  std::vector<Rank> late;
  if (has_factors())
    for (const Rank rank : origins(clocks > 0 ? clocks - 1 : 0))
      if (is_partial() ? waits && !store_.is_here(rank, clock_) : !store_.is_complete(rank, clocks))
        late.push_back(rank);
  if (late.empty()) return waits ? final_.waiting_for() : "";
  const std::string text = "clock " + std::to_string(clocks) + " of ranks" + listed(late);
  return factors_->waiting_after(text);
}

void Sfb::state(Archive& ar) {
  ar.expect("sfb");
  ar(phase_, clock_, samples_, stage_, own_samples_, compute_s_, means_, extras_);
  ar(store_, applied_, asked_, sent_bytes_);
  ar(has_entered_, epoch_, live_, since_, is_settled_, recovery_, hashes_);
  ar(comparisons_, giver_, given_);
  ar(meeting_, has_mixed_, owed_, stands_, proof_, optimizer_);
  outer_->state(ar);
  coder_.state(ar);
}

// --- Gradients of a worker of sync/sfb.h, whole or in stages, and the messages of each stage

// Computes the whole gradient, or its next stage.
void Sfb::compute(Turn& turn) {
  optimizer_.forget();
  if (!config_.wait_free) {
    if (parts_.layers().empty()) return turn.compute(Gradient{});
    return turn.compute(SufficientFactors{parts_.entries()});
  }
  const sfb::BackwardStage& stage = stages_[stage_];
  BackwardPart part{.first = stage.first,
                    .end = stage.end,
                    .begins = stage_ == 0,
                    .layers = {},
                    .share = stage.share};
  for (const std::uint32_t k : stage.layers) part.layers.push_back(parts_.layers()[k].entry);
  std::ranges::sort(part.layers);
  turn.compute(part);
}

// Sends the finished part of the gradient: factors to the other workers, the rest into a mean.
void Sfb::on_stage(const StepResult& step, Turn& turn) {
  compute_s_ += seconds(step.elapsed);
  if (stage_ == 0) {
    own_samples_ = step.samples;
    if (!turn.place().phantom) turn.record("train_loss", clock_, step.loss);
  }
  if (!all_finite(step.factors) || !all_finite(turn.grads()))
    return fail(not_finite("its gradient has values that are not finite; lower [optimizer] rate"),
                turn);
  send_factors(step, stages_[stage_].layers, turn);
  if (phase_ != Phase::failed && !is_eager()) begin_mean(turn);
}

// Sends u_p and v_p of these layers, which are listed from the output down. step.factors has them
// from the input up.
void Sfb::send_factors(const StepResult& step, const std::vector<std::uint32_t>& layers,
                       Turn& turn) {
  const bool phantom = turn.place().phantom;
  std::uint64_t edge = 0;
  for (const std::uint32_t k : layers) edge += parts_.layers()[k].out + parts_.layers()[k].in;
  const std::uint64_t rows = phantom || edge == 0 ? own_samples_ : step.factors.size() / edge;
  if (!phantom && (step.factors.size() != rows * edge || (edge > 0 && (rows < 1 || rows > batch_))))
    return fail(invalid("the learner gives " + std::to_string(step.factors.size()) +
                        " numbers as factors; expected 1 to " + std::to_string(batch_) +
                        " rows of " + std::to_string(edge) + ", by [data] batch"),
                turn);
  const float* end = step.factors.data() + step.factors.size();
  for (const std::uint32_t k : layers) {
    const sfb::FactorLayer& layer = parts_.layers()[k];
    sfb::Factors own;
    if (!phantom) {
      const float* v = end - rows * layer.in;
      const float* u = v - rows * layer.out;
      own = {{u, v}, {v, end}};
      end = u;
    }
    sfb::FactorsHeader header{.epoch = epoch_,
                              .clock = clock_,
                              .origin = turn.self(),
                              .part = k,
                              .rows = std::uint32_t(rows),
                              .parties = parties(),
                              .samples = own_samples_};
    VectorContent content = sfb::encode(header, layer, own, config_.sparse_v, coder_);
    store_.add(header, content);
    spread({header, std::move(content)}, turn);
  }
}

// With staleness: sends r_p to all workers.
void Sfb::send_rest(Turn& turn) {
  if (kinds_of_parts() == parts_.layers().size()) return;
  const sfb::FactorsHeader header{.epoch = epoch_,
                                  .clock = clock_,
                                  .origin = turn.self(),
                                  .part = kinds_of_parts() - 1,
                                  .parties = parties(),
                                  .samples = own_samples_};
  VectorContent content =
      sfb::encode(header, parts_.gather(turn.grads()), parts_.rest_length(), coder_);
  store_.add(header, content);
  spread({header, std::move(content)}, turn);
}

void Sfb::begin_mean(Turn& turn) {
  const sfb::BackwardStage& stage = stages_[stage_];
  if (stage.rest_length == 0) return;
  Overlay& overlay = final_.overlay();
  const std::vector<float> rest = sfb::Parts::gather_ranges(stage.rest, turn.grads());
  const Status begun =
      overlay.begin({clock_, 0, mean_range(stage_, is_partial())}, {},
                    {.values = rest, .length = stage.rest_length, .weight = double(own_samples_)},
                    within(overlay, turn));
  if (!begun) fail(begun.error(), turn);
}

void Sfb::begin_buffers(Turn& turn) {
  const std::uint64_t length = place_.layout->buffers().length;
  if (length == 0 || is_partial()) return;  // the means of models contain them
  Overlay& overlay = final_.overlay();
  const Status begun = overlay.begin(
      {clock_, 0, kBuffersRange}, {},
      {.values = buffers(turn), .length = length, .weight = double(own_samples_), .exact = true},
      within(overlay, turn));
  if (!begun) fail(begun.error(), turn);
}

std::map<std::uint32_t, std::uint64_t> Sfb::mean_lengths() const {
  std::map<std::uint32_t, std::uint64_t> lengths;
  for (std::uint32_t i = 0; i < stages_.size(); ++i)
    if (stages_[i].rest_length > 0) lengths[mean_range(i, is_partial())] = stages_[i].rest_length;
  const std::uint64_t beside =
      is_partial() ? place_.layout->size() : place_.layout->buffers().length;
  if (beside > 0) lengths[kBuffersRange] = beside;
  return lengths;
}

bool Sfb::is_mean_here() {
  Overlay& overlay = final_.overlay();
  bool is_here = true;
  for (std::uint32_t i = 0; i < stages_.size(); ++i) {
    if (stages_[i].rest_length == 0 || means_.contains(i)) continue;
    if (auto mean = overlay.poll({clock_, 0, mean_range(i, is_partial())}))
      means_[i] = *std::move(mean);
    else
      is_here = false;
  }
  const bool has_extras = !is_partial() && place_.layout->buffers().length > 0;
  if (has_extras && !extras_) extras_ = overlay.poll({clock_, 0, kBuffersRange});
  return is_here && (!has_extras || extras_);
}

// --- Application of received gradients by a worker of sync/sfb.h

// Sets grads() to g and starts the optimiser: momentum moves once per clock.
void Sfb::apply_sum(Turn& turn) {
  turn.record("wait_s", clock_, seconds(turn.now() - asked_));
  const auto g = turn.grads().first(parameter_count(turn.place()));
  std::uint64_t samples = 0;
  const std::vector<Rank> from = origins(clock_);
  for (std::uint32_t part = 0; part < parts_.layers().size(); ++part) {
    const sfb::FactorLayer& layer = parts_.layers()[part];
    std::vector<sfb::Factors> factors;
    std::vector<double> weights;
    samples = 0;
    for (const Rank origin : from) {
      const auto& piece = store_.pieces(origin, clock_).at(part);
      samples += piece.header.samples;
      weights.push_back(double(piece.header.samples));
      auto decoded = sfb::decode(piece.header, layer, piece.content, coder_);
      LH_CHECK(decoded);  // was checked on arrival
      factors.push_back(*std::move(decoded));
    }
    if (g.empty()) continue;
    std::vector<sfb::FactorTerm> terms;
    for (std::size_t i = 0; i < factors.size(); ++i)
      terms.push_back({&factors[i], weights[i] / double(samples)});
    sfb::weight_gradient(terms, layer.out, layer.in,
                         g.subspan(layer.weight.offset, layer.weight.length));
    if (layer.bias)
      sfb::bias_gradient(terms, layer.out, g.subspan(layer.bias->offset, layer.bias->length));
  }
  for (const auto& [stage, mean] : means_) {
    if (!mean.counted.empty()) sfb::Parts::scatter_ranges(stages_[stage].rest, mean.values, g);
    if (samples == 0) samples = plus_samples(0, mean.weight);
  }
  if (extras_ && !g.empty()) std::ranges::copy(extras_->values, buffers(turn).begin());
  // Estimates the samples of all workers from those known here.
  double all = double(samples);
  if (is_partial() && has_factors()) all *= double(workers_of(clock_).size()) / double(from.size());
  samples_ = plus_samples(samples_, std::floor(all));
  means_.clear();
  extras_.reset();
  outer_->apply(g);
  phase_ = Phase::applying;
  turn.compute(ApplyGradient{});
}

// Applies the arrived clocks, whole: origins by rank, the clocks of an origin in order.
void Sfb::apply_arrived(Turn& turn) {
  for (Rank origin = 0; origin < place_.size(); ++origin) {
    Round& applied = applied_[origin];
    for (const Round done = store_.done(origin); applied < done; ++applied) {
      if (!store_.find(origin, applied)) continue;  // the clock does not count
      const auto& pieces = store_.pieces(origin, applied);
      for (const auto& [part, piece] : pieces) apply_eagerly(piece, turn);
      samples_ = plus_samples(samples_, double(pieces.begin()->second.header.samples));
      turn.record("staleness", clock_, double(clock_) - double(applied));
    }
  }
}

void Sfb::apply_eagerly(const sfb::FactorStore::Piece& piece, Turn& turn) {
  const auto w = parameters(turn);
  if (w.empty()) return;
  const sfb::FactorsHeader& header = piece.header;
  const double share = rate_share_ ? rate_share_(header.clock) : 1;
  const double by = rate_ * share / double(header.parties);
  const auto subtract = [&](Range range, std::span<const float> g) {
    for (std::size_t i = 0; i < g.size(); ++i) {
      float& value = w[range.offset + i];
      value = float(double(value) - by * double(g[i]));
    }
  };
  if (header.part == parts_.layers().size()) {
    const auto rest = sfb::decode(header, parts_.rest_length(), piece.content, coder_);
    LH_CHECK(rest);
    std::span<const float> left = *rest;
    for (const Range& range : parts_.rest()) {
      subtract(range, left.first(range.length));
      left = left.subspan(range.length);
    }
    return;
  }
  const sfb::FactorLayer& layer = parts_.layers()[header.part];
  const auto factors = sfb::decode(header, layer, piece.content, coder_);
  LH_CHECK(factors);
  const sfb::FactorTerm term{&*factors, 1};
  std::vector<float> g(layer.weight.length);
  sfb::weight_gradient({&term, 1}, layer.out, layer.in, g);
  subtract(layer.weight, g);
  if (!layer.bias) return;
  g.resize(layer.out);
  sfb::bias_gradient({&term, 1}, layer.out, g);
  subtract(*layer.bias, g);
}

// Returns the bytes saved by factors, compared with a mean of the matrices of these layers.
double Sfb::saved_bytes(std::size_t parties) const {
  double saved = 0;
  for (const sfb::FactorLayer& layer : parts_.layers()) {
    const sfb::LayerShape shape =
        sfb::shape_of(layer.out, layer.in, own_samples_, parties, config_);
    saved += sfb::matrix_numbers(shape) - sfb::factor_numbers(shape);
  }
  return saved * sizeof(float);
}

}  // namespace longhaul::sync
