#include "longhaul/overlay/owners.h"

#include <algorithm>
#include <numeric>

namespace longhaul::overlay {
namespace {
constexpr std::uint32_t kHops = 2;  // part, mean
}

Owners::Owners(const ExchangeSpec& spec, const OwnersOptions& options)
    : Attempt(spec), options_(options), mine_(spec.plan->pieces_of(spec.team->self)) {
  if (mine_.empty()) return;
  weights_.assign(spec.team->members.size(), kUnknownWeight);
  unknown_ = std::uint32_t(weights_.size());
  slots_.resize(mine_.size(), {.reduction = Reduction(spec.of_senders)});
  to_reduce_ = mine_.size();
}

std::size_t Owners::slot_of(std::size_t piece) const {
  return std::size_t(std::lower_bound(mine_.begin(), mine_.end(), piece) - mine_.begin());
}

TransferKey Owners::mean_key(Rank owner) const {
  return key(Phase::mean, options_.exact_means ? Coding::exact : Coding::down, owner);
}

void Owners::contribute(std::uint64_t length, double weight, AttemptContext& context) {
  set_contribution(weight);
  for (const Rank to : other_owners()) context.shares.emplace_back(to, share(length));
  if (weight > 0) send_parts(context);
  if (mine_.empty()) return;
  set_weight(*spec_.team->index_of(spec_.team->self), weight);
  go_on(context);
}

// The owner after oneself first: if all do so, their traffic spreads over the receivers.
std::vector<Rank> Owners::other_owners() const {
  const auto owners = spec_.plan->owners();
  const auto after = std::upper_bound(owners.begin(), owners.end(), spec_.team->self);
  std::vector<Rank> order(after, owners.end());
  order.insert(order.end(), owners.begin(), after);
  std::erase(order, spec_.team->self);
  return order;
}

void Owners::send_parts(AttemptContext& context) {
  const TransferKey part = key(Phase::part, Coding::up, spec_.team->self);
  if (options_.window > 0) {  // hub: one owner, means come back in the order of the pieces
    const Rank server = spec_.plan->root();
    if (server == spec_.team->self) return;
    const auto pieces = spec_.plan->pieces_of(server);
    const std::size_t count = begun_parts_ == 0 ? options_.window : 1;
    for (std::size_t i = 0; i < count && begun_parts_ < pieces.size(); ++i)
      post(part, server, spec_.plan->ranges(pieces.subspan(begun_parts_++, 1)), weight(), 0, kHops,
           context);
    return;
  }
  for (const Rank to : other_owners())
    post(part, to, spec_.plan->ranges(spec_.plan->pieces_of(to)), weight(), 0, kHops, context);
}

void Owners::set_weight(std::uint32_t member, double weight) {
  weights_[member] = weight;
  --unknown_;
  givers_ += weight > 0;
  if (all_known()) total_ = std::accumulate(weights_.begin(), weights_.end(), 0.0);
}

Status Owners::take_announcement(Rank from, const Announcement& share, AttemptContext& context) {
  const auto member = spec_.team->index_of(from);
  if (!member || mine_.empty()) return refuse(from, "a share for a node that owns nothing of it");
  if (weights_[*member] != kUnknownWeight) return refuse(from, "a second share");
  set_weight(*member, share.weight);
  if (share.weight == 0 || all_known()) go_on(context);
  return Ok{};
}

// A weight became known: what waited for it may go on.
void Owners::go_on(AttemptContext& context) {
  if (all_known() && givers_ == 0) {  // nobody brings anything: an empty mean
    to_reduce_ = 0;
    if (spec_.plan->root() == spec_.team->self) tell_contributors(weights_, context);
    return;
  }
  // No part will come to wake a piece if this node is the only one that contributes.
  const bool alone = all_known() && givers_ == 1 && contributed() && weight() > 0;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot)
    if (slots_[slot].open || alone) advance(slot, context);
}

Result<bool> Owners::admit(Rank from, const TransferKey& key, std::size_t piece) const {
  const Phase phase = Phase(key.phase);
  if (phase == Phase::mean) {
    if (key != mean_key(from) || spec_.plan->owner(piece) != from)
      return refuse(from, "a mean of a piece that is not its own, or in another coding");
    if (!contributed()) return refuse(from, "a mean of a round that lacks this node's part");
    return true;
  }
  if (key != this->key(Phase::part, Coding::up, from) || !owns(piece))
    return refuse(from, "a part that is not its own or not for here, or in another coding");
  const auto member = spec_.team->index_of(from);
  if (!member || !(weights_[*member] > 0)) return refuse(from, "a part without a share before it");
  const Slot& slot = slots_[slot_of(piece)];
  if (slot.done || slot.reduction.has(*member)) return refuse(from, "a part for the second time");
  return true;
}

Status Owners::take(Arrival&& arrival, std::size_t piece, AttemptContext& context) {
  if (Phase(arrival.key.phase) == Phase::mean) {
    context.means[piece] = std::move(arrival.values);
    if (options_.window > 0 && weight() > 0) send_parts(context);
    return Ok{};
  }
  const std::uint32_t member = *spec_.team->index_of(arrival.from);
  if (arrival.weight != weights_[member]) return refuse(arrival.from, "a weight unlike its share");
  const std::size_t slot = slot_of(piece);
  slots_[slot].open = true;
  slots_[slot].reduction.add(member, std::move(arrival.values), weights_);
  advance(slot, context);
  return Ok{};
}

void Owners::advance(std::size_t index, AttemptContext& context) {
  Slot& slot = slots_[index];
  if (slot.done) return;
  slot.open = true;
  // This node's own part is written when its turn comes, so that it is not kept twice.
  if (contributed() && weight() > 0) {
    const std::uint32_t self = *spec_.team->index_of(spec_.team->self);
    if (slot.reduction.wants(self, weights_))
      slot.reduction.add(self, context.buffers.own_values(mine_[index]), weights_);
  }
  if (slot.reduction.advance(weights_)) finish(index, context);
}

void Owners::finish(std::size_t index, AttemptContext& context) {
  const std::uint32_t piece = mine_[index];
  const Coding coding = mean_key(spec_.team->self).coding;
  Payload bytes = context.buffers.write(piece, coding, slots_[index].reduction.mean(total_));
  slots_[index] = {.open = true, .done = true};
  --to_reduce_;
  // The owner, too, uses what the others will read.
  if (spec_.team->takes_part()) context.means[piece] = context.buffers.read(piece, coding, bytes);
  if (piece == 0) tell_contributors(weights_, context);
  const auto others = spec_.team->members.size() - (spec_.team->takes_part() ? 1 : 0);
  if (others > 0) outbox_.emplace(piece, Out{std::move(bytes), std::uint32_t(others)});
  if (options_.streamed) {
    send_means({spec_.grid().range(piece)}, context);
  } else if (to_reduce_ == 0) {
    send_means(spec_.plan->ranges(mine_), context);
  }
}

void Owners::send_means(std::vector<Range> ranges, AttemptContext& context) {
  const TransferKey mean = mean_key(spec_.team->self);
  for (const Rank to : spec_.team->others()) post(mean, to, ranges, total_, 1, kHops, context);
}

Payload Owners::encoded(const TransferKey& key, std::size_t piece, AttemptContext& context) {
  if (Phase(key.phase) == Phase::part) return context.buffers.own_bytes(piece);
  const auto out = outbox_.find(std::uint32_t(piece));
  LH_CHECK(out != outbox_.end());
  Payload bytes = out->second.bytes;
  if (--out->second.left == 0) outbox_.erase(out);
  return bytes;
}

std::string Owners::waiting_for(const std::vector<bool>& mean_pieces) const {
  std::vector<Rank> ranks;
  if (to_reduce_ > 0) {
    for (std::uint32_t i = 0; i < weights_.size(); ++i) {
      const bool missing = std::any_of(slots_.begin(), slots_.end(), [&](const Slot& slot) {
        return weights_[i] != 0 && !slot.done && !slot.reduction.has(i);
      });
      if (missing && spec_.team->members[i] != spec_.team->self)
        ranks.push_back(spec_.team->members[i]);
    }
    if (!ranks.empty()) return round_text() + ": parts of " + named_ranks(ranks);
  }
  for (const Rank owner : spec_.plan->owners()) {
    const auto pieces = spec_.plan->pieces_of(owner);
    const auto here = [&](std::uint32_t piece) {
      return piece < mean_pieces.size() && mean_pieces[piece];
    };
    if (!std::all_of(pieces.begin(), pieces.end(), here)) ranks.push_back(owner);
  }
  return round_text() + (ranks.empty() ? ": roster of rank " + std::to_string(spec_.plan->root())
                                       : ": means of " + named_ranks(ranks));
}

void Owners::state(Archive& ar) {
  Attempt::state(ar);
  ar(weights_, unknown_, givers_, total_, slots_, to_reduce_, begun_parts_, outbox_);
}

}  // namespace longhaul::overlay
