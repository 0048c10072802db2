#pragma once
// All parts to all members, and no mean is sent: every node adds the encoded vectors of all
// members. For codecs whose encoded vectors may not be added. docs/overlay/gather.md
#include <algorithm>
#include <map>

#include "longhaul/core/registry.h"
#include "longhaul/overlay/reducing_attempt.h"

namespace longhaul::overlay {

class GatherAttempt final : public ReducingAttempt {
  static constexpr std::uint32_t kGatherHops = 1;

 public:
  explicit GatherAttempt(const ExchangeSpec& spec) : ReducingAttempt(spec) {
    expect_weights(spec.grid().pieces());
    pieces_.resize(spec.grid().pieces(), {.reduction = Reduction(spec.of_senders)});
  }

  void contribute(std::uint64_t length, double weight, AttemptContext& context) override {
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
    set_weight(self(), weight);
    go_on(context);
  }

  Status take_announcement(Rank from, const Announcement& share, AttemptContext& context) override {
    LH_TRY(take_weight(from, share.weight, spec_.team->takes_part()));
    go_on(context);
    return Ok{};
  }

  Result<bool> admit(Rank from, const TransferKey& key, std::size_t piece) const override {
    if (key != this->key(Phase::part, Coding::up, from))
      return refuse(from, "a piece that is no part of its own, or in another coding");
    return admit_part(from, pieces_[piece]);
  }

  Status take(Arrival&& arrival, std::size_t piece, AttemptContext& context) override {
    LH_TRY(add_part(std::move(arrival), pieces_[piece]));
    if (contributed()) advance(piece, context);
    return Ok{};
  }

  Payload encoded(const TransferKey&, std::size_t piece, AttemptContext& context) override {
    const auto own = outbox_.find(std::uint32_t(piece));
    LH_CHECK(own != outbox_.end());
    Payload bytes = write(own->second, piece, context);
    if (--own->second.left == 0) outbox_.erase(own);
    return bytes;
  }

  Progress progress() const override { return {to_reduce_ == 0, outbox_.empty()}; }
  std::string waiting_for(const std::vector<bool>&) const override {
    const std::vector<Rank> ranks = lacking(pieces_);
    return round_text() + (ranks.empty() ? roster_text() : ": parts of " + named_ranks(ranks));
  }

  void state(Archive& ar) override {
    ReducingAttempt::state(ar);
    ar(pieces_, to_reduce_, outbox_);
  }

 private:
  struct Piece {
    bool done = false;
    Reduction reduction{};
    void state(auto& ar) { ar(done, reduction); }
  };
  // This node's own bytes of a piece, once they are written. They outlive the piece's mean, because
  // slow nodes still need them.
  struct Own {
    std::optional<Payload> bytes;
    std::uint32_t left = 0;  // sends to come
    void state(auto& ar) { ar(bytes, left); }
  };

  // Called when a weight became known: pieces that waited for it may be ready.
  void go_on(AttemptContext& context) {
    // This node's part is in every mean, so no mean is formed before this node contributes.
    if (!contributed()) return;
    if (is_empty(context)) return;
    for (std::size_t piece = 0; piece < pieces_.size(); ++piece) advance(piece, context);
  }

  void advance(std::size_t piece, AttemptContext& context) {
    Piece& one = pieces_[piece];
    if (one.done) return;
    if (weight() > 0 && one.reduction.wants(self(), weights_)) {
      // After its mean this node's vector may be gone.
      const auto own = outbox_.find(std::uint32_t(piece));
      if (own != outbox_.end()) write(own->second, piece, context);
      one.reduction.add(self(), context.buffers.own_values(piece), weights_);
    }
    if (!one.reduction.advance(weights_)) return;
    context.means[piece] = one.reduction.mean(total_);
    one = {.done = true};
    --to_reduce_;
    if (piece == 0 && spec_.plan->root() == spec_.team->self) tell_contributors(weights_, context);
  }

  // Encodes a piece once for all receivers.
  const Payload& write(Own& own, std::size_t piece, AttemptContext& context) {
    if (!own.bytes) own.bytes = context.buffers.own_bytes(piece);
    return *own.bytes;
  }

  std::vector<Piece> pieces_;
  std::map<std::uint32_t, Own> outbox_;  // by piece
};

class Gather final : public Topology {
 public:
  struct Config {
    static void fields(auto&, auto&&) {}
  };

  Gather(const Config&, const OverlayParts&, const Place&) {}
  // Returns one tree: every node sends to all others as the root of a star does.
  std::optional<RoutePlan> routes(const Partition& grid, const GroupMembers& team) const override {
    auto routes = Topology::routes(grid, team);
    routes->all_to_all = true;
    return routes;
  }

  std::unique_ptr<Attempt> open(const ExchangeSpec& spec) const override {
    return std::make_unique<GatherAttempt>(spec);
  }
};

}  // namespace longhaul::overlay
