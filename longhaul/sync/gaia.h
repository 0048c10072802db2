#pragma once
// Gaia: approximate synchronous parallel. Each site trains a replica of the model and sends only
// its significant updates. The other updates accumulate until they are significant. A site that
// leads the slowest one by too many clocks waits.
//   Hsieh et al., "Gaia: Geo-Distributed Machine Learning Approaching LAN Speeds", NSDI 2017:
//   significance filter, mirror clock and selective barrier; the filter, the schedules of its
//   threshold and the hubs as in the released code (github.com/kevinhsieh/non_iid_dml).
//
// b is the sum of all updates of complete clocks, inbox the updates of later clocks (gaia/base.h).
// acc holds the local updates that are not sent yet. DS is the setting `staleness`. Clock t + 1 of
// a site:
//   wait until every site has sent clock t - DS
//   w <- b + inbox[.. t + DS] + acc
//   acc <- acc + scale * (change of w in `steps` local steps)
//   sent <- those values v of acc with |acc_v| > T |w_v|, as the receivers read them
//   acc <- acc - sent;  inbox[t + 1][self] <- sent
// Not from the paper: the order of the sums, inbox[.. t + DS], the recovery after losses, returns
// and the end.
#include <algorithm>
#include <functional>

#include "longhaul/base/decimal.h"
#include "longhaul/core/registry.h"
#include "longhaul/core/vector_channel.h"
#include "longhaul/overlay/belief.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"
#include "longhaul/sync/gaia/base.h"
#include "longhaul/sync/gaia/blocked.h"
#include "longhaul/sync/gaia/config.h"
#include "longhaul/sync/gaia/cut.h"
#include "longhaul/sync/gaia/headers.h"
#include "longhaul/sync/gaia/routes.h"
#include "longhaul/sync/gaia/send_rates.h"
#include "longhaul/sync/gaia/threshold.h"
#include "longhaul/sync/gossip/ends_in_mean.h"
#include "longhaul/sync/tunable.h"

namespace longhaul::sync {

enum class GaiaPhase : std::uint8_t {
  unstarted,
  outside,   // has returned, and waits for a base
  ready,     // waits until it may read the model
  deciding,  // has read it; waits for a verdict
  computing,
  telling,    // has computed; sends the significant updates
  flushing,   // after the last clock: sends all of acc, as one more clock
  draining,   // waits for the flushes of the other sites
  averaging,  // takes part in the mean that the run ends with
  ended
};

class Gaia final : public gossip::EndsInMean<GaiaPhase>, public Tunable {
 public:
  static SyncEntry entry() {
    return strategy_entry<Gaia>(
        {.name = "gaia",
         .summary = "send significant updates only, at most some clocks ahead",
         .sends =
             "A worker sends the values whose updates are larger than T times their parameters, to "
             "all or to the hubs of groups; the others add up until they are. A job without "
             "numbers sends the share phantom_share",
         .traits = {.bits = Bits::schedule,
                    .takes_outer = false,
                    .no_feedback = "keeps what a codec loses and sends it later, as feedback would",
                    .takes_unbiased = false,  // the filter already makes updates sparse
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

  using Config = gaia::Config;
  static Status check(const Config& config, const Place& place) {
    return Config::check(config, place);
  }
  Gaia(const Config& config, SyncParts parts, const Place& place)
      : EndsInMean(std::move(parts.overlay), /*returns=*/false),
        config_(config),
        place_(place),
        ranges_(parameter_ranges(*place.layout)),
        groups_(groups_of(config, parts, place)),
        stop_(apart_by(config.staleness + 2, parts.stop)),
        coder_(place.phantom, parts.make_codec(false), nullptr),
        threshold_(config,
                   [share = parts.rate_share, steps = config.steps](std::uint64_t clock) {
                     return share ? share((clock - 1) * steps) : 1;
                   }),
        base_(ranges_) {
    ChannelConfig updates{.stream = "gaia",
                          .limits = ChannelLimits::models(kUnreadUpdates, *place.layout),
                          .service = kUpdates};
    updates.limits.vectors = kUnreadUpdates * std::uint32_t(ranges_.size() + 1);
    updates_ = std::make_unique<UpdateChannel>(place, updates, parts.make_transfer(), nullptr,
                                               nullptr, std::bind_front(&Gaia::admit, this));
    cuts_ = std::make_unique<CutChannel>(
        place,
        ChannelConfig{.stream = "gaia base",
                      .limits = ChannelLimits::models(1, *place.layout),
                      .service = kCuts},
        std::move(parts.transfer), nullptr, nullptr, std::bind_front(&Gaia::admit_cut, this));
    barriers_ = std::make_unique<BarrierChannel>(
        place,
        ChannelConfig{.stream = "gaia barrier", .limits = updates.limits, .service = kBarriers},
        parts.make_transfer(), nullptr, nullptr, std::bind_front(&Gaia::admit_barrier, this));
    own(*cuts_, {1, "cuts"});
    own(*updates_, {2, "updates"});
    own(stop_, {3, "stop rule"});
    own(*barriers_, {4, "barriers"});
  }

  void on_start(Turn& turn) override {
    acc_.assign(parameter_count(turn.place()), 0);
    phase_ = turn.place().comes_back() ? Phase::outside : Phase::ready;
  }

  void on_step(const StepResult& step, Turn&) override {
    looks_up_ |= !step.reads_next.empty();
    reads_ = step.reads_next;
  }

  void on_computed(const Computed& computed, Turn& turn) override {
    if (phase_ != Phase::computing) return;  // the run has failed
    if (!turn.place().phantom) turn.record("train_loss", done_, computed.loss);
    clock_samples_ = computed.samples;
    phase_ = Phase::telling;
    accumulate(turn);
  }

  // The overlay starts after its parent: the first clock begins here.
  void on_progress(Turn& turn) override {
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

  Round rounds_done() const override { return done_; }
  bool lets_return() const override { return true; }
  std::string waiting_for() const override {
    if (has_entered_ && !is_settled_) {
      const std::string epoch = "epoch " + std::to_string(epoch_);
      const std::vector<Rank> missing = cut_.missing();
      if (!missing.empty()) return epoch + ": the clocks of ranks" + listed(missing);
      return epoch + ": the base of rank " + std::to_string(cut_.donor().value_or(place_.self));
    }
    if (phase_ == Phase::outside) return "to be let in";
    if (phase_ == Phase::deciding) return stop_.waiting_for();
    if (phase_ == Phase::averaging) return final_.waiting_for();
    const bool waits = phase_ == Phase::draining || (phase_ == Phase::ready && is_led_too_far());
    if (phase_ == Phase::ready && is_settled_ && !waits && has_barrier())
      if (const auto slot = blocked_.blocks(reads_, told_ + config_.staleness))
        return "updates that were announced by rank " + std::to_string(routes_.slots.at(*slot));
    if (!waits) return "";
    const Round clock = phase_ == Phase::draining ? told_ : told_ - config_.staleness;
    std::vector<Rank> ranks;
    for (const gaia::Slot slot : base_.at_most(clock - 1)) ranks.push_back(routes_.slots.at(slot));
    const std::string text = "clock " + std::to_string(clock) + " of ranks" + listed(ranks);
    return updates_->waiting_after(text);
  }

  void state(Archive& ar) override {
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

  // Tunable: the significance T0.
  void tune(double significance) override { threshold_.set_significance(significance); }
  bool needs_agreement() const override { return false; }
  double exchanges() const override { return exchanges_; }

  // For tests.
  const gaia::Base& base() const { return base_; }
  const std::vector<float>& unsent() const { return acc_; }
  Round told() const { return told_; }
  // Returns this node's clocks since its start or return whose steps are or were in acc.
  Round clocks_added() const { return done_ - joined_at_ + (phase_ == Phase::telling ? 1 : 0); }
  bool is_settled() const { return is_settled_; }

 private:
  static constexpr Service kUpdates{.priority = 3}, kCuts{.priority = 5}, kBarriers{.priority = 7};

  // Updates of one peer that can be announced and unread. They are read at once, except during a
  // cut.
  static constexpr std::uint32_t kUnreadUpdates = 2;

  static std::vector<Range> parameter_ranges(const Layout& layout) {
    std::vector<Range> ranges;
    for (const LayerRange& layer : layout.layers())
      if (layer.role == LayerRange::Role::parameter) ranges.push_back(layer.range);
    return ranges;
  }

  static std::optional<gaia::Groups> groups_of(const gaia::Config& config, const SyncParts& parts,
                                               const Place& place) {
    if (config.exchange == "direct") return std::nullopt;
    return gaia::make_groups(config, overlay::delays_of(parts.network, place), place);
  }

  // In lock-step, only a threshold that measures time depends on time.
  static void adapt_gaia(const Settings& settings, SyncTraits& traits) {
    const auto config = config_of<gaia::Config>(settings);
    if (config.staleness == 0 && config.threshold != "bandwidth") traits.bits = Bits::rank;
  }

  using UpdateChannel = VectorChannel<gaia::UpdateHeader>;
  using CutChannel = VectorChannel<gaia::CutHeader>;
  using BarrierChannel = VectorChannel<gaia::BarrierHeader>;
  using CutHeader = gaia::CutHeader;
  using UpdateHeader = gaia::UpdateHeader;
  using Standing = CutHeader::Standing;
  using Phase = GaiaPhase;
  struct OfferedBase {
    Rank from = 0;
    Round clock = 0;
    std::uint64_t samples = 0;
    Snapshot b;  // with buffers at the end: the final model of the run
    void state(Archive& ar) {
      ar(from, clock, samples);
      archive_snapshot(ar, b);
    }
  };
  struct EncodedUpdate {  // one range
    gaia::UpdateHeader header;
    VectorContent content;
    std::vector<std::uint32_t> indexes;  // empty: all values
  };
  using Batch = std::vector<EncodedUpdate>;  // updates of one clock

  // --- the clocks of this site -----------------------------------------------------------------
  // Makes one move, if one is possible now.
  bool advance(Turn& turn) {
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
        return end_with_mean(/*gives=*/true, turn);
      default:
        return false;
    }
  }

  bool is_led_too_far() const { return base_.slowest() + config_.staleness < told_; }
  // Reads w, which is also the scored model of the round before. In lock-step all sites read the
  // same b, even if updates of the next clock have arrived.
  void read_model(Turn& turn) {
    if (done_ > 0) turn.record("wait_s", done_ - 1, seconds(turn.now() - asked_));
    base_.read(told_ + config_.staleness, acc_, parameters(turn));
    phase_ = Phase::deciding;
    start_clock_ = base_.clock();
    start_samples_ = base_.samples();
    if (done_ == 0) return;
    // In clocks that are not complete, every site counts with the samples of this site.
    const std::uint64_t since = told_ - start_clock_;
    stop_.round_done(done_ - 1, turn.params(),
                     start_samples_ + since * clock_samples_ * live_.size(), within(stop_, turn));
  }

  void begin_clock(Turn& turn) {
    phase_ = Phase::computing;
    assign(start_, parameters(turn));
    const bool asks = config_.barrier != "off" && config_.staleness > 0;
    turn.compute(LocalStep{.ahead = asks ? config_.steps : 0}, config_.steps);
  }

  // acc <- acc + scale (w - start); w <- start + scale (w - start), the base of the significance
  void accumulate(Turn& turn) {
    const auto w = parameters(turn);
    const double by = scale(turn);
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double moved = by * (double(w[i]) - double(start_[i]));
      acc_[i] = float(double(acc_[i]) + moved);
      if (by != 1) w[i] = float(double(start_[i]) + moved);
    }
    // Comparisons with NaN are false: a NaN would never be significant, and would stay in acc.
    if (!all_finite(acc_) || !all_finite(turn.params()))
      fail(not_finite("its model has values that are not finite; lower [optimizer] rate"), turn);
  }

  void tell(Turn& turn) {
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

  // Sends the rest of acc, exactly. Then acc is 0, and b is the start and all updates.
  void flush(Turn& turn) {
    ++told_;
    Batch batch;
    for (std::uint32_t range = 0; range < ranges_.size(); ++range)
      take_significant(range, {.everything = true}, Coding::exact, batch, turn);
    send_batch(routes_.flows.front(), std::move(batch), turn);
    close_clock(0, turn);
    phase_ = Phase::draining;
  }

  // Begins the mean that the run ends with. All updates of all sites are in b, so the models are
  // equal and their mean is that model. Every site has its own buffers, which are averaged.
  bool end(Turn& turn) {
    // A returned site receives the number of the next mean from the other sites.
    if (!final_.overlay().next_round(0, 0)) return false;
    std::ranges::copy(base_.b(), parameters(turn).begin());
    // Buffers of a site that has computed nothing are those of the start.
    return begin_mean(turn, /*gives=*/done_ > joined_at_ || !place_.comes_back());
  }

  double scale(const Turn& turn) const {
    if (config_.scale) return *config_.scale;
    return 1 / double(live_workers(turn).size());
  }

  double sent_rate(const Turn& turn) const {
    const double time = seconds(turn.now() - told_at_);
    return time > 0 ? double(sent_bytes_) / time : 0;
  }

  // Moves the significant values of the range from acc to the batch and the inbox.
  void take_significant(std::uint32_t range, const gaia::Significance& significance, Coding coding,
                        Batch& batch, Turn& turn) {
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

  void close_clock(std::uint64_t samples, Turn& turn) {
    base_.close(turn.self(), told_, samples);
    send_clock(routes_.flows.front(), told_, samples, turn);
    flow_clocks_.front() = told_ + 1;
    deliver(turn);
  }

  std::string place_in_run() const override { return "gaia, clock " + std::to_string(told_); }

  // --- what is sent and received ---------------------------------------------------------------
  Result<bool> admit(Rank from, const UpdateHeader& header, const ContentShape& shape) const {
    if (header.epoch > epoch_) return malformed("an update of a view to come");
    if (header.epoch < epoch_) return false;
    const auto slot = routes_.slots.find(header.slot);
    if (slot == routes_.slots.end() || slot->second != from)
      return malformed("an update for slot " + std::to_string(header.slot) +
                       ", which the sender does not have");
    if (header.kind == UpdateHeader::Kind::clock) {
      if (shape.kind != ContentKind::none) return malformed("a clock with a vector");
      return true;
    }
    if (header.range >= ranges_.size())
      return malformed("an update of range " + std::to_string(header.range) + " of " +
                       std::to_string(ranges_.size()));
    LH_TRY(gaia::check_shape(header.form, header.count, length_of(header.range), shape, coder_,
                             header.exact ? Coding::exact : Coding::up));
    return true;
  }

  Result<bool> admit_cut(Rank, const CutHeader& header, const ContentShape& shape) const {
    if (header.epoch > epoch_) return malformed("a cut of a view to come");
    if (header.epoch < epoch_) return false;
    const bool is_report = header.kind == CutHeader::Kind::report;
    const Range whole{0, place_.layout->size()};
    const bool is_base =
        shape.kind == ContentKind::values &&
        shape.range == (header.standing == Standing::ended ? whole : place_.layout->parameters());
    if (is_report ? shape.kind != ContentKind::none : !is_base)
      return malformed("a base of another size, or a report with one");
    if (header.standing >= Standing::flushed && header.clock == 0)
      return malformed("an end before the first clock");
    // A complete clock contains an update of this site, unless the site has returned since.
    if (phase_ != Phase::outside && header.clock > told_)
      return malformed("clock " + std::to_string(header.clock) + " where this site has sent " +
                       std::to_string(told_));
    return !is_settled_;
  }

  Result<bool> admit_barrier(Rank from, const gaia::BarrierHeader& header,
                             const ContentShape& shape) const {
    if (header.epoch > epoch_) return malformed("a barrier of a view to come");
    if (header.epoch < epoch_) return false;
    const auto slot = routes_.slots.find(header.slot);
    if (slot == routes_.slots.end() || slot->second != from)
      return malformed("a barrier for slot " + std::to_string(header.slot) +
                       ", which the sender does not have");
    if (header.range >= ranges_.size())
      return malformed("a barrier of range " + std::to_string(header.range) + " of " +
                       std::to_string(ranges_.size()));
    LH_TRY(gaia::check_index_shape(header.form, header.count, length_of(header.range), shape));
    return true;
  }

  gaia::Routes routes(const std::vector<Rank>& live, Rank of) const {
    if (!groups_) return gaia::direct_routes(live, of);
    const gaia::Groups left = gaia::without_lost(*groups_, live);
    return config_.exchange == "gaia_hubs" ? gaia::hub_routes(left, place_.size(), of)
                                           : gaia::peer_routes(left, place_.size(), of);
  }

  // Enters the view of this turn. All sites begin at clock 0 with equal models. After a loss or a
  // return, a cut comes first.
  void enter_view(Turn& turn) {
    const bool is_first = !std::exchange(has_entered_, true) && turn.view().epoch == 0;
    epoch_ = turn.view().epoch;
    live_ = live_workers(turn);
    lost_clock_ = 0;
    for (const auto& [slot, rank] : routes_.slots)
      if (slot < place_.size() && !turn.view().has(rank) && base_.has(slot))
        lost_clock_ = std::max(lost_clock_, base_.mirror(slot));
    routes_ = routes(live_, place_.self);
    offered_.reset();
    verdicts_.clear();
    blocked_.clear();
    rates_.clear();
    for (const auto& [clock, handle] : sent_) updates_->cancel(handle, within(*updates_, turn));
    sent_.clear();
    if (is_first) {
      const auto w = parameters(turn);
      return settle({w.begin(), w.end()}, 0, 0, turn);
    }
    is_settled_ = false;
    cut_.begin(epoch_, live_);
    const CutHeader own = report(turn);
    cut_.report(turn.self(), own.clock, own.standing);
    std::vector<Rank> others = live_;
    std::erase(others, turn.self());
    Turn cut = within(*cuts_, turn);
    cuts_->send(others, own, {}, {}, cut);
  }

  void receive_cut(Turn& turn) {
    cuts_->drop_lost();
    while (auto one = cuts_->poll(within(*cuts_, turn))) {
      const CutHeader& header = one->header;
      if (header.epoch != epoch_ || is_settled_) continue;
      if (header.kind == CutHeader::Kind::report) {
        cut_.report(one->from, header.clock, header.standing);
        if (phase_ == Phase::outside && one->from == senior_worker(turn.place(), turn.view()))
          verdicts_ = header.verdicts;
      } else if (cut_.donor_of_reported() == one->from) {
        // The donor among the reporters: offers of other sites cannot replace the donor's.
        offered_ = {one->from, header.clock, header.samples, one->content.values()};
      }
    }
    if (!is_settled_) try_settle(turn);
  }

  // Returns this site's report. Later verdicts of the senior worker reach all nodes of the view.
  gaia::CutHeader report(Turn& turn) {
    CutHeader own{.kind = CutHeader::Kind::report, .epoch = epoch_, .clock = base_.clock()};
    if (phase_ == Phase::outside) own.standing = Standing::outside;
    if (phase_ == Phase::averaging || (phase_ == Phase::draining && base_.clock() == told_))
      own.standing = Standing::flushed;
    if (phase_ == Phase::ended) own.standing = Standing::ended;
    if (phase_ == Phase::outside || turn.view().returned.empty() || !is_senior(turn)) return own;
    Archive ar;
    stop_.hand_over(ar);
    const Buffer bytes = ar.take();
    LH_CHECK(bytes.size() <= gaia::kMostVerdictBytes);
    for (const std::byte byte : bytes) own.verdicts.push_back(std::uint8_t(byte));
    return own;
  }

  // Settles the view when all sites have reported and the donor's base has arrived where needed.
  void try_settle(Turn& turn) {
    if (!cut_.missing().empty()) return;
    const auto found = cut_.donor();
    if (!found) {
      is_settled_ = true;
      return fail(state_lost("all sites that knew the model are lost; resume from a checkpoint"),
                  turn);
    }
    const Rank donor = *found;
    const Round clock = cut_.clock();
    if (donor == turn.self()) send_base(turn);
    // Clocks of lost sites that this site has are dropped.
    const auto record = [&] {
      if (lost_clock_ > clock) turn.record("lost_clocks", done_, double(lost_clock_ - clock));
    };
    if (!cut_.needs_base(turn.self(), !groups_)) {
      record();
      return settle(base_.b(), clock, base_.samples(), turn);
    }
    if (!offered_ || offered_->from != donor || offered_->clock != clock) return;
    const OfferedBase base = *std::exchange(offered_, std::nullopt);
    if (phase_ == Phase::outside) join(base, turn);
    std::vector<float> b;
    if (base.b && !place_.phantom)
      b.assign(base.b->begin(), base.b->begin() + std::ptrdiff_t(acc_.size()));
    record();
    settle(std::move(b), clock, base.samples, turn);
  }

  void send_base(Turn& turn) {
    const std::vector<Rank> to =
        those_of(live_, [&](Rank rank) { return cut_.needs_base(rank, !groups_); });
    if (to.empty()) return;
    const bool has_ended = phase_ == Phase::ended;
    const Range range = has_ended ? Range{0, place_.layout->size()} : place_.layout->parameters();
    std::vector<float> values = base_.b();
    if (has_ended && !place_.phantom) values.assign(turn.params().begin(), turn.params().end());
    cuts_->send(to,
                {.kind = CutHeader::Kind::base,
                 .epoch = epoch_,
                 .clock = cut_.clock(),
                 .samples = base_.samples(),
                 .standing = cut_.standing()},
                VectorContent::values(snapshot_of(std::move(values)), range),
                {.coding = Coding::exact}, within(*cuts_, turn));
  }

  // Called at a returned site: begins at the clock of the base, without own updates.
  void join(const OfferedBase& base, Turn& turn) {
    Buffer bytes;
    for (const std::uint8_t byte : verdicts_) bytes.push_back(std::byte(byte));
    verdicts_.clear();
    Archive ar(bytes);
    stop_.hand_over(ar);
    if (const Status read = ar.finish(); !read)
      return fail(
          malformed("the verdicts that were received are none of this job: " + read.error().what),
          turn);
    const bool is_over = cut_.standing() != Standing::running;
    told_ = base.clock;
    done_ = joined_at_ = is_over ? base.clock - 1 : base.clock;  // the last is the flush
    phase_ = is_over ? Phase::draining : Phase::ready;
    asked_ = told_at_ = turn.now();
    if (cut_.standing() != Standing::ended) return;
    phase_ = Phase::ended;
    if (base.b) std::ranges::copy(*base.b, turn.params().begin());
    turn.finish();
  }

  void settle(std::vector<float> b, Round clock, std::uint64_t samples, Turn& turn) {
    is_settled_ = true;
    base_.begin(std::move(b), clock, samples, routes_.slot_numbers(), turn.self());
    LH_CHECK(base_.mirror(turn.self()) == told_);
    flow_clocks_.assign(routes_.flows.size(), clock + 1);
    deliver(turn);
  }

  void receive_updates(Turn& turn) {
    while (const auto sent = updates_->sent()) rates_.sent(sent->to, sent->bytes, turn.now());
    updates_->drop_lost();  // updates of an earlier view or of a lost peer
    while (auto one = updates_->poll(within(*updates_, turn))) {
      if (one->header.epoch != epoch_ || phase_ == Phase::ended) continue;
      const Status taken = take(one->from, one->header, one->content);
      if (taken) continue;
      return fail(broken_by(one->from, taken.error()), turn);
    }
    deliver(turn);
  }

  // Checks the whole update before it adds any of it.
  Status take(Rank from, const UpdateHeader& header, const VectorContent& content) {
    const bool is_clock = header.kind == UpdateHeader::Kind::clock;
    if (!base_.is_new(header.slot, header.clock, is_clock ? ~0u : header.range)) return Ok{};
    if (header.clock != base_.mirror(header.slot) + 1)
      return malformed("an update of clock " + std::to_string(header.clock) + " after clock " +
                       std::to_string(base_.mirror(header.slot)));
    if (header.clock > told_ + config_.staleness + 1)
      return malformed("an update of clock " + std::to_string(header.clock) +
                       ", further ahead than [sync] staleness allows");
    if (is_clock) {
      base_.close(header.slot, header.clock, header.samples);
      blocked_.release_clock(header.slot, header.clock);
      return Ok{};
    }
    auto update = gaia::decode(header.range, header.form, header.count, length_of(header.range),
                               content, {.clock = header.clock, .origin = from},
                               header.exact ? Coding::exact : Coding::up, coder_);
    if (!update) return update.error();
    base_.add(header.slot, header.clock, *std::move(update));
    blocked_.release(header.slot, header.clock, header.range);
    return Ok{};
  }

  // Sends the complete clocks of each flow, and adds complete clocks to b.
  void deliver(Turn& turn) {
    for (bool more = true; more;) {
      more = false;
      for (std::size_t i = 0; i < routes_.flows.size(); ++i) {
        const gaia::Flow& flow = routes_.flows[i];
        const auto is_here = [&](gaia::Slot slot) { return base_.mirror(slot) >= flow_clocks_[i]; };
        if (!std::ranges::all_of(flow.from, is_here)) continue;
        send_sum(flow, flow_clocks_[i]++, turn);
        more = true;
      }
    }
    base_.advance();
    // Keeps the updates that may still wait for a peer. Each peer has sent clock told_ - staleness,
    // and has read clocks up to `staleness` before that one.
    while (!sent_.empty() && sent_.front().first + 2 * config_.staleness + 3 < told_)
      sent_.pop_front();
  }

  // Sends exactly, because no site could keep the codec's error of a sum.
  void send_sum(const gaia::Flow& flow, Round clock, Turn& turn) {
    if (flow.to.empty()) return;
    Batch batch;
    for (gaia::RangeUpdate& update : base_.sum(flow.from, clock)) {
      const std::uint64_t length = length_of(update.range);
      const gaia::Form form = gaia::smallest_form(update.count, length, coder_, Coding::exact);
      gaia::RangeUpdate sent = form == gaia::Form::dense ? gaia::densely(update, length) : update;
      batch.push_back({{.kind = UpdateHeader::Kind::update,
                        .clock = clock,
                        .range = sent.range,
                        .form = form,
                        .exact = true,
                        .count = sent.count},
                       gaia::encode(sent, form, length, {.clock = clock, .origin = turn.self()},
                                    Coding::exact, coder_),
                       std::move(sent.indexes)});
    }
    send_batch(flow, std::move(batch), turn);
    send_clock(flow, clock, base_.samples_of(flow.from, clock), turn);
  }

  void send_batch(const gaia::Flow& flow, Batch batch, Turn& turn) {
    if (flow.to.empty()) return;
    announce(flow, batch, turn);
    const std::uint64_t whole =
        sizeof(float) * place_.layout->parameters().length * (live_.size() - 1);
    for (EncodedUpdate& update : batch) {
      update.header.epoch = epoch_;
      update.header.slot = flow.as;
      const ContentShape shape = update.content.shape();
      sent_bytes_ += shape.size * flow.to.size();
      exchanges_ += double(shape.size * flow.to.size()) / double(whole);
      if (has_barrier())
        for (const Rank to : flow.to) rates_.queued(to, shape.words() * sizeof(float), turn.now());
      sent_.emplace_back(update.header.clock,
                         updates_->send(flow.to, update.header, std::move(update.content),
                                        {.report_sent = has_barrier()}, within(*updates_, turn)));
    }
  }

  // In lock-step no site reads a clock before it is complete.
  bool has_barrier() const {
    return config_.staleness > 0 &&
           (config_.barrier == "on" || (config_.barrier == "auto" && looks_up_));
  }

  // Sends indexes ahead of the updates that will not leave in time.
  void announce(const gaia::Flow& flow, const Batch& batch, Turn& turn) {
    if (!has_barrier() || batch.empty()) return;
    std::uint64_t bytes = 0;
    for (const EncodedUpdate& update : batch) bytes += update.content.shape().bytes();
    std::vector<Rank> late;
    for (const Rank to : flow.to) {
      const auto wait = rates_.until_sent(to, bytes);
      if (config_.barrier_ms == 0 || (wait && *wait * 1e3 > config_.barrier_ms)) late.push_back(to);
    }
    if (late.empty()) return;
    turn.record("announced", batch.front().header.clock - 1, double(late.size()));
    for (const EncodedUpdate& update : batch) {
      const std::uint32_t range = update.header.range;
      const gaia::Form form = gaia::index_form(update.header.count, length_of(range));
      barriers_->send(
          late,
          {.epoch = epoch_,
           .clock = update.header.clock,
           .slot = flow.as,
           .range = range,
           .form = form,
           .count = update.header.count},
          gaia::encode_indexes(update.indexes, form, update.header.count, length_of(range)), {},
          within(*barriers_, turn));
    }
  }

  void receive_barriers(Turn& turn) {
    barriers_->drop_lost();
    while (auto one = barriers_->poll(within(*barriers_, turn))) {
      if (one->header.epoch != epoch_ || phase_ == Phase::ended) continue;
      if (const Status taken = take_barrier(one->header, one->content); !taken)
        return fail(broken_by(one->from, taken.error()), turn);
    }
  }

  Status take_barrier(const gaia::BarrierHeader& header, const VectorContent& content) {
    if (!base_.is_new(header.slot, header.clock, header.range)) return Ok{};  // the update is known
    if (header.clock > told_ + config_.staleness + 1)
      return malformed("a barrier of clock " + std::to_string(header.clock) +
                       ", further ahead than [sync] staleness allows");
    LH_LET(indexes,
           gaia::decode_indexes(header.form, header.count, length_of(header.range), content));
    const Range at = ranges_[header.range];
    blocked_.block(header.slot, header.clock, header.range,
                   gaia::ranges_of(indexes, at.offset, at.length));
    return Ok{};
  }

  void send_clock(const gaia::Flow& flow, Round clock, std::uint64_t samples, Turn& turn) {
    if (flow.to.empty()) return;
    updates_->send(flow.to,
                   {.kind = UpdateHeader::Kind::clock,
                    .epoch = epoch_,
                    .clock = clock,
                    .slot = flow.as,
                    .samples = samples},
                   {}, {}, within(*updates_, turn));
  }

  std::uint64_t length_of(std::uint32_t range) const { return ranges_.at(range).length; }

  const Config config_;
  const Place place_;
  const std::vector<Range> ranges_;  // ranges of the parameters, one per layer
  const std::optional<gaia::Groups> groups_;
  std::unique_ptr<UpdateChannel> updates_;
  std::unique_ptr<CutChannel> cuts_;
  std::unique_ptr<BarrierChannel> barriers_;
  StopRule stop_;
  Coder coder_;
  gaia::Threshold threshold_;

  Round done_ = 0;            // clocks computed
  Round joined_at_ = 0;       // `done_` of the base of a returned site; else 0
  Round told_ = 0;            // clocks sent, including the flush at the end
  std::vector<float> start_;  // w when the steps began
  std::vector<float> acc_;
  gaia::Base base_;
  std::uint64_t clock_samples_ = 0;  // samples of the last clock
  std::uint64_t start_samples_ = 0;  // samples of base_ when the steps began
  Round start_clock_ = 0;
  Time asked_{0}, told_at_{0};
  std::uint64_t sent_bytes_ = 0;  // bytes of updates since told_at_
  double exchanges_ = 0;          // models sent to all other sites since the start, in whole models

  bool has_entered_ = false;  // whether it has entered its first view
  Epoch epoch_ = 0;
  std::vector<Rank> live_;   // workers of that view
  bool is_settled_ = false;  // whether all sites have one base here, as far as known
  gaia::Cut cut_;
  Round lost_clock_ = 0;  // newest clock of a lost site that has arrived
  std::optional<OfferedBase> offered_;
  gaia::Routes routes_;             // routes among live_
  std::vector<Round> flow_clocks_;  // next clock of each flow
  std::deque<std::pair<Round, VectorHandle>> sent_;
  std::vector<std::uint8_t> verdicts_;  // from the senior worker, until this node has a base

  bool looks_up_ = false;     // whether a step has named the parameters that the next one reads
  std::vector<Range> reads_;  // ranges that the next clock reads; empty: every parameter
  gaia::Blocked blocked_;
  gaia::SendRates rates_;
};

}  // namespace longhaul::sync
