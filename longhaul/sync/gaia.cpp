#include "longhaul/sync/gaia.h"

#include <algorithm>

#include "longhaul/base/decimal.h"
#include "longhaul/overlay/belief.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"

namespace longhaul::sync {
namespace {

constexpr Service kUpdates{.priority = 3}, kCuts{.priority = 5}, kBarriers{.priority = 7};

// Of one peer, what is announced and not read: it is read at once but while a cut is made.
constexpr std::uint32_t kUnreadUpdates = 2;

// The reporter alone says when enough samples were used.
StopConfig stop_of(StopConfig config, std::uint32_t staleness) {
  config.apart = staleness + 2;
  config.reporter_counts = true;
  return config;
}

std::vector<Range> parameter_ranges(const Layout& layout) {
  std::vector<Range> ranges;
  for (const LayerRange& layer : layout.layers())
    if (layer.role == LayerRange::Role::parameter) ranges.push_back(layer.range);
  return ranges;
}

std::optional<gaia::Groups> groups_of(const gaia::Config& config, const SyncParts& parts,
                                      const Place& place) {
  if (config.exchange == "direct") return std::nullopt;
  return gaia::make_groups(config, overlay::delays_of(parts.network, place), place);
}

// In lock-step nothing depends on time but a threshold that measures it.
void adapt_gaia(const Settings& settings, SyncTraits& traits) {
  const Setting* bound = settings.find("staleness");
  const auto* clocks = bound ? std::get_if<std::int64_t>(&bound->value.data) : nullptr;
  if (clocks && *clocks == 0 && settings.text("threshold") != "bandwidth") traits.bits = Bits::rank;
}

}  // namespace

SyncEntry Gaia::entry() {
  return strategy_entry<Gaia>(
      {.name = "gaia",
       .summary = "send significant updates only, at most some clocks ahead",
       .traits = {.bits = Bits::schedule,
                  .takes_outer = false,
                  .no_feedback = "keeps what a codec loses and sends it later, as feedback would",
                  .takes_unbiased = false,  // its own filter is what makes updates sparse
                  .when_lost = "the others agree on one base without it and go on",
                  .lets_return = true,
                  .mean_at_end = true},
       .costs = {{.rounds = "every H steps (1)",
                  .sent = "up to (n-1) S, the significant",
                  .waits_for = "the slowest, once s ahead",
                  .staleness = "s clocks",
                  .memory = "(3 + (s+2) n) S at most",
                  .when_lost = "S to some, once"},
                 {.variant = "hubs",
                  .settings = {{"exchange", {std::string("gaia_hubs")}}},
                  .rounds = "every H steps (1)",
                  .sent = "g-1 times; a hub h+2g-3 times",
                  .waits_for = "the slowest, once s ahead",
                  .staleness = "s clocks",
                  .memory = "(3 + (s+2) (g+h)) S at most",
                  .when_lost = "S to all, once"}},
       .adapt = adapt_gaia});
}

Gaia::Gaia(const Config& config, SyncParts parts, const Place& place)
    : config_(config),
      place_(place),
      ranges_(parameter_ranges(*place.layout)),
      groups_(groups_of(config, parts, place)),
      final_(std::move(parts.overlay)),
      stop_(stop_of(parts.stop, config.staleness)),
      coder_(place.phantom, parts.make_codec(false), nullptr),
      threshold_(config,
                 [share = parts.rate_share, steps = config.steps](std::uint64_t clock) {
                   return share ? share((clock - 1) * steps) : 1;
                 }),
      base_(ranges_) {
  own(final_.overlay(), kOverlayChild);
  const auto admission = [this](auto member) {
    return [this, member](Rank from, const auto& header, const ContentShape& shape) {
      return (this->*member)(from, header, shape);
    };
  };
  ChannelConfig updates{.stream = "gaia",
                        .limits = ChannelLimits::models(kUnreadUpdates, *place.layout),
                        .service = kUpdates};
  updates.limits.vectors = kUnreadUpdates * std::uint32_t(ranges_.size() + 1);
  updates_ = std::make_unique<UpdateChannel>(place, updates, parts.make_transfer(), nullptr,
                                             nullptr, admission(&Gaia::admit));
  cuts_ = std::make_unique<CutChannel>(
      place,
      ChannelConfig{.stream = "gaia base",
                    .limits = ChannelLimits::models(1, *place.layout),
                    .service = kCuts},
      std::move(parts.transfer), nullptr, nullptr, admission(&Gaia::admit_cut));
  barriers_ = std::make_unique<BarrierChannel>(
      place,
      ChannelConfig{.stream = "gaia barrier", .limits = updates.limits, .service = kBarriers},
      parts.make_transfer(), nullptr, nullptr, admission(&Gaia::admit_barrier));
  own(*cuts_, {1, "cuts"});
  own(*updates_, {2, "updates"});
  own(stop_, {3, "stop rule"});
  own(*barriers_, {4, "barriers"});
}

Status gaia::Config::check(const Config& config, const Place& place) {
  if ((config.threshold == "ramp" || config.threshold == "bandwidth") &&
      config.max_significance < config.significance)
    return invalid("[sync] max_significance: expected significance at least, which is " +
                   std::to_string(config.significance) + ", found " +
                   std::to_string(config.max_significance));
  if (config.threshold == "list" && config.list.empty())
    return invalid("[sync] list: expected a value of T at least, found none");
  if (config.exchange != "direct") return check_groups(config, place);
  if (!config.groups.empty() || !config.peers.empty())
    return invalid(
        "[sync] groups and peers: expected with exchange = \"gaia_hubs\" or "
        "\"peer_hubs\", found with \"direct\"");
  return Ok{};
}

void Gaia::on_start(Turn& turn) {
  acc_.assign(parameter_count(turn.place()), 0);
  phase_ = turn.place().comes_back() ? Phase::outside : Phase::ready;
}

// The overlay starts after its parent: the first clock begins here.
void Gaia::on_progress(Turn& turn) {
  if (phase_ == Phase::unstarted) return;
  if (turn.place().comes_back() && turn.view().epoch == 0) return;  // not let in yet
  if (!has_entered_ || epoch_ != turn.view().epoch) enter_view(turn);
  receive_cut(turn);
  if (is_settled_) {
    receive_barriers(turn);
    receive_updates(turn);
  }
  while (advance(turn)) {
  }
}

// One move, if one can be made now.
bool Gaia::advance(Turn& turn) {
  switch (phase_) {
    case Phase::ready:
      if (!is_settled_ || is_led_too_far()) return false;
      if (has_barrier() && blocked_.blocks(reads_, told_ + config_.staleness)) return false;
      read_model(turn);
      return true;
    case Phase::deciding: {
      const StopRule::Step step = done_ == 0 ? StopRule::Step::go_on : stop_.after(done_ - 1);
      if (step == StopRule::Step::wait) return false;
      if (step == StopRule::Step::go_on) {
        begin_clock(turn);
        return false;
      }
      phase_ = Phase::flushing;
      return true;
    }
    case Phase::telling:
      if (!is_settled_) return false;
      tell(turn);
      return phase_ != Phase::ended;
    case Phase::flushing:
      if (!is_settled_) return false;
      flush(turn);
      return true;
    case Phase::draining:
      return is_settled_ && base_.clock() == told_ && end(turn);
    case Phase::averaging:
      if (!final_.take(turn)) return false;
      phase_ = Phase::ended;
      turn.finish();
      return false;
    case Phase::unstarted:
    case Phase::outside:
    case Phase::computing:
    case Phase::ended:
      return false;
  }
  return false;
}

// w, of which the round before is the model that is scored. In lock-step all sites read the same
// b, whatever of the next clock has come already.
void Gaia::read_model(Turn& turn) {
  if (done_ > 0) turn.record("wait_s", done_ - 1, seconds(turn.now() - asked_));
  base_.read(told_ + config_.staleness, acc_, parameters(turn));
  phase_ = Phase::deciding;
  start_clock_ = base_.clock();
  start_samples_ = base_.samples();
  if (done_ == 0) return;
  // Clocks that are not complete: as many samples as here.
  const std::uint64_t since = told_ - start_clock_;
  Turn below = within(stop_, turn);
  stop_.round_done(done_ - 1, turn.params(), start_samples_ + since * clock_samples_ * live_.size(),
                   below);
}

void Gaia::begin_clock(Turn& turn) {
  phase_ = Phase::computing;
  const auto w = parameters(turn);
  start_.assign(w.begin(), w.end());
  const bool asks = config_.barrier != "off" && config_.staleness > 0;
  turn.compute(LocalStep{.ahead = asks ? config_.steps : 0}, config_.steps);
}

void Gaia::on_step(const StepResult& step, Turn&) {
  looks_up_ |= !step.reads_next.empty();
  reads_ = step.reads_next;
}

void Gaia::on_computed(const Computed& computed, Turn& turn) {
  if (phase_ != Phase::computing) return;  // it has failed
  if (!turn.place().phantom) turn.record("train_loss", done_, computed.loss);
  clock_samples_ = computed.samples;
  phase_ = Phase::telling;
  accumulate(turn);
}

double Gaia::scale(const Turn& turn) const {
  if (config_.scale) return *config_.scale;
  return 1 / double(live_with(Role::worker, turn.place(), turn.view()).size());
}

// acc <- acc + scale (w - start); w <- start + scale (w - start): updates are held against that
void Gaia::accumulate(Turn& turn) {
  const auto w = parameters(turn);
  const double by = scale(turn);
  for (std::size_t i = 0; i < w.size(); ++i) {
    const double moved = by * (double(w[i]) - double(start_[i]));
    acc_[i] = float(double(acc_[i]) + moved);
    if (by != 1) w[i] = float(double(start_[i]) + moved);
  }
  // Comparisons with NaN are false: it would never be significant, and stay.
  if (!all_finite(acc_) || !all_finite(turn.params()))
    fail(not_finite("its model has values that are not finite; lower [optimizer] rate"), turn);
}

double Gaia::exchanges() const { return exchanges_; }

double Gaia::sent_rate(const Turn& turn) const {
  const double time = seconds(turn.now() - told_at_);
  return time > 0 ? double(sent_bytes_) / time : 0;
}

void Gaia::tell(Turn& turn) {
  const Round clock = ++told_;
  const double rate = sent_rate(turn);
  sent_bytes_ = 0;
  told_at_ = turn.now();
  const gaia::Significance significance{.threshold = threshold_.next(clock, rate),
                                        .absolute = config_.abs_threshold,
                                        .everything = threshold_.flushes(clock)};
  Batch batch;
  for (std::uint32_t range = 0; range < ranges_.size(); ++range)
    take_significant(range, significance, Coding::up, batch, turn);
  std::uint64_t sent = 0;
  for (const EncodedUpdate& update : batch) sent += update.header.count;
  send_batch(routes_.flows.front(), std::move(batch), turn);
  turn.record("sent_share", done_, double(sent) / double(place_.layout->parameters().length));
  turn.record("sent_bytes", done_, double(sent_bytes_));
  ++done_;
  close_clock(clock_samples_, turn);
  phase_ = Phase::ready;
  asked_ = turn.now();
}

// What is left in acc, exactly: after it acc is 0, and b is the start and all updates.
void Gaia::flush(Turn& turn) {
  ++told_;
  Batch batch;
  for (std::uint32_t range = 0; range < ranges_.size(); ++range)
    take_significant(range, {.everything = true}, Coding::exact, batch, turn);
  send_batch(routes_.flows.front(), std::move(batch), turn);
  close_clock(0, turn);
  phase_ = Phase::draining;
}

// Moves the significant values of the range from acc to the batch and the inbox.
void Gaia::take_significant(std::uint32_t range, const gaia::Significance& significance,
                            Coding coding, Batch& batch, Turn& turn) {
  const Range at = ranges_[range];
  gaia::RangeUpdate update{.range = range, .count = 0, .indexes = {}, .values = {}};
  std::span<float> acc;
  if (place_.phantom) {
    const double share = phase_ == Phase::flushing ? 1 : config_.phantom_share;
    update.count = std::uint64_t(whole_up(share * double(at.length)));
  } else {
    acc = std::span(acc_).subspan(at.offset, at.length);
    update.indexes =
        gaia::significant(acc, turn.params().subspan(at.offset, at.length), significance);
    update.count = update.indexes.size();
  }
  if (update.count == 0) return;
  const gaia::Form form = gaia::smallest_form(update.count, at.length, coder_, coding);
  if (form == gaia::Form::dense) {
    update.count = at.length;
    update.indexes.clear();
    update.values.assign(acc.begin(), acc.end());
  } else {
    for (const std::uint32_t i : update.indexes) update.values.push_back(acc[i]);
  }
  const gaia::UpdateKey key{.clock = told_, .origin = turn.self()};
  VectorContent content = gaia::encode(update, form, at.length, key, coding, coder_);
  auto read = gaia::decode(range, form, update.count, at.length, content, key, coding, coder_);
  LH_CHECK(read);  // our own bytes
  for (std::size_t k = 0; k < read->values.size(); ++k) {
    float& left = acc[update.indexes.empty() ? k : update.indexes[k]];
    left = float(double(left) - double(read->values[k]));
  }
  base_.add(turn.self(), told_, *std::move(read));
  batch.push_back({{.kind = gaia::UpdateHeader::Kind::update,
                    .clock = told_,
                    .range = range,
                    .form = form,
                    .exact = coding == Coding::exact,
                    .count = update.count},
                   std::move(content),
                   std::move(update.indexes)});
}

void Gaia::close_clock(std::uint64_t samples, Turn& turn) {
  base_.close(turn.self(), told_, samples);
  send_clock(routes_.flows.front(), told_, samples, turn);
  flow_clocks_.front() = told_ + 1;
  deliver(turn);
}

// All updates of all sites are in b: the model that they sum up to. The mean of equal models is
// that model; of buffers, which every site has its own of, it is their mean.
bool Gaia::end(Turn& turn) {
  // A site that has come back hears from the others which mean comes next.
  if (!final_.overlay().next_round(0, 0)) return false;
  std::ranges::copy(base_.b(), parameters(turn).begin());
  phase_ = Phase::averaging;
  // Buffers of one that has computed nothing are those of the start.
  const Status begun = final_.begin(turn, within(final_.overlay(), turn),
                                    /*gives=*/done_ > joined_at_ || !place_.comes_back());
  if (!begun) fail(begun.error(), turn);
  return bool(begun);
}

void Gaia::fail(const Error& error, Turn& turn) {
  phase_ = Phase::ended;
  turn.fail({error.kind, "gaia, clock " + std::to_string(told_) + ", site " +
                             turn.place().me().site + " (rank " + std::to_string(turn.self()) +
                             "): " + error.what});
}

std::string Gaia::waiting_for() const {
  const auto list = [](std::string text, const std::vector<Rank>& ranks) {
    for (const Rank rank : ranks) text += " " + std::to_string(rank);
    return text;
  };
  if (has_entered_ && !is_settled_) {
    const std::vector<Rank> missing = cut_.missing();
    if (!missing.empty())
      return list("epoch " + std::to_string(epoch_) + ": the clocks of ranks", missing);
    return list("epoch " + std::to_string(epoch_) + ": the base of rank",
                {cut_.donor().value_or(place_.self)});
  }
  if (phase_ == Phase::outside) return "to be let in";
  if (phase_ == Phase::deciding) return stop_.waiting_for();
  if (phase_ == Phase::averaging) return final_.waiting_for();
  const bool waits = phase_ == Phase::draining || (phase_ == Phase::ready && is_led_too_far());
  if (phase_ == Phase::ready && is_settled_ && !waits && has_barrier())
    if (const auto slot = blocked_.blocks(reads_, told_ + config_.staleness))
      return list("updates that were announced by rank", {routes_.slots.at(*slot)});
  if (!waits) return "";
  const Round clock = phase_ == Phase::draining ? told_ : told_ - config_.staleness;
  std::vector<Rank> ranks;
  for (const gaia::Slot slot : base_.at_most(clock - 1)) ranks.push_back(routes_.slots.at(slot));
  const std::string text = list("clock " + std::to_string(clock) + " of ranks", ranks);
  const std::string below = updates_->waiting_for();
  return below.empty() ? text : text + "; " + below;
}

void Gaia::state(Archive& ar) {
  ar.expect("gaia");
  std::uint32_t nodes = place_.size();
  ar(nodes);
  if (nodes != place_.size() && config_.exchange == "gaia_hubs")
    return ar.fail(
        "with exchange = \"gaia_hubs\" a run that has begun gets no sites: its hubs are "
        "numbered behind them");
  ar(phase_, done_, told_, start_, acc_, base_, clock_samples_, start_samples_, start_clock_);
  ar(asked_, told_at_, sent_bytes_, has_entered_, epoch_, live_, is_settled_, cut_, lost_clock_,
     offered_);
  ar(flow_clocks_, sent_, threshold_, exchanges_, verdicts_, joined_at_);
  ar(looks_up_, reads_, blocked_, rates_);
  coder_.state(ar);
  if (ar.loading() && has_entered_ && !ar.failed()) routes_ = routes(live_, place_.self);
}

}  // namespace longhaul::sync
