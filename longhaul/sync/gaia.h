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
// a site, a round of PeerStrategy:
//   acc <- acc + scale * (change of w in `steps` local steps)
//   sent <- those values v of acc with |acc_v| > T |w_v|, as the receivers read them
//   acc <- acc - sent;  inbox[t + 1][self] <- sent
//   wait until every site has sent clock t + 1 - DS
//   w <- b + inbox[.. t + 1 + DS] + acc
// After the last clock each site sends the rest of acc exactly, as one more clock, and waits for
// those of the others. Then all have the same b, and average their buffers.
//
// A lost site may have sent its last updates to some sites only, and a lost hub may have had sums.
// So in a new view each site tells the clock of its b. The site with the newest one, of several the
// lowest rank, sends its b to the sites with another clock. All continue from it and send their own
// updates of later clocks again. So no update of a live site is lost or counted twice, and the
// later updates of a lost site are dropped on every site. Until then no site adds an update, but
// each may compute one clock. A change before that begins this again. As all take the
// newest b, bases of one clock are always equal (with hubs up to rounding). A returned site enters
// with the senior worker's b and no updates of its own. It sends the clocks up to its round empty.
//
// A clock that comes twice is skipped. An update that is out of order or too far ahead, or the
// clock of a b that cannot be complete, is malformed. The donor can spoil b, as any site can by its
// updates.
// Not from the paper: the order of the sums, inbox[.. t + DS], losses, returns and the end.
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
#include "longhaul/sync/gaia/headers.h"
#include "longhaul/sync/gaia/routes.h"
#include "longhaul/sync/gaia/send_rates.h"
#include "longhaul/sync/gaia/threshold.h"
#include "longhaul/sync/peer_strategy.h"
#include "longhaul/sync/tunable.h"

namespace longhaul::sync {

class Gaia final : public PeerStrategy, public Tunable {
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
                    .when_lost = "S to some, once"}},
         .adapt = adapt_gaia});
  }

  using Config = gaia::Config;
  static Status check(const Config& config, const Place& place) {
    return Config::check(config, place);
  }
  Gaia(const Config& config, SyncParts parts, const Place& place)
      : PeerStrategy({.name = "gaia", .steps = config.steps, .apart = config.staleness + 2},
                     std::move(parts.overlay), parts.stop, place),
        config_(config),
        place_(place),
        ranges_(parameter_ranges(*place.layout)),
        groups_(groups_of(config, parts, place)),
        updates_(place, channel_config("gaia", kUpdates, *place.layout), parts.make_transfer(),
                 nullptr, nullptr, std::bind_front(&Gaia::admit, this)),
        barriers_(place, channel_config("gaia barrier", kBarriers, *place.layout),
                  parts.make_transfer(), nullptr, nullptr,
                  std::bind_front(&Gaia::admit_barrier, this)),
        bases_("bases", 1, parts, place,
               [all = place.layout->parameters()](const auto&, const ContentShape& shape) {
                 return shape.kind == ContentKind::values && shape.range == all;
               }),
        coder_(place.phantom, parts.make_codec(false), nullptr),
        threshold_(config,
                   [share = parts.rate_share, steps = config.steps](std::uint64_t clock) {
                     return share ? share((clock - 1) * steps) : 1;
                   }),
        acc_(parameter_count(place)),
        base_(ranges_) {
    own(updates_, {1, "updates"});
    own(barriers_, {5, "barriers"});
    own(bases_.channel(), {6, "bases"});
  }

  void on_step(const StepResult& step, Turn&) override {
    looks_up_ |= !step.reads_next.empty();
    reads_ = step.reads_next;
  }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    if (message.kind != gaia::BaseClock::kKind)
      return PeerStrategy::on_message(from, message, turn);
    return dispatch(MessageList<gaia::BaseClock>{}, message, [&](const auto& base) -> Status {
      if (base.epoch != turn.view().epoch) return Ok{};
      // A complete clock contains an update of this site, unless the site has returned since.
      if (base_.has(place_.self) && base.clock > told_)
        return malformed("clock " + std::to_string(base.clock) + " where this site has sent " +
                         std::to_string(told_));
      if (!std::ranges::binary_search(peers(), from) || !clocks_.emplace(from, base.clock).second)
        return malformed("the clock of no peer, or a second one");
      return Ok{};
    });
  }

  void state(Archive& ar) override {
    PeerStrategy::state(ar);
    std::uint32_t nodes = place_.size();
    ar(nodes);
    if (nodes != place_.size() && config_.exchange == "gaia_hubs")
      return ar.fail(
          "with exchange = \"gaia_hubs\" a run that has begun gets no sites: its hubs are "
          "numbered behind them");
    ar(told_, added_, start_, acc_, base_, clock_samples_, told_at_, sent_bytes_, is_settled_);
    ar(clocks_, donor_, lost_clock_, bases_, flow_clocks_, threshold_, exchanges_);
    ar(looks_up_, reads_, blocked_, rates_);
    coder_.state(ar);
    if (ar.loading() && !ar.failed()) routes_ = routes(peers());
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
  Round clocks_added() const { return added_; }
  bool is_settled() const { return is_settled_; }

 private:
  static constexpr Service kUpdates{.priority = 3}, kBarriers{.priority = 7};

  // Updates of one peer that can be announced and unread. They are read at once, except before
  // a view has one base.
  static constexpr std::uint32_t kUnreadUpdates = 2;

  static std::vector<Range> parameter_ranges(const Layout& layout) {
    std::vector<Range> ranges;
    for (const LayerRange& layer : layout.layers())
      if (layer.role == LayerRange::Role::parameter) ranges.push_back(layer.range);
    return ranges;
  }

  static ChannelConfig channel_config(std::string stream, Service service, const Layout& layout) {
    ChannelLimits limits = ChannelLimits::models(kUnreadUpdates, layout);
    limits.vectors = kUnreadUpdates * std::uint32_t(parameter_ranges(layout).size() + 1);
    return {.stream = std::move(stream), .limits = limits, .service = service, .one_view = true};
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

  using UpdateHeader = gaia::UpdateHeader;
  struct EncodedUpdate {  // one range
    gaia::UpdateHeader header;
    VectorContent content;
    std::vector<std::uint32_t> indexes;  // empty: all values
  };
  using Batch = std::vector<EncodedUpdate>;  // updates of one clock

  // --- the clocks of this site -----------------------------------------------------------------
  std::optional<Work> begin_round(Turn& turn) override {
    assign(start_, parameters(turn));
    const bool asks = config_.barrier != "off" && config_.staleness > 0;
    return LocalStep{.ahead = asks ? config_.steps : 0};
  }

  void on_steps_done(const Computed& computed, Turn& turn) override {
    clock_samples_ = computed.samples;
    ++added_;
    accumulate(turn);
  }

  // In lock-step all sites read the same b, even if updates of the next clock have arrived.
  bool end_round(Turn& turn) override {
    if (!is_settled_) return false;
    if (told_ == done_) tell(turn);
    if (is_led_too_far() || blocking()) return false;
    base_.read(told_ + config_.staleness, acc_, parameters(turn));
    // In clocks that are not complete, every site counts with the samples of this site.
    samples_ = double(base_.samples()) / double(peers().size() + 1) +
               double((told_ - base_.clock()) * clock_samples_);
    return true;
  }

  bool is_led_too_far() const { return base_.slowest() + config_.staleness < told_; }
  std::optional<gaia::Slot> blocking() const {
    if (!has_barrier()) return std::nullopt;
    return blocked_.blocks(reads_, told_ + config_.staleness);
  }

  std::string missing() const override {
    if (!is_settled_) return "the base of rank" + listed(donor_);
    if (phase_ == Phase::exchanging && !is_led_too_far())
      if (const auto slot = blocking())
        return "updates that were announced by rank " + std::to_string(routes_.slots.at(*slot));
    const Round clock = told_ - (phase_ == Phase::exchanging ? config_.staleness : 0);
    std::vector<Rank> ranks;
    for (const gaia::Slot slot : base_.at_most(clock - 1)) ranks.push_back(routes_.slots.at(slot));
    return updates_.waiting_after("clock " + std::to_string(clock) + " of ranks" + listed(ranks));
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
    const double rate = sent_rate(turn);
    sent_bytes_ = 0;
    told_at_ = turn.now();
    const std::uint64_t sent = send_updates({.threshold = threshold_.next(told_ + 1, rate),
                                             .absolute = config_.abs_threshold,
                                             .everything = threshold_.flushes(told_ + 1)},
                                            Coding::up, turn);
    turn.record("sent_share", done_, double(sent) / double(place_.layout->parameters().length));
    turn.record("sent_bytes", done_, double(sent_bytes_));
    close_clock(clock_samples_, turn);
  }

  // After the flush acc is 0, and b is the start and all updates.
  bool finish_rounds(Turn& turn) override {
    if (!is_settled_) return false;
    if (told_ == done_) {
      send_updates({.everything = true}, Coding::exact, turn);
      close_clock(0, turn);
    }
    if (base_.clock() != told_) return false;
    std::ranges::copy(base_.b(), parameters(turn).begin());
    return true;
  }

  double scale(const Turn& turn) const {
    if (config_.scale) return *config_.scale;
    return 1 / double(live_workers(turn).size());
  }

  double sent_rate(const Turn& turn) const {
    const double time = seconds(turn.now() - told_at_);
    return time > 0 ? double(sent_bytes_) / time : 0;
  }

  // Sends the significant values of acc in the next clock. Returns their number.
  std::uint64_t send_updates(const gaia::Significance& significance, Coding coding, Turn& turn) {
    ++told_;
    Batch batch;
    for (std::uint32_t range = 0; range < ranges_.size(); ++range)
      take_significant(range, significance, coding, batch, turn);
    std::uint64_t sent = 0;
    for (const EncodedUpdate& update : batch) sent += update.header.count;
    send_batch(routes_.flows.front(), std::move(batch), turn);
    return sent;
  }

  // Moves the significant values of the range from acc to the batch and the inbox.
  void take_significant(std::uint32_t range, const gaia::Significance& significance, Coding coding,
                        Batch& batch, Turn& turn) {
    const Range at = ranges_[range];
    gaia::RangeUpdate update{.range = range, .count = 0, .indexes = {}, .values = {}};
    std::span<float> acc;
    if (place_.phantom) {
      const double share = coding == Coding::exact ? 1 : config_.phantom_share;
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

  // Checks the header of an update or of an announcement.
  Status check_header(Rank from, const auto& header) const {
    const auto slot = routes_.slots.find(header.slot);
    if (slot == routes_.slots.end() || slot->second != from)
      return malformed("an update for slot " + std::to_string(header.slot) +
                       ", which the sender does not have");
    if (header.range >= ranges_.size())
      return malformed("an update of range " + std::to_string(header.range) + " of " +
                       std::to_string(ranges_.size()));
    return Ok{};
  }

  Result<bool> admit(Rank from, const UpdateHeader& header, const ContentShape& shape) const {
    LH_TRY(check_header(from, header));
    if (header.kind == UpdateHeader::Kind::clock) {
      if (shape.kind != ContentKind::none) return malformed("a clock with a vector");
      return true;
    }
    LH_TRY(gaia::check_shape(header.form, header.count, length_of(header.range), shape, coder_,
                             header.exact ? Coding::exact : Coding::up));
    return true;
  }

  Result<bool> admit_barrier(Rank from, const gaia::BarrierHeader& header,
                             const ContentShape& shape) const {
    LH_TRY(check_header(from, header));
    LH_TRY(gaia::check_index_shape(header.form, header.count, length_of(header.range), shape));
    return true;
  }

  gaia::Routes routes(std::vector<Rank> live) const {
    live.insert(std::ranges::lower_bound(live, place_.self), place_.self);
    if (!groups_) return gaia::direct_routes(live, place_.self);
    const gaia::Groups left = gaia::without_lost(*groups_, live);
    return config_.exchange == "gaia_hubs" ? gaia::hub_routes(left, place_.size(), place_.self)
                                           : gaia::peer_routes(left, place_.size(), place_.self);
  }

  // --- views -------------------------------------------------------------------------------------
  std::vector<Rank> peers_among(const std::vector<Rank>& workers, const Turn& turn) override {
    std::vector<Rank> others = workers;
    std::erase(others, place_.self);
    lost_clock_ = 0;
    for (const auto& [slot, rank] : routes_.slots)
      if (slot < place_.size() && !turn.view().has(rank) && base_.has(slot))
        lost_clock_ = std::max(lost_clock_, base_.mirror(slot));
    routes_ = routes(others);
    is_settled_ = false;
    donor_.clear();
    clocks_.clear();
    blocked_.clear();
    rates_.clear();
    bases_.begin_view(others);
    return others;
  }

  // Precedes the round in which this node enters the view, at each peer.
  void on_entering(const std::vector<Rank>& to, Turn& turn) override {
    clocks_[place_.self] = base_.clock();
    for (const Rank peer : to)
      turn.send(peer, gaia::BaseClock{epoch(), base_.clock()}, {}, kControl);
  }

  // All sites begin at clock 0 with equal models.
  void on_view_begun(Turn& turn) override {
    if (epoch() == 0) {
      const auto w = parameters(turn);
      return settle({w.begin(), w.end()}, 0, 0, turn);
    }
    const auto [donor, newest] =
        *std::ranges::max_element(clocks_, {}, &std::pair<const Rank, Round>::second);
    // No site is more than the clock of its round ahead.
    if (newest > done_ + 1)
      return fail(malformed("clock " + std::to_string(newest) + " of rank " +
                            std::to_string(donor) + " in round " + std::to_string(done_)),
                  turn);
    const auto needs_base = [&, newest = newest](Rank rank) {
      const auto clock = clocks_.find(rank);
      return clock == clocks_.end() || clock->second != newest;
    };
    if (needs_base(place_.self)) {
      donor_ = {donor};
      return;
    }
    if (donor == place_.self)
      bases_.send(those_of(peers(), needs_base), {newest, base_.samples()},
                  VectorContent::values(copied(base_.b()), place_.layout->parameters()),
                  {.coding = Coding::exact}, within(bases_.channel(), turn));
    settle(base_.b(), newest, base_.samples(), turn);
  }

  void settle(std::vector<float> b, Round clock, std::uint64_t samples, Turn& turn) {
    // Clocks of lost sites that this site has are dropped.
    if (lost_clock_ > clock) turn.record("lost_clocks", done_, double(lost_clock_ - clock));
    is_settled_ = true;
    told_ = std::max(told_, clock);  // at a returned site
    base_.begin(std::move(b), clock, samples, routes_.slot_numbers(), place_.self);
    LH_CHECK(base_.mirror(place_.self) == told_);
    flow_clocks_.assign(routes_.flows.size(), clock + 1);
    deliver(turn);
    while (told_ < done_) {  // at a returned site
      ++told_;
      close_clock(0, turn);
    }
  }

  // A returned site begins with b.
  void archive_model(Archive& ar, Turn& turn) override {
    std::vector<float> model;
    assign(model, turn.params());
    std::ranges::copy(base_.b(), model.begin());
    ar.floats(model);
    Round clock = base_.clock();
    std::uint64_t samples = base_.samples();
    ar(clock, samples);
    if (!ar.loading()) return;
    if (clock > done_ + 1) return ar.fail("holds a base of a later clock than its round");
    std::ranges::copy(model, turn.params().begin());
    told_ = clock;
    told_at_ = turn.now();
    const auto w = parameters(turn);
    base_.begin({w.begin(), w.end()}, clock, samples, {}, place_.self);
  }

  void receive(Turn& turn) override {
    if (!donor_.empty() && bases_.receive(donor_, within(bases_.channel(), turn))) {
      auto [header, content] = bases_.take(donor_.front());
      if (header.clock != clocks_.at(donor_.front()))
        return fail(broken_by(donor_.front(), malformed("a base of another clock")), turn);
      donor_.clear();
      std::vector<float> b;
      if (!place_.phantom) assign(b, *content.values());
      settle(std::move(b), header.clock, header.samples, turn);
    }
    if (!is_settled_ || phase_ == Phase::ended) return;
    read(barriers_, turn);
    while (const auto sent = updates_.sent()) rates_.sent(sent->to, sent->bytes, turn.now());
    read(updates_, turn);
    deliver(turn);
  }

  void read(auto& channel, Turn& turn) {
    channel.drop_lost();
    while (auto one = channel.poll(within(channel, turn)))
      if (const Status taken = take(one->from, one->header, one->content); !taken)
        return fail(broken_by(one->from, taken.error()), turn);
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

  Status take(Rank, const gaia::BarrierHeader& header, const VectorContent& content) {
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

  // --- what is sent ------------------------------------------------------------------------------
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
    const std::uint64_t whole = sizeof(float) * place_.layout->parameters().length * peers().size();
    for (EncodedUpdate& update : batch) {
      update.header.slot = flow.as;
      const ContentShape shape = update.content.shape();
      sent_bytes_ += shape.size * flow.to.size();
      exchanges_ += double(shape.size * flow.to.size()) / double(whole);
      if (has_barrier())
        for (const Rank to : flow.to) rates_.queued(to, shape.words() * sizeof(float), turn.now());
      updates_.send(flow.to, update.header, std::move(update.content),
                    {.report_sent = has_barrier()}, within(updates_, turn));
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
      barriers_.send(
          late,
          {.clock = update.header.clock,
           .slot = flow.as,
           .range = range,
           .form = form,
           .count = update.header.count},
          gaia::encode_indexes(update.indexes, form, update.header.count, length_of(range)), {},
          within(barriers_, turn));
    }
  }

  void send_clock(const gaia::Flow& flow, Round clock, std::uint64_t samples, Turn& turn) {
    if (flow.to.empty()) return;
    updates_.send(
        flow.to,
        {.kind = UpdateHeader::Kind::clock, .clock = clock, .slot = flow.as, .samples = samples},
        {}, {}, within(updates_, turn));
  }

  std::uint64_t length_of(std::uint32_t range) const { return ranges_.at(range).length; }

  const Config config_;
  const Place place_;
  const std::vector<Range> ranges_;  // ranges of the parameters, one per layer
  const std::optional<gaia::Groups> groups_;
  VectorChannel<UpdateHeader> updates_;
  VectorChannel<gaia::BarrierHeader> barriers_;
  PeerModels<gaia::BaseHeader> bases_;
  Coder coder_;
  gaia::Threshold threshold_;

  Round told_ = 0;            // clocks sent, including the flush at the end
  Round added_ = 0;           // clocks of this node whose steps are or were in acc
  std::vector<float> start_;  // w when the steps began
  std::vector<float> acc_;
  gaia::Base base_;
  std::uint64_t clock_samples_ = 0;  // samples of the last clock
  Time told_at_{0};
  std::uint64_t sent_bytes_ = 0;  // bytes of updates since told_at_
  double exchanges_ = 0;          // models sent to all other sites since the start, in whole models

  bool is_settled_ = false;         // this site has the base that all continue from in this view
  std::map<Rank, Round> clocks_;    // clock of the base of each site, as it entered
  std::vector<Rank> donor_;         // the site whose base this site waits for, if it does
  Round lost_clock_ = 0;            // newest clock of a lost site that has arrived
  gaia::Routes routes_;             // of the view
  std::vector<Round> flow_clocks_;  // next clock of each flow

  bool looks_up_ = false;     // whether a step has named the parameters that the next one reads
  std::vector<Range> reads_;  // ranges that the next clock reads; empty: every parameter
  gaia::Blocked blocked_;
  gaia::SendRates rates_;
};

}  // namespace longhaul::sync
