#pragma once
// The attempt of tsengine: the agent of a node, which follows the coordinator's orders
// (tsengine.md). A bucket is a run of pieces. Its parts are added up two nodes at a time until the
// server has the sum. Nodes pass its mean on in the very bytes that the server wrote. Pieces of a
// sum are kept until the whole bucket has arrived, and then added at once: so a transfer that is
// given up leaves no trace.
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/base/check.h"
#include "longhaul/core/types.h"
#include "longhaul/overlay/attempt.h"
#include "longhaul/overlay/messages.h"
#include "longhaul/overlay/reduction.h"
#include "longhaul/overlay/tsengine_coordinator.h"

namespace longhaul::overlay::tsengine {

// A partial sum of a bucket: the mean so far of the counted members, and the sum of their weights.
struct Sum {
  double weight = 0;          // 0: no contribution
  std::vector<Rank> counted;  // ascending
  std::vector<float> values;  // values of the bucket; a phantom's are empty
  void state(auto& ar) { ar(weight, counted, values); }
};

inline bool disjoint(const std::vector<Rank>& a, const std::vector<Rank>& b) {
  return std::ranges::none_of(a, [&](Rank rank) { return std::ranges::binary_search(b, rank); });
}

// Adds `other`: m <- m + (b / (a + b)) (z - m), in double, rounded once. No member is in both.
inline void mix(Sum& into, Sum&& other) {
  if (into.weight == 0) return void(into = std::move(other));
  LH_CHECK(other.weight > 0 && disjoint(into.counted, other.counted));
  LH_CHECK(other.values.size() == into.values.size());
  const double share = other.weight / (into.weight + other.weight);
  for (std::size_t i = 0; i < into.values.size(); ++i) {
    const double mean = double(into.values[i]);
    into.values[i] = float(mean + share * (double(other.values[i]) - mean));
  }
  into.weight += other.weight;
  const auto middle =
      into.counted.insert(into.counted.end(), other.counted.begin(), other.counted.end());
  std::inplace_merge(into.counted.begin(), middle, into.counted.end());
}

class Agent final : public Attempt {
  static constexpr std::uint32_t kHops = 2;  // part, mean

 public:
  // streamed: a bucket's mean is sent when it is formed; else when those of all buckets are. The
  // coordinator outlives the agent, and forgets the exchange when the agent ends.
  Agent(const ExchangeSpec& spec, std::uint32_t buckets, bool streamed, Coordinator& coordinator)
      : Attempt(spec), streamed_(streamed), coordinator_(coordinator) {
    const std::uint64_t pieces = spec.grid().pieces();
    const std::uint64_t count = std::min<std::uint64_t>(buckets, pieces);
    for (std::uint64_t b = 0; b < count; ++b) {
      Bucket& bucket = buckets_.emplace_back();
      bucket.first = std::uint32_t(b * pieces / count);
      bucket.count = std::uint32_t((b + 1) * pieces / count) - bucket.first;
      bucket.bytes.resize(bucket.count);
      bucket.missing = bucket.count;
    }
    if (!serves()) return;
    weights_.assign(spec.team->members.size(), kUnknownWeight);
    unknown_ = std::uint32_t(weights_.size());
    to_reduce_ = buckets_.size();
  }

  ~Agent() override { coordinator_.close(spec_.key); }

  void contribute(std::uint64_t length, double weight, AttemptContext& context) override {
    set_contribution(weight);
    if (!serves()) return void(context.shares.emplace_back(server(), share(length)));
    enlist(*spec_.team->index_of(spec_.team->self), weight, context);
  }

  Status take_announcement(Rank from, const Announcement& share, AttemptContext& context) override {
    const auto member = spec_.team->index_of(from);
    if (!member || !serves()) return refuse(from, "a share for a node that does not serve");
    if (weights_[*member] != kUnknownWeight) return refuse(from, "a second share");
    enlist(*member, share.weight, context);
    return Ok{};
  }

  Result<bool> admit(Rank from, const TransferKey& key, std::size_t piece) const override {
    if (late(from, key, piece)) return false;
    const Bucket& bucket = bucket_of(piece);
    if (Phase(key.phase) == Phase::mean) {
      if (key != mean_key() || !bucket.sources.contains(from))
        return refuse(from, "a mean that it did not announce, or in another coding");
      return true;
    }
    if (!bucket.in || bucket.in->from != from ||
        key != part_key(from, bucket.in->sum.counted.size()))
      return refuse(from, "a part that it did not announce, or in another coding");
    if (bucket.in->have[piece - bucket.first]) return refuse(from, "a part for the second time");
    return true;
  }

  Status take(Arrival&& arrival, std::size_t piece, AttemptContext& context) override {
    Bucket& bucket = bucket_of(piece);
    if (Phase(arrival.key.phase) == Phase::mean) {
      bucket.bytes[piece - bucket.first] = context.arrived;
      context.means[piece] = std::move(arrival.values);
      if (--bucket.missing == 0) take_mean(bucket, arrival.from, context);
      return Ok{};
    }
    In& in = *bucket.in;
    // With another weight, the part belongs to an earlier transfer, which was given up and counted
    // others.
    if (arrival.weight != in.sum.weight) return refuse(arrival.from, "a weight unlike announced");
    if (!arrival.values.empty()) {  // else a phantom's
      if (in.sum.values.empty()) in.sum.values.resize(length(bucket));
      std::ranges::copy(arrival.values,
                        in.sum.values.begin() + std::ptrdiff_t(offset(bucket, piece)));
    }
    in.have[piece - bucket.first] = true;
    if (--in.missing == 0) take_part(bucket, context);
    return Ok{};
  }

  Status take_message(Rank from, const AttemptMessage& note, AttemptContext& context) override {
    return read(note, [&](const auto& one) -> Status { return hear(from, one, context); });
  }

  void on_time(AttemptContext& context) override {
    for (Bucket& bucket : buckets_) {
      if (!bucket.out || bucket.out->due > context.now) continue;
      const Out out = *bucket.out;
      stop(bucket, context);
      if (out.mean) {
        report(Offer{number(bucket), out.xfer, Offer::After::failed, 0}, context);
      } else {
        report(Ready{number(bucket), out.xfer, false, 0}, context);
      }
    }
  }

  Payload encoded(const TransferKey& key, std::size_t piece, AttemptContext& context) override {
    Bucket& bucket = bucket_of(piece);
    LH_CHECK(bucket.out && bucket.out->left > 0);
    --bucket.out->left;
    if (Phase(key.phase) == Phase::mean) return bucket.bytes[piece - bucket.first];
    if (bucket.sum.weight == 0) return context.buffers.own_bytes(piece);
    std::span<const float> values = bucket.sum.values;
    if (!values.empty())
      values = values.subspan(offset(bucket, piece), spec_.grid().range(piece).length);
    return context.buffers.write(piece, key.coding, values);
  }

  Progress progress() const override {
    const auto done = [](const Bucket& bucket) { return bucket.let_go && !bucket.out; };
    const bool drained =
        std::ranges::all_of(buckets_, done) && !(serves() && coordinator_.runs(spec_.key));
    return {to_reduce_ == 0, drained};
  }

  std::string waiting_for(const std::vector<bool>& mean_pieces) const override {
    const auto at = [&](const Bucket& b) {
      return round_text() + ", bucket " + std::to_string(number(b)) + ": ";
    };
    const std::string coordinator = " (coordinator " + std::to_string(server()) + ")";
    if (unknown_ > 0) {
      std::vector<Rank> silent;
      for (std::uint32_t i = 0; i < weights_.size(); ++i)
        if (weights_[i] == kUnknownWeight) silent.push_back(spec_.team->members[i]);
      return round_text() + ": shares of " + named_ranks(silent);
    }
    const std::vector<Rank> asked = coordinator_.fenced(spec_.key);
    if (serves() && !asked.empty())
      return round_text() + ": whether parts came to " + named_ranks(asked);
    for (const Bucket& b : buckets_) {
      if (serves() && !b.given) return at(b) + "parts of " + named_ranks(missing(b));
      if (b.given || weight() == 0) continue;
      if (b.in) return at(b) + "the part of " + std::to_string(b.in->from);
      if (b.out) return at(b) + "that " + std::to_string(b.out->to) + " takes its part";
      return at(b) + "whom to send its part to" + coordinator;
    }
    for (const Bucket& b : buckets_) {
      if (b.missing == 0) continue;
      std::vector<Rank> from;
      for (const auto& [rank, source] : b.sources) from.push_back(rank);
      return at(b) + (from.empty() ? "the mean" + coordinator : "the mean of " + named_ranks(from));
    }
    (void)mean_pieces;
    return round_text() + ": roster of rank " + std::to_string(server());
  }

  void state(Archive& ar) override {
    Attempt::state(ar);
    std::uint64_t count = buckets_.size();
    ar(weights_, unknown_, to_reduce_, count);
    if (count != buckets_.size()) return ar.fail("holds an attempt of another number of buckets");
    for (Bucket& bucket : buckets_) ar(bucket);
    set_due();
  }

 private:
  struct Out {  // the current transfer from here
    Xfer xfer = 0;
    bool mean = false;
    Rank to = 0;
    Time due{0};
    std::uint32_t left = 0;  // pieces that wait for room
    void state(auto& ar) { ar(xfer, mean, to, due, left); }
  };
  struct In {  // a sum that arrives here
    Rank from = 0;
    Xfer xfer = 0;
    Time since{0};
    Sum sum;
    std::vector<bool> have;  // by place in the bucket
    std::size_t missing = 0;
    void state(auto& ar) { ar(from, xfer, since, sum, have, missing); }
  };
  struct Source {  // source of a bucket of the mean
    Xfer xfer = 0;
    Time since{0};
    void state(auto& ar) { ar(xfer, since); }
  };
  struct Past {           // transfers of a sum from one sender
    Xfer xfer = 0;        // the last one
    bool taken = false;   // the last one was; else it never will be
    bool failed = false;  // one of them was not taken
    void state(auto& ar) { ar(xfer, taken, failed); }
  };
  struct Bucket {
    std::uint32_t first = 0, count = 0;  // pieces
    // The sum: at the server of all but itself; elsewhere empty until another part was added.
    Sum sum;
    std::optional<In> in;
    std::map<Rank, Past> past;
    bool given = false;  // the own part was taken
    // The mean: its bytes, and the nodes that send it.
    std::vector<Payload> bytes;
    std::size_t missing = 0;
    std::map<Rank, Source> sources;
    bool again = false;   // announced more than once
    bool let_go = false;  // no node will ask for it
    // The last transfer that the coordinator asked for, and its state until it ends.
    Xfer obeyed = 0;
    Rank target = 0;
    std::optional<Out> out;
    void state(auto& ar) {
      ar(sum, in, past, given, bytes, missing, sources, again, let_go, obeyed, target, out);
    }
  };

  Rank server() const { return spec_.plan->root(); }
  bool serves() const { return server() == spec_.team->self; }
  bool takes_part(Rank rank) const { return spec_.team->index_of(rank).has_value(); }
  // Returns the start of a piece within its bucket.
  std::uint64_t offset(const Bucket& bucket, std::size_t piece) const {
    return spec_.grid().range(piece).offset - spec_.grid().range(bucket.first).offset;
  }

  std::uint64_t length(const Bucket& bucket) const {
    const std::size_t last = bucket.first + bucket.count - 1;
    return offset(bucket, last) + spec_.grid().range(last).length;
  }

  Bucket& bucket_of(std::size_t piece) {
    return const_cast<Bucket&>(std::as_const(*this).bucket_of(piece));
  }

  const Bucket& bucket_of(std::size_t piece) const {
    const auto behind =
        std::upper_bound(buckets_.begin(), buckets_.end(), piece,
                         [](std::size_t p, const Bucket& bucket) { return p < bucket.first; });
    return *(behind - 1);
  }

  std::uint32_t number(const Bucket& bucket) const { return std::uint32_t(&bucket - &buckets_[0]); }
  TransferKey mean_key() const { return key(Phase::mean, Coding::down, server()); }
  // Returns the key of a part: one member's contribution, or a mean of several.
  TransferKey part_key(Rank from, std::size_t counted) const {
    return key(Phase::part, counted == 1 ? Coding::up : Coding::down, from);
  }

  // Returns true if the piece is late. Only after a deadline: an abandoned transfer may still be in
  // transit.
  bool late(Rank from, const TransferKey& key, std::size_t piece) const {
    const Bucket& bucket = bucket_of(piece);
    if (Phase(key.phase) == Phase::mean)
      return bucket.again && bucket.sources.contains(from) &&
             bucket.bytes[piece - bucket.first].size() > 0;
    const auto past = bucket.past.find(from);
    if (Phase(key.phase) != Phase::part || past == bucket.past.end() || !past->second.failed)
      return false;
    return !bucket.in || bucket.in->from != from || bucket.in->have[piece - bucket.first];
  }

  void set_due() {
    due_.reset();
    for (const Bucket& bucket : buckets_)
      if (bucket.out && (!due_ || bucket.out->due < *due_)) due_ = bucket.out->due;
  }

  void send(Bucket& bucket, const Out& out, Sending sending, AttemptContext& context) {
    const std::uint32_t hop = out.mean ? 1 : 0;
    const auto counted = std::max<std::size_t>(bucket.sum.counted.size(), 1);
    sending.bucket = number(bucket);
    sending.xfer = out.xfer;
    sending.mean = out.mean;
    std::vector<Range> ranges;
    for (std::uint32_t i = 0; i < bucket.count; ++i)
      ranges.push_back(spec_.grid().range(bucket.first + i));
    bucket.out = out;
    bucket.out->left = bucket.count;
    set_due();
    bucket.obeyed = out.xfer;
    bucket.target = out.to;
    say(out.to, write(sending), context, bulk(hop, kHops));
    post(out.mean ? mean_key() : part_key(spec_.team->self, counted), out.to, std::move(ranges),
         sending.weight, hop, kHops, context);
  }

  Sum own_sum(const Bucket& bucket, AttemptContext& context) const {
    Sum own{weight(), {spec_.team->self}, {}};
    for (std::uint32_t i = 0; i < bucket.count; ++i) {
      const std::vector<float> values = context.buffers.own_values(bucket.first + i);
      own.values.insert(own.values.end(), values.begin(), values.end());
    }
    return own;
  }

  // Adds the weight of a member; only at the server.
  void enlist(std::uint32_t member, double weight, AttemptContext& context) {
    const Rank rank = spec_.team->members[member];
    weights_[member] = weight;
    std::vector<std::uint64_t> bytes;
    for (const Bucket& bucket : buckets_) bytes.push_back(4 * length(bucket));
    coordinator_.open(spec_.key, bytes);
    Orders orders;
    if (weight > 0 && rank != server()) coordinator_.ready(spec_.key, rank, orders);
    pass(std::move(orders), context);
    if (--unknown_ > 0) return;
    tell_contributors(weights_, context);
    if (std::ranges::all_of(weights_, [](double w) { return w == 0; })) {
      to_reduce_ = 0;  // no contributions: an empty mean
      for (Bucket& bucket : buckets_) bucket.let_go = true;
      return coordinator_.close(spec_.key);
    }
    for (Bucket& bucket : buckets_) try_commit(bucket, context);
  }

  // Returns the nodes whose parts the server lacks; once all weights are known.
  std::vector<Rank> missing(const Bucket& bucket) const {
    std::vector<Rank> ranks;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const Rank rank = spec_.team->members[i];
      const bool here = std::ranges::binary_search(bucket.sum.counted, rank);
      if (weights_[i] != 0 && rank != server() && !here) ranks.push_back(rank);
    }
    return ranks;
  }

  void try_commit(Bucket& bucket, AttemptContext& context) {
    if (unknown_ > 0 || !missing(bucket).empty()) return;
    commit(bucket, context);
    --to_reduce_;
    Orders orders;
    if (streamed_) {
      coordinator_.committed(spec_.key, number(bucket), orders);
    } else if (to_reduce_ == 0) {
      for (std::uint32_t b = 0; b < buckets_.size(); ++b)
        coordinator_.committed(spec_.key, b, orders);
    }
    pass(std::move(orders), context);
  }

  // The server's own part is added last: its place in the sum depends on no node's speed.
  void commit(Bucket& bucket, AttemptContext& context) {
    if (contributed() && weight() > 0) mix(bucket.sum, own_sum(bucket, context));
    for (std::uint32_t i = 0; i < bucket.count; ++i) {
      const std::size_t piece = bucket.first + i;
      std::span<const float> values = bucket.sum.values;
      if (!values.empty())
        values = values.subspan(offset(bucket, piece), spec_.grid().range(piece).length);
      const Coding coding = mean_key().coding;
      bucket.bytes[i] = context.buffers.write(piece, coding, values);
      // The server, too, uses the mean as the others will read it.
      if (spec_.team->takes_part())
        context.means[piece] = context.buffers.read(piece, coding, bucket.bytes[i]);
    }
    bucket.sum.values = {};
    bucket.missing = 0;
    bucket.given = true;
  }

  // --- messages of agents and coordinator
  Status hear(Rank from, const Assign& assign, AttemptContext& context) {
    Bucket* bucket = find(assign.bucket);
    if (!bucket || from != server() || bucket->missing > 0 || bucket->out || bucket->let_go)
      return refuse(from, "an order about a mean that cannot be");
    if (assign.xfer == 0) {
      bucket->let_go = true;
      return Ok{};
    }
    if (assign.xfer <= bucket->obeyed || assign.to == spec_.team->self || assign.to == server() ||
        !takes_part(assign.to))
      return refuse(from, "an order about a mean that cannot be");
    send(*bucket, {assign.xfer, true, assign.to, context.now + Time(assign.allowed)}, {}, context);
    return Ok{};
  }

  Status hear(Rank from, const Merge& merge, AttemptContext& context) {
    Bucket* bucket = find(merge.bucket);
    const bool ready = bucket && contributed() && weight() > 0 && !serves() && !bucket->given &&
                       !bucket->in && !bucket->out && bucket->missing > 0;
    if (!ready || from != server() || merge.xfer <= bucket->obeyed ||
        merge.to == spec_.team->self || !(merge.to == server() || takes_part(merge.to)))
      return refuse(from, "an order about a part that cannot be");
    Sending sending;
    const Sum& sum = bucket->sum;
    sending.weight = sum.weight > 0 ? sum.weight : weight();
    sending.counted = to_bits(sum.weight > 0 ? sum.counted : std::vector<Rank>{spec_.team->self});
    send(*bucket, {merge.xfer, false, merge.to, context.now + Time(merge.allowed)},
         std::move(sending), context);
    return Ok{};
  }

  // A part that was not taken until now will never be.
  Status hear(Rank from, const Fence& fence, AttemptContext& context) {
    Bucket* bucket = find(fence.bucket);
    if (!bucket || from != server() || !takes_part(fence.from) || fence.from == spec_.team->self)
      return refuse(from, "a fence that cannot be");
    Past& past = bucket->past[fence.from];
    const bool taken = past.taken && past.xfer == fence.xfer;
    if (!taken && fence.xfer > past.xfer) {
      past = {fence.xfer, false, true};
      if (bucket->in && bucket->in->from == fence.from) bucket->in.reset();
    }
    report(Fenced{fence.bucket, fence.xfer, taken}, context);
    return Ok{};
  }

  Status hear(Rank from, const Sending& sending, AttemptContext& context) {
    Bucket* bucket = find(sending.bucket);
    if (!bucket || from == spec_.team->self) return refuse(from, "what cannot be announced");
    return sending.mean ? hear_mean(from, sending, *bucket, context)
                        : hear_part(from, sending, *bucket, context);
  }

  Status hear(Rank from, const Got& got, AttemptContext& context) {
    Bucket* bucket = find(got.bucket);
    if (!bucket || got.xfer > bucket->obeyed) return refuse(from, "thanks for nothing");
    if (got.mean) {
      const auto& out = bucket->out;
      if (!out || !out->mean || out->xfer != got.xfer || out->to != from)
        return Ok{};  // after the deadline
      stop(*bucket, context);
      report(Offer{got.bucket, got.xfer, Offer::After::served, got.elapsed}, context);
      return Ok{};
    }
    // Also after the deadline: the receiver reports it to the coordinator.
    if (bucket->missing == 0) return Ok{};  // the mean overtook it
    if (got.xfer != bucket->obeyed || from != bucket->target || bucket->given)
      return refuse(from, "thanks for nothing");
    give(*bucket, context);
    return Ok{};
  }

  Status hear(Rank from, const auto& one, AttemptContext& context) {
    if (!serves()) return refuse(from, "a report for a node that does not coordinate");
    Orders orders;
    LH_TRY(coordinator_.hear(spec_.key, from, one, orders));
    pass(std::move(orders), context);
    return Ok{};
  }

  Status hear_mean(Rank from, const Sending& sending, Bucket& bucket, AttemptContext& context) {
    const auto known = bucket.sources.find(from);
    if (serves() || !contributed() ||
        (known != bucket.sources.end() && sending.xfer <= known->second.xfer))
      return refuse(from, "a mean that cannot be, or again");
    bucket.again |= !bucket.sources.empty();
    bucket.sources[from] = {sending.xfer, context.now};
    if (bucket.missing == 0) say(from, write(Got{sending.bucket, sending.xfer, true, 0}), context);
    return Ok{};
  }

  Status hear_part(Rank from, const Sending& sending, Bucket& bucket, AttemptContext& context) {
    const auto past = bucket.past.find(from);
    if (past != bucket.past.end() && sending.xfer <= past->second.xfer) {
      if (past->second.taken) return refuse(from, "a part for the second time");
      return Ok{};  // given up before it arrived
    }
    std::vector<Rank> counted = from_bits(sending.counted);
    LH_TRY(check_part(from, sending, bucket, counted));
    if (serves() && !coordinator_.expects(spec_.key, sending.bucket, sending.xfer, from))
      return refuse(from, "a part that was not asked of it");
    bucket.in = In{from,
                   sending.xfer,
                   context.now,
                   {sending.weight, std::move(counted), {}},
                   std::vector<bool>(bucket.count),
                   bucket.count};
    return Ok{};
  }

  Status check_part(Rank from, const Sending& sending, const Bucket& bucket,
                    const std::vector<Rank>& counted) const {
    const bool awaits =
        serves() ? !bucket.given : contributed() && weight() > 0 && !bucket.given && !bucket.out;
    if (!awaits || bucket.in) return refuse(from, "a part that was not awaited");
    const auto foreign = [&](Rank rank) { return !takes_part(rank) || rank == spec_.team->self; };
    if (!std::ranges::binary_search(counted, from) || std::ranges::any_of(counted, foreign) ||
        !disjoint(counted, bucket.sum.counted) || !(sending.weight > 0))
      return refuse(from, "a part that counts whom it cannot");
    if (!serves()) return Ok{};
    // The server knows every weight.
    double sum = 0;
    for (const Rank rank : counted) {
      const double share = weights_[*spec_.team->index_of(rank)];
      if (!(share > 0)) return refuse(from, "a part of who brings nothing");
      sum += share;
    }
    if (!(std::fabs(sum - sending.weight) <= 1e-9 * sum))
      return refuse(from, "a part with a weight unlike the shares");
    return Ok{};
  }

  // Called when all of a sum has arrived.
  void take_part(Bucket& bucket, AttemptContext& context) {
    In in = std::move(*bucket.in);
    bucket.in.reset();
    Past& past = bucket.past[in.from];
    past = {in.xfer, true, past.failed};
    if (bucket.sum.weight == 0 && !serves()) bucket.sum = own_sum(bucket, context);
    mix(bucket.sum, std::move(in.sum));
    const std::int64_t elapsed = (context.now - in.since).count();
    say(in.from, write(Got{number(bucket), in.xfer, false, elapsed}), context);
    report(Ready{number(bucket), in.xfer, true, elapsed}, context);
    if (serves()) try_commit(bucket, context);
  }

  // Called when all of a bucket of the mean has arrived: other senders may stop.
  void take_mean(Bucket& bucket, Rank from, AttemptContext& context) {
    if (weight() > 0) give(bucket, context);
    Xfer newest = 0;
    for (const auto& [rank, source] : bucket.sources) {
      const bool whole = rank == from && !bucket.again;
      const std::int64_t elapsed = whole ? (context.now - source.since).count() : 0;
      say(rank, write(Got{number(bucket), source.xfer, true, elapsed}), context);
      newest = std::max(newest, source.xfer);
    }
    report(Offer{number(bucket), newest, Offer::After::received, 0}, context);
  }

  // Called when the own part, with all parts added to it, is counted elsewhere.
  void give(Bucket& bucket, AttemptContext& context) {
    if (bucket.given) return;
    bucket.given = true;
    stop(bucket, context);
    // Announced after a deadline, when there is nothing left to add it to.
    if (bucket.in) {
      bucket.past[bucket.in->from] = {bucket.in->xfer, false, true};
      bucket.in.reset();
    }
    bucket.sum.values = {};
  }

  // Drops the unsent pieces of the current transfer. If all are sent, the next transfer to the same
  // node may have begun, under the same name.
  void stop(Bucket& bucket, AttemptContext& context) {
    if (!bucket.out) return;
    const auto counted = std::max<std::size_t>(bucket.sum.counted.size(), 1);
    if (bucket.out->left > 0)
      context.cancelled.emplace_back(
          bucket.out->mean ? mean_key() : part_key(spec_.team->self, counted), bucket.out->to);
    bucket.out.reset();
    set_due();
  }

  Bucket* find(std::uint32_t number) {
    return number < buckets_.size() ? &buckets_[number] : nullptr;
  }

  void say(Rank to, AttemptMessage note, AttemptContext& context, Service service = kControl) {
    context.notes.push_back({spec_.key, to, std::move(note), service});
  }

  // Reports to the coordinator; at once if it runs at this node.
  void report(const auto& one, AttemptContext& context) {
    if (!serves()) return say(server(), write(one), context);
    Orders orders;
    LH_CHECK(coordinator_.hear(spec_.key, spec_.team->self, one, orders));
    pass(std::move(orders), context);
  }

  void pass(Orders&& orders, AttemptContext& context) {
    for (Order& order : orders.list)
      context.notes.push_back({order.about, order.to, std::move(order.note), kControl});
    if (!orders.give_up.empty()) context.given_up = std::move(orders.give_up);
  }

  const bool streamed_;
  Coordinator& coordinator_;
  std::vector<Bucket> buckets_;
  std::vector<double> weights_;  // by member; only at the server
  std::uint32_t unknown_ = 0;    // members whose weight the server does not know
  std::size_t to_reduce_ = 0;    // buckets; only at the server
};

}  // namespace longhaul::overlay::tsengine
