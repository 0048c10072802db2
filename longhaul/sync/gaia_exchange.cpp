// Gaia's exchange: routes of a view, the cut that begins it, updates and clocks.
#include <algorithm>

#include "longhaul/sync/flat.h"
#include "longhaul/sync/gaia.h"

namespace longhaul::sync {

using gaia::CutHeader;
using gaia::UpdateHeader;

gaia::Routes Gaia::routes(const std::vector<Rank>& live, Rank of) const {
  if (!groups_) return gaia::direct_routes(live, of);
  const gaia::Groups left = gaia::without_lost(*groups_, live);
  return config_.exchange == "gaia_hubs" ? gaia::hub_routes(left, place_.size(), of)
                                         : gaia::peer_routes(left, place_.size(), of);
}

Result<bool> Gaia::admit(Rank from, const UpdateHeader& header, const ContentShape& shape) const {
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

Result<bool> Gaia::admit_cut(Rank, const CutHeader& header, const ContentShape& shape) const {
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
  // A complete clock has an update of this site in it, unless it has come back after it.
  if (phase_ != Phase::outside && header.clock > told_)
    return malformed("clock " + std::to_string(header.clock) + " where this site has sent " +
                     std::to_string(told_));
  return !is_settled_;
}

Result<bool> Gaia::admit_barrier(Rank from, const gaia::BarrierHeader& header,
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

// All begin at clock 0 with equal models. After a loss or a return a cut comes first.
void Gaia::enter_view(Turn& turn) {
  const bool is_first = !std::exchange(has_entered_, true) && turn.view().epoch == 0;
  epoch_ = turn.view().epoch;
  live_ = live_with(Role::worker, turn.place(), turn.view());
  lost_clock_ = 0;
  for (const auto& [slot, rank] : routes_.slots)
    if (slot < place_.size() && !turn.view().has(rank) && base_.has(slot))
      lost_clock_ = std::max(lost_clock_, base_.mirror(slot));
  routes_ = routes(live_, place_.self);
  offered_.reset();
  verdicts_.clear();
  blocked_.clear();
  rates_.clear();
  Turn below = within(*updates_, turn);
  for (const auto& [clock, handle] : sent_) updates_->cancel(handle, below);
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

// A verdict that the senior worker gives after this one comes to all of the view.
CutHeader Gaia::report(Turn& turn) {
  CutHeader own{.kind = CutHeader::Kind::report, .epoch = epoch_, .clock = base_.clock()};
  if (phase_ == Phase::outside) own.standing = Standing::outside;
  if (phase_ == Phase::averaging || (phase_ == Phase::draining && base_.clock() == told_))
    own.standing = Standing::flushed;
  if (phase_ == Phase::ended) own.standing = Standing::ended;
  if (phase_ == Phase::outside || turn.view().returned.empty() ||
      senior_worker(turn.place(), turn.view()) != turn.self())
    return own;
  Archive ar;
  stop_.hand_over(ar);
  const Buffer bytes = ar.take();
  LH_CHECK(bytes.size() <= gaia::kMostVerdictBytes);
  for (const std::byte byte : bytes) own.verdicts.push_back(std::uint8_t(byte));
  return own;
}

void Gaia::receive_cut(Turn& turn) {
  Turn below = within(*cuts_, turn);
  while (cuts_->lost()) {
  }
  while (auto one = cuts_->poll(below)) {
    const CutHeader& header = one->header;
    if (header.epoch != epoch_ || is_settled_) continue;
    if (header.kind == CutHeader::Kind::report) {
      cut_.report(one->from, header.clock, header.standing);
      if (phase_ == Phase::outside && one->from == senior_worker(turn.place(), turn.view()))
        verdicts_ = header.verdicts;
    } else if (cut_.donor_of_reported() == one->from) {
      // Of those that have reported, so nothing that another has sent can replace the donor's.
      offered_ = {one->from, header.clock, header.samples, one->content.values()};
    }
  }
  if (!is_settled_) try_settle(turn);
}

// All have reported, and the donor's base is here where it is needed.
void Gaia::try_settle(Turn& turn) {
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
  // Of the lost, as far as this site has them: dropped.
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

void Gaia::send_base(Turn& turn) {
  std::vector<Rank> to;
  for (const Rank rank : live_)
    if (cut_.needs_base(rank, !groups_)) to.push_back(rank);
  if (to.empty()) return;
  const bool has_ended = phase_ == Phase::ended;
  const Range range = has_ended ? Range{0, place_.layout->size()} : place_.layout->parameters();
  std::vector<float> values = base_.b();
  if (has_ended && !place_.phantom) values.assign(turn.params().begin(), turn.params().end());
  Turn below = within(*cuts_, turn);
  cuts_->send(
      to,
      {.kind = CutHeader::Kind::base,
       .epoch = epoch_,
       .clock = cut_.clock(),
       .samples = base_.samples(),
       .standing = cut_.standing()},
      VectorContent::values(std::make_shared<const std::vector<float>>(std::move(values)), range),
      {.coding = Coding::exact}, below);
}

// At one that has come back: it begins where the base is, with nothing of its own.
void Gaia::join(const OfferedBase& base, Turn& turn) {
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
  done_ = joined_at_ = is_over ? base.clock - 1 : base.clock;  // the last one is no step's
  phase_ = is_over ? Phase::draining : Phase::ready;
  asked_ = told_at_ = turn.now();
  if (cut_.standing() != Standing::ended) return;
  phase_ = Phase::ended;
  if (base.b) std::ranges::copy(*base.b, turn.params().begin());
  turn.finish();
}

void Gaia::settle(std::vector<float> b, Round clock, std::uint64_t samples, Turn& turn) {
  is_settled_ = true;
  base_.begin(std::move(b), clock, samples, routes_.slot_numbers(), turn.self());
  LH_CHECK(base_.mirror(turn.self()) == told_);
  flow_clocks_.assign(routes_.flows.size(), clock + 1);
  deliver(turn);
}

void Gaia::receive_updates(Turn& turn) {
  Turn below = within(*updates_, turn);
  while (const auto sent = updates_->sent()) rates_.sent(sent->to, sent->bytes, turn.now());
  while (updates_->lost()) {
  }  // of a view that is over, or of a lost peer
  while (auto one = updates_->poll(below)) {
    if (one->header.epoch != epoch_ || phase_ == Phase::ended) continue;
    const Status taken = take(one->from, one->header, one->content);
    if (taken) continue;
    return fail({taken.error().kind, "rank " + std::to_string(one->from) +
                                         " broke the protocol: " + taken.error().what},
                turn);
  }
  deliver(turn);
}

// Checked whole before anything of it is added.
Status Gaia::take(Rank from, const UpdateHeader& header, const VectorContent& content) {
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

// Sends what is complete for each flow, and adds complete clocks to b.
void Gaia::deliver(Turn& turn) {
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
  // What may still wait for a peer: it has sent clock told_ - staleness, and read as many before
  // that.
  while (!sent_.empty() && sent_.front().first + 2 * config_.staleness + 3 < told_)
    sent_.pop_front();
}

// Exact: nobody could keep what a codec loses of it.
void Gaia::send_sum(const gaia::Flow& flow, Round clock, Turn& turn) {
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

void Gaia::send_batch(const gaia::Flow& flow, Batch batch, Turn& turn) {
  if (flow.to.empty()) return;
  announce(flow, batch, turn);
  const std::uint64_t whole =
      sizeof(float) * place_.layout->parameters().length * (live_.size() - 1);
  Turn below = within(*updates_, turn);
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
                                      {.report_sent = has_barrier()}, below));
  }
}

// In lock-step nobody reads a clock before it is complete.
bool Gaia::has_barrier() const {
  return config_.staleness > 0 &&
         (config_.barrier == "on" || (config_.barrier == "auto" && looks_up_));
}

// Updates that will not have left in time: their indexes go before them.
void Gaia::announce(const gaia::Flow& flow, const Batch& batch, Turn& turn) {
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
  Turn below = within(*barriers_, turn);
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
        below);
  }
}

void Gaia::receive_barriers(Turn& turn) {
  Turn below = within(*barriers_, turn);
  while (barriers_->lost()) {
  }
  while (auto one = barriers_->poll(below)) {
    if (one->header.epoch != epoch_ || phase_ == Phase::ended) continue;
    if (const Status taken = take_barrier(one->header, one->content); !taken)
      return fail({taken.error().kind, "rank " + std::to_string(one->from) +
                                           " broke the protocol: " + taken.error().what},
                  turn);
  }
}

Status Gaia::take_barrier(const gaia::BarrierHeader& header, const VectorContent& content) {
  if (!base_.is_new(header.slot, header.clock, header.range)) return Ok{};  // its update is here
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

void Gaia::send_clock(const gaia::Flow& flow, Round clock, std::uint64_t samples, Turn& turn) {
  if (flow.to.empty()) return;
  Turn below = within(*updates_, turn);
  updates_->send(flow.to,
                 {.kind = UpdateHeader::Kind::clock,
                  .epoch = epoch_,
                  .clock = clock,
                  .slot = flow.as,
                  .samples = samples},
                 {}, {}, below);
}

}  // namespace longhaul::sync
