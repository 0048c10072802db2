#pragma once
// The attempt of direct and hub. Every piece has an owner: all members send their parts to it, and
// the owner sends its mean to all members. Direct: every worker owns its share of the pieces. Hub:
// one node, the server, owns them all; it need not be a member.
#include <algorithm>
#include <map>

#include "longhaul/core/registry.h"
#include "longhaul/overlay/reducing_attempt.h"

namespace longhaul::overlay {

struct OwnersOptions {
  bool streamed = true;      // false: means are sent when all pieces of the owner are reduced
  bool exact_means = false;  // means as fp32 whatever the codec
  std::uint32_t window = 0;  // pieces per member in transit without their mean; 0: no limit
};

class Owners final : public ReducingAttempt {
  static constexpr std::uint32_t kHops = 2;  // part, mean

 public:
  Owners(const ExchangeSpec& spec, const OwnersOptions& options)
      : ReducingAttempt(spec), options_(options), mine_(spec.plan->pieces_of(spec.team->self)) {
    if (mine_.empty()) return;
    expect_weights(mine_.size());
    slots_.resize(mine_.size(), {.reduction = Reduction(spec.of_senders)});
  }

  void contribute(std::uint64_t length, double weight, AttemptContext& context) override {
    set_contribution(weight);
    for (const Rank to : other_owners()) context.shares.emplace_back(to, share(length));
    if (weight > 0) send_parts(context);
    if (mine_.empty()) return;
    set_weight(self(), weight);
    go_on(context);
  }

  Status take_announcement(Rank from, const Announcement& share, AttemptContext& context) override {
    LH_TRY(take_weight(from, share.weight, !mine_.empty()));
    if (share.weight == 0 || all_known()) go_on(context);
    return Ok{};
  }

  Result<bool> admit(Rank from, const TransferKey& key, std::size_t piece) const override {
    const Phase phase = Phase(key.phase);
    if (phase == Phase::mean) {
      if (key != mean_key(from) || spec_.plan->owner(piece) != from)
        return refuse(from, "a mean of a piece that is not its own, or in another coding");
      if (!contributed()) return refuse(from, "a mean of a round that lacks this node's part");
      return true;
    }
    if (key != this->key(Phase::part, Coding::up, from) || !owns(piece))
      return refuse(from, "a part that is not its own or not for here, or in another coding");
    return admit_part(from, slots_[slot_of(piece)]);
  }

  Status take(Arrival&& arrival, std::size_t piece, AttemptContext& context) override {
    if (Phase(arrival.key.phase) == Phase::mean) {
      context.means[piece] = std::move(arrival.values);
      if (options_.window > 0 && weight() > 0) send_parts(context);
      return Ok{};
    }
    const std::size_t slot = slot_of(piece);
    LH_TRY(add_part(std::move(arrival), slots_[slot]));
    slots_[slot].open = true;
    advance(slot, context);
    return Ok{};
  }

  Payload encoded(const TransferKey& key, std::size_t piece, AttemptContext& context) override {
    if (Phase(key.phase) == Phase::part) return context.buffers.own_bytes(piece);
    const auto out = outbox_.find(std::uint32_t(piece));
    LH_CHECK(out != outbox_.end());
    Payload bytes = out->second.bytes;
    if (--out->second.left == 0) outbox_.erase(out);
    return bytes;
  }

  Progress progress() const override { return {to_reduce_ == 0, outbox_.empty()}; }
  std::string waiting_for(const std::vector<bool>& mean_pieces) const override {
    std::vector<Rank> ranks;
    if (to_reduce_ > 0) {
      ranks = lacking(slots_);
      if (!ranks.empty()) return round_text() + ": parts of " + named_ranks(ranks);
    }
    for (const Rank owner : spec_.plan->owners()) {
      const auto pieces = spec_.plan->pieces_of(owner);
      const auto here = [&](std::uint32_t piece) {
        return piece < mean_pieces.size() && mean_pieces[piece];
      };
      if (!std::ranges::all_of(pieces, here)) ranks.push_back(owner);
    }
    return round_text() + (ranks.empty() ? roster_text() : ": means of " + named_ranks(ranks));
  }

  void state(Archive& ar) override {
    ReducingAttempt::state(ar);
    ar(slots_, to_reduce_, begun_parts_, outbox_);
  }

 private:
  struct Slot {  // an owned piece
    bool open = false;
    bool done = false;
    Reduction reduction{};
    void state(auto& ar) { ar(open, done, reduction); }
  };
  struct Out {
    Payload bytes;
    std::uint32_t left = 0;  // sends to come
    void state(auto& ar) { ar(bytes, left); }
  };

  bool owns(std::size_t piece) const { return spec_.plan->owner(piece) == spec_.team->self; }
  // Returns the owners from the one after this node: if all do so, traffic spreads over the
  // receivers.
  std::vector<Rank> other_owners() const {
    const auto owners = spec_.plan->owners();
    const auto after = std::ranges::upper_bound(owners, spec_.team->self);
    std::vector<Rank> order(after, owners.end());
    order.insert(order.end(), owners.begin(), after);
    std::erase(order, spec_.team->self);
    return order;
  }

  std::size_t slot_of(std::size_t piece) const {
    return std::size_t(std::ranges::lower_bound(mine_, piece) - mine_.begin());
  }

  TransferKey mean_key(Rank owner) const {
    return key(Phase::mean, options_.exact_means ? Coding::exact : Coding::down, owner);
  }

  void send_parts(AttemptContext& context) {
    const TransferKey part = key(Phase::part, Coding::up, spec_.team->self);
    if (options_.window > 0) {  // hub: one owner, means arrive in the order of the pieces
      const Rank server = spec_.plan->root();
      if (server == spec_.team->self) return;
      const auto pieces = spec_.plan->pieces_of(server);
      const std::size_t count = begun_parts_ == 0 ? options_.window : 1;
      for (std::size_t i = 0; i < count && begun_parts_ < pieces.size(); ++i)
        post(part, server, spec_.plan->ranges(pieces.subspan(begun_parts_++, 1)), weight(), 0,
             kHops, context);
      return;
    }
    for (const Rank to : other_owners())
      post(part, to, spec_.plan->ranges(spec_.plan->pieces_of(to)), weight(), 0, kHops, context);
  }

  // Called when a weight became known: pieces that waited for it may be ready.
  void go_on(AttemptContext& context) {
    if (is_empty(context)) return;
    // No part will arrive to wake a piece if this node is the only one that contributes.
    const bool alone = all_known() && givers_ == 1 && contributed() && weight() > 0;
    for (std::size_t slot = 0; slot < slots_.size(); ++slot)
      if (slots_[slot].open || alone) advance(slot, context);
  }

  void advance(std::size_t index, AttemptContext& context) {
    Slot& slot = slots_[index];
    if (slot.done) return;
    slot.open = true;
    // This node encodes its own part only now, so that it is not kept twice.
    if (contributed() && weight() > 0) {
      if (slot.reduction.wants(self(), weights_))
        slot.reduction.add(self(), context.buffers.own_values(mine_[index]), weights_);
    }
    if (slot.reduction.advance(weights_)) finish(index, context);
  }

  void finish(std::size_t index, AttemptContext& context) {
    const std::uint32_t piece = mine_[index];
    const Coding coding = mean_key(spec_.team->self).coding;
    Payload bytes = context.buffers.write(piece, coding, slots_[index].reduction.mean(total_));
    slots_[index] = {.open = true, .done = true};
    --to_reduce_;
    // The owner, too, uses the mean as the others will read it.
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

  void send_means(std::vector<Range> ranges, AttemptContext& context) {
    const TransferKey mean = mean_key(spec_.team->self);
    for (const Rank to : spec_.team->others()) post(mean, to, ranges, total_, 1, kHops, context);
  }

  const OwnersOptions options_;
  const std::span<const std::uint32_t> mine_;  // pieces
  std::vector<Slot> slots_;                    // by place in mine_
  std::uint64_t begun_parts_ = 0;              // with a window: pieces posted so far
  std::map<std::uint32_t, Out> outbox_;        // means, by piece
};

// All to all others: each worker owns a share of the vector. docs/overlay/direct.md
class Direct final : public Topology {
 public:
  struct Config {
    std::string phases = "streamed";
    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(phases,
                   "streamed: a piece's mean is sent when it is formed; sequential: when the owner "
                   "has formed all of its share",
                   .choices = {"streamed", "sequential"});
    }
  };

  Direct(const Config& config, const OverlayParts&, const Place&)
      : options_{config.phases == "streamed"} {}
  Partition cut(std::uint64_t length, std::uint32_t workers, std::uint64_t chunk) const override {
    return {length, workers, chunk};
  }
  std::unique_ptr<Attempt> open(const ExchangeSpec& spec) const override {
    return std::make_unique<Owners>(spec, options_);
  }

 private:
  const OwnersOptions options_;
};

// All to one server and back: the parameter server. docs/overlay/hub.md
class Hub final : public ServedTopology {
 public:
  struct Config {
    std::string phases = "streamed";
    std::string down_codec = "fp32";
    std::uint32_t window = 0;
    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(
          phases,
          "streamed: a piece's mean is sent when it is formed; sequential: when the whole mean is",
          .choices = {"streamed", "sequential"});
      LONGHAUL_KEY(down_codec, "how the server writes the mean: fp32, or same for the job's codec",
                   .choices = {"fp32", "same"});
      LONGHAUL_KEY(window,
                   "pieces that each worker sends before their mean arrives, which bounds the "
                   "server's memory; 0: no limit; needs phases = \"streamed\"",
                   .max = 1 << 20, .unit = "chunks");
    }
  };

  static Status check(const Config& config, const Settings& settings) {
    if (config.window == 0 || config.phases == "streamed") return Ok{};
    return bad_setting(settings, *settings.find("window"),
                       "0 with phases = \"sequential\", in which no mean comes before all parts "
                       "are sent; leave the key out");
  }

  Hub(const Config& config, const OverlayParts& parts, const Place&)
      : ServedTopology(parts.server),
        options_{config.phases == "streamed", config.down_codec == "fp32", config.window} {}
  std::optional<RoutePlan> routes(const Partition& grid, const GroupMembers& team) const override {
    auto routes = Topology::routes(grid, team);
    if (options_.exact_means) routes->means = Coding::exact;
    return routes;
  }
  std::unique_ptr<Attempt> open(const ExchangeSpec& spec) const override {
    return std::make_unique<Owners>(spec, options_);
  }

 private:
  const OwnersOptions options_;
};

}  // namespace longhaul::overlay
