#include "longhaul/overlay/tsengine_attempt.h"

#include <algorithm>

#include "longhaul/overlay/reduction.h"

namespace longhaul::overlay::tsengine {
namespace {
constexpr std::uint32_t kHops = 2;  // part, mean
}

Agent::Agent(const ExchangeSpec& spec, std::uint32_t buckets, bool streamed,
             Coordinator& coordinator)
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

const Agent::Bucket& Agent::bucket_of(std::size_t piece) const {
  const auto behind =
      std::upper_bound(buckets_.begin(), buckets_.end(), piece,
                       [](std::size_t p, const Bucket& bucket) { return p < bucket.first; });
  return *(behind - 1);
}

Agent::Bucket& Agent::bucket_of(std::size_t piece) {
  return const_cast<Bucket&>(std::as_const(*this).bucket_of(piece));
}

// Where a piece begins within its bucket.
std::uint64_t Agent::offset(const Bucket& bucket, std::size_t piece) const {
  return spec_.grid().range(piece).offset - spec_.grid().range(bucket.first).offset;
}

std::uint64_t Agent::length(const Bucket& bucket) const {
  const std::size_t last = bucket.first + bucket.count - 1;
  return offset(bucket, last) + spec_.grid().range(last).length;
}

// What is one member's alone is its contribution, more is a mean of several.
TransferKey Agent::part_key(Rank from, std::size_t counted) const {
  return key(Phase::part, counted == 1 ? Coding::up : Coding::down, from);
}

void Agent::contribute(std::uint64_t length, double weight, AttemptContext& context) {
  set_contribution(weight);
  if (!serves()) return void(context.shares.emplace_back(server(), share(length)));
  enlist(*spec_.team->index_of(spec_.team->self), weight, context);
}

// --- pieces

Result<bool> Agent::admit(Rank from, const TransferKey& key, std::size_t piece) const {
  if (late(from, key, piece)) return false;
  const Bucket& bucket = bucket_of(piece);
  if (Phase(key.phase) == Phase::mean) {
    if (key != mean_key() || !bucket.sources.contains(from))
      return refuse(from, "a mean that it did not announce, or in another coding");
    return true;
  }
  if (!bucket.in || bucket.in->from != from || key != part_key(from, bucket.in->sum.counted.size()))
    return refuse(from, "a part that it did not announce, or in another coding");
  if (bucket.in->have[piece - bucket.first]) return refuse(from, "a part for the second time");
  return true;
}

// Only after a deadline: what was given up may still be on its way.
bool Agent::late(Rank from, const TransferKey& key, std::size_t piece) const {
  const Bucket& bucket = bucket_of(piece);
  if (Phase(key.phase) == Phase::mean)
    return bucket.again && bucket.sources.contains(from) &&
           bucket.bytes[piece - bucket.first].size() > 0;
  const auto past = bucket.past.find(from);
  if (Phase(key.phase) != Phase::part || past == bucket.past.end() || !past->second.failed)
    return false;
  return !bucket.in || bucket.in->from != from || bucket.in->have[piece - bucket.first];
}

Status Agent::take(Arrival&& arrival, std::size_t piece, AttemptContext& context) {
  Bucket& bucket = bucket_of(piece);
  if (Phase(arrival.key.phase) == Phase::mean) {
    bucket.bytes[piece - bucket.first] = context.arrived;
    context.means[piece] = std::move(arrival.values);
    if (--bucket.missing == 0) take_mean(bucket, arrival.from, context);
    return Ok{};
  }
  In& in = *bucket.in;
  // Of a transfer before this one, which was given up and counted others.
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

void Agent::send(Bucket& bucket, const Out& out, Sending sending, AttemptContext& context) {
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

Payload Agent::encoded(const TransferKey& key, std::size_t piece, AttemptContext& context) {
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

Sum Agent::own_sum(const Bucket& bucket, AttemptContext& context) const {
  Sum own{weight(), {spec_.team->self}, {}};
  for (std::uint32_t i = 0; i < bucket.count; ++i) {
    const std::vector<float> values = context.buffers.own_values(bucket.first + i);
    own.values.insert(own.values.end(), values.begin(), values.end());
  }
  return own;
}

// --- the server

Status Agent::take_announcement(Rank from, const Announcement& share, AttemptContext& context) {
  const auto member = spec_.team->index_of(from);
  if (!member || !serves()) return refuse(from, "a share for a node that does not serve");
  if (weights_[*member] != kUnknownWeight) return refuse(from, "a second share");
  enlist(*member, share.weight, context);
  return Ok{};
}

void Agent::enlist(std::uint32_t member, double weight, AttemptContext& context) {
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
  if (std::all_of(weights_.begin(), weights_.end(), [](double w) { return w == 0; })) {
    to_reduce_ = 0;  // nobody brings anything: an empty mean
    for (Bucket& bucket : buckets_) bucket.let_go = true;
    return coordinator_.close(spec_.key);
  }
  for (Bucket& bucket : buckets_) try_commit(bucket, context);
}

// Whose parts the server lacks; once all shares are known.
std::vector<Rank> Agent::missing(const Bucket& bucket) const {
  std::vector<Rank> ranks;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const Rank rank = spec_.team->members[i];
    const bool here =
        std::binary_search(bucket.sum.counted.begin(), bucket.sum.counted.end(), rank);
    if (weights_[i] != 0 && rank != server() && !here) ranks.push_back(rank);
  }
  return ranks;
}

void Agent::try_commit(Bucket& bucket, AttemptContext& context) {
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

// The server's own part is added last: where it stands in the sum depends on nobody's speed.
void Agent::commit(Bucket& bucket, AttemptContext& context) {
  if (contributed() && weight() > 0) mix(bucket.sum, own_sum(bucket, context));
  for (std::uint32_t i = 0; i < bucket.count; ++i) {
    const std::size_t piece = bucket.first + i;
    std::span<const float> values = bucket.sum.values;
    if (!values.empty())
      values = values.subspan(offset(bucket, piece), spec_.grid().range(piece).length);
    const Coding coding = mean_key().coding;
    bucket.bytes[i] = context.buffers.write(piece, coding, values);
    // The server, too, uses what the others will read.
    if (spec_.team->takes_part())
      context.means[piece] = context.buffers.read(piece, coding, bucket.bytes[i]);
  }
  bucket.sum.values = {};
  bucket.missing = 0;
  bucket.given = true;
}

// --- the rest

Attempt::Progress Agent::progress() const {
  const auto done = [](const Bucket& bucket) { return bucket.let_go && !bucket.out; };
  const bool drained = std::all_of(buckets_.begin(), buckets_.end(), done) &&
                       !(serves() && coordinator_.runs(spec_.key));
  return {to_reduce_ == 0, drained};
}

std::string Agent::waiting_for(const std::vector<bool>& mean_pieces) const {
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

void Agent::state(Archive& ar) {
  Attempt::state(ar);
  std::uint64_t count = buckets_.size();
  ar(weights_, unknown_, to_reduce_, count);
  if (count != buckets_.size()) return ar.fail("holds an attempt of another number of buckets");
  for (Bucket& bucket : buckets_) ar(bucket);
  set_due();
}

}  // namespace longhaul::overlay::tsengine
