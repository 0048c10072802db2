#include "longhaul/overlay/gather.h"

#include <algorithm>
#include <numeric>

namespace longhaul::overlay {
namespace {
constexpr std::uint32_t kGatherHops = 1;
}

GatherAttempt::GatherAttempt(const ExchangeSpec& spec) : Attempt(spec) {
  weights_.assign(spec.team->members.size(), kUnknownWeight);
  unknown_ = std::uint32_t(weights_.size());
  pieces_.resize(spec.grid().pieces(), {.reduction = Reduction(spec.of_senders)});
  to_reduce_ = pieces_.size();
}

void GatherAttempt::contribute(std::uint64_t length, double weight, AttemptContext& context) {
  set_contribution(weight);
  const TransferKey part = key(Phase::part, Coding::up, spec_.team->self);
  std::vector<Range> all;
  for (std::size_t piece = 0; piece < pieces_.size(); ++piece)
    all.push_back(spec_.grid().range(piece));
  const std::vector<Rank> others = spec_.team->others();
  for (const Rank to : others) context.shares.emplace_back(to, share(length));
  if (weight > 0 && !others.empty()) {
    for (std::uint32_t piece = 0; piece < pieces_.size(); ++piece)
      outbox_[piece].left = std::uint32_t(others.size());
    for (const Rank to : others) post(part, to, all, weight, 0, kGatherHops, context);
  }
  set_weight(*spec_.team->index_of(spec_.team->self), weight);
  go_on(context);
}

void GatherAttempt::set_weight(std::uint32_t member, double weight) {
  weights_[member] = weight;
  --unknown_;
  givers_ += weight > 0;
  if (all_known()) total_ = std::accumulate(weights_.begin(), weights_.end(), 0.0);
}

Status GatherAttempt::take_announcement(Rank from, const Announcement& share,
                                        AttemptContext& context) {
  const auto member = spec_.team->index_of(from);
  if (!member || !spec_.team->takes_part())
    return refuse(from, "a share for a node that owns nothing of it");
  if (weights_[*member] != kUnknownWeight) return refuse(from, "a second share");
  set_weight(*member, share.weight);
  go_on(context);
  return Ok{};
}

// A weight became known: what waited for it may go on.
void GatherAttempt::go_on(AttemptContext& context) {
  // This node's part is in every mean, so no mean is formed before it is here.
  if (!contributed()) return;
  if (all_known() && givers_ == 0) {  // nobody brings anything: an empty mean
    to_reduce_ = 0;
    if (spec_.plan->root() == spec_.team->self) tell_contributors(weights_, context);
    return;
  }
  for (std::size_t piece = 0; piece < pieces_.size(); ++piece) advance(piece, context);
}

Result<bool> GatherAttempt::admit(Rank from, const TransferKey& key, std::size_t piece) const {
  if (key != this->key(Phase::part, Coding::up, from))
    return refuse(from, "a piece that is no part of its own, or in another coding");
  const auto member = spec_.team->index_of(from);
  if (!member || !(weights_[*member] > 0)) return refuse(from, "a part without a share before it");
  if (pieces_[piece].done || pieces_[piece].reduction.has(*member))
    return refuse(from, "a part for the second time");
  return true;
}

Status GatherAttempt::take(Arrival&& arrival, std::size_t piece, AttemptContext& context) {
  const std::uint32_t member = *spec_.team->index_of(arrival.from);
  if (arrival.weight != weights_[member]) return refuse(arrival.from, "a weight unlike its share");
  pieces_[piece].reduction.add(member, std::move(arrival.values), weights_);
  if (contributed()) advance(piece, context);
  return Ok{};
}

void GatherAttempt::advance(std::size_t piece, AttemptContext& context) {
  Piece& one = pieces_[piece];
  if (one.done) return;
  if (weight() > 0) {
    const std::uint32_t self = *spec_.team->index_of(spec_.team->self);
    if (one.reduction.wants(self, weights_)) {
      // After its mean this node's vector may be gone.
      const auto own = outbox_.find(std::uint32_t(piece));
      if (own != outbox_.end()) write(own->second, piece, context);
      one.reduction.add(self, context.buffers.own_values(piece), weights_);
    }
  }
  if (!one.reduction.advance(weights_)) return;
  context.means[piece] = one.reduction.mean(total_);
  one = {.done = true};
  --to_reduce_;
  if (piece == 0 && spec_.plan->root() == spec_.team->self) tell_contributors(weights_, context);
}

// Once for all receivers.
const Payload& GatherAttempt::write(Own& own, std::size_t piece, AttemptContext& context) {
  if (!own.bytes) own.bytes = context.buffers.own_bytes(piece);
  return *own.bytes;
}

Payload GatherAttempt::encoded(const TransferKey&, std::size_t piece, AttemptContext& context) {
  const auto own = outbox_.find(std::uint32_t(piece));
  LH_CHECK(own != outbox_.end());
  Payload bytes = write(own->second, piece, context);
  if (--own->second.left == 0) outbox_.erase(own);
  return bytes;
}

std::string GatherAttempt::waiting_for(const std::vector<bool>&) const {
  std::vector<Rank> ranks;
  for (std::uint32_t i = 0; i < weights_.size(); ++i) {
    const bool missing = std::any_of(pieces_.begin(), pieces_.end(), [&](const Piece& piece) {
      return weights_[i] != 0 && !piece.done && !piece.reduction.has(i);
    });
    if (missing && spec_.team->members[i] != spec_.team->self)
      ranks.push_back(spec_.team->members[i]);
  }
  return round_text() + (ranks.empty() ? ": roster of rank " + std::to_string(spec_.plan->root())
                                       : ": parts of " + named_ranks(ranks));
}

void GatherAttempt::state(Archive& ar) {
  Attempt::state(ar);
  ar(weights_, unknown_, givers_, total_, pieces_, to_reduce_, outbox_);
}

// One tree: what a star sends down, every node sends to all.
std::optional<RoutePlan> Gather::routes(const Partition& grid, const GroupMembers& team) const {
  auto routes = Topology::routes(grid, team);
  routes->all_to_all = true;
  return routes;
}

}  // namespace longhaul::overlay
