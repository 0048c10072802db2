// Gaia's exchange: routes of a view, the cut that begins it, updates and clocks.
#include <algorithm>

#include "longhaul/sync/flat.h"
#include "longhaul/sync/gaia.h"

namespace longhaul::sync {

using gaia::CutHeader;
using gaia::UpdateHeader;

gaia::Routes Gaia::routes(const std::vector<Rank>& live) const {
  if (!groups_) return gaia::direct_routes(live, place_.self);
  const gaia::Groups left = gaia::without_lost(*groups_, live);
  return config_.exchange == "gaia_hubs" ? gaia::hub_routes(left, place_.size(), place_.self)
                                         : gaia::peer_routes(left, place_.size(), place_.self);
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
  const bool is_base =
      shape.kind == ContentKind::values && shape.range == place_.layout->parameters();
  if (is_report ? shape.kind != ContentKind::none : !is_base)
    return malformed("a base of another size, or a report with one");
  // A complete clock has an update of this site in it.
  if (header.clock > told_)
    return malformed("clock " + std::to_string(header.clock) + " where this site has sent " +
                     std::to_string(told_));
  return !is_settled_;
}

// All begin at clock 0 with equal models. After a loss a cut comes first.
void Gaia::enter_view(Turn& turn) {
  const bool is_first = !std::exchange(has_entered_, true) && turn.view().epoch == 0;
  epoch_ = turn.view().epoch;
  live_ = live_with(Role::worker, turn.place(), turn.view());
  lost_clock_ = 0;
  for (const auto& [slot, rank] : routes_.slots)
    if (slot < place_.size() && !turn.view().has(rank))
      lost_clock_ = std::max(lost_clock_, base_.mirror(slot));
  routes_ = routes(live_);
  offered_.reset();
  Turn below = within(*updates_, turn);
  for (const auto& [clock, handle] : sent_) updates_->cancel(handle, below);
  sent_.clear();
  if (is_first) {
    const auto w = parameters(turn);
    return settle({w.begin(), w.end()}, 0, 0, turn);
  }
  is_settled_ = false;
  cut_.begin(epoch_, live_);
  cut_.report(turn.self(), base_.clock());
  std::vector<Rank> others = live_;
  std::erase(others, turn.self());
  Turn cut = within(*cuts_, turn);
  cuts_->send(others, {.kind = CutHeader::Kind::report, .epoch = epoch_, .clock = base_.clock()},
              {}, {}, cut);
}

void Gaia::receive_cut(Turn& turn) {
  Turn below = within(*cuts_, turn);
  while (cuts_->lost()) {
  }
  while (auto one = cuts_->poll(below)) {
    const CutHeader& header = one->header;
    if (header.epoch != epoch_ || is_settled_) continue;
    if (header.kind == CutHeader::Kind::report) {
      cut_.report(one->from, header.clock);
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
  const Rank donor = *cut_.donor();
  const Round clock = cut_.clock();
  if (donor == turn.self()) {
    std::vector<Rank> to;
    for (const Rank rank : live_)
      if (cut_.needs_base(rank, !groups_)) to.push_back(rank);
    if (!to.empty()) {
      Turn below = within(*cuts_, turn);
      cuts_->send(to,
                  {.kind = CutHeader::Kind::base,
                   .epoch = epoch_,
                   .clock = clock,
                   .samples = base_.samples()},
                  VectorContent::values(std::make_shared<const std::vector<float>>(base_.b()),
                                        place_.layout->parameters()),
                  {.coding = Coding::exact}, below);
    }
  }
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
  std::vector<float> b;
  if (base.b) b = *base.b;
  record();
  settle(std::move(b), clock, base.samples, turn);
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
    return Ok{};
  }
  auto update = gaia::decode(header.range, header.form, header.count, length_of(header.range),
                             content, {.clock = header.clock, .origin = from},
                             header.exact ? Coding::exact : Coding::up, coder_);
  if (!update) return update.error();
  base_.add(header.slot, header.clock, *std::move(update));
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
  for (const gaia::RangeUpdate& update : base_.sum(flow.from, clock)) {
    const std::uint64_t length = length_of(update.range);
    gaia::Form form = gaia::smallest_form(update.count, length, coder_, Coding::exact);
    const gaia::RangeUpdate sent =
        form == gaia::Form::dense ? gaia::densely(update, length) : update;
    send_update(flow,
                {.kind = UpdateHeader::Kind::update,
                 .clock = clock,
                 .range = update.range,
                 .form = form,
                 .exact = true,
                 .count = sent.count},
                gaia::encode(sent, form, length, {.clock = clock, .origin = turn.self()},
                             Coding::exact, coder_),
                turn);
  }
  send_clock(flow, clock, base_.samples_of(flow.from, clock), turn);
}

void Gaia::send_update(const gaia::Flow& flow, UpdateHeader header, VectorContent content,
                       Turn& turn) {
  if (flow.to.empty()) return;
  header.epoch = epoch_;
  header.slot = flow.as;
  const std::uint64_t bytes = content.shape().size * flow.to.size();
  const std::uint64_t whole =
      sizeof(float) * place_.layout->parameters().length * (live_.size() - 1);
  sent_bytes_ += bytes;
  exchanges_ += double(bytes) / double(whole);
  Turn below = within(*updates_, turn);
  sent_.emplace_back(header.clock, updates_->send(flow.to, header, std::move(content), {}, below));
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
