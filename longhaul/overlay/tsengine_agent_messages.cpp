// What agents and the coordinator of tsengine say, and what an agent makes of it.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "longhaul/overlay/rank_bits.h"
#include "longhaul/overlay/tsengine_attempt.h"

namespace longhaul::overlay::tsengine {

Agent::Bucket* Agent::find(std::uint32_t number) {
  return number < buckets_.size() ? &buckets_[number] : nullptr;
}

void Agent::say(Rank to, AttemptMessage note, AttemptContext& context, Service service) {
  context.notes.push_back({spec_.key, to, std::move(note), service});
}

void Agent::pass(Orders&& orders, AttemptContext& context) {
  for (Order& order : orders.list)
    context.notes.push_back({order.about, order.to, std::move(order.note), kControl});
  if (!orders.give_up.empty()) context.given_up = std::move(orders.give_up);
}

// To the coordinator; that of this node hears it at once.
template <class M>
void Agent::report(const M& one, AttemptContext& context) {
  if (!serves()) return say(server(), write(one), context);
  Orders orders;
  LH_CHECK(coordinator_.hear(spec_.key, spec_.team->self, one, orders));
  pass(std::move(orders), context);
}

Status Agent::take_message(Rank from, const AttemptMessage& note, AttemptContext& context) {
  return read(note, [&](const auto& one) -> Status { return hear(from, one, context); });
}

template <class M>
Status Agent::hear(Rank from, const M& one, AttemptContext& context) {
  if (!serves()) return refuse(from, "a report for a node that does not coordinate");
  Orders orders;
  LH_TRY(coordinator_.hear(spec_.key, from, one, orders));
  pass(std::move(orders), context);
  return Ok{};
}

// --- what the coordinator says

Status Agent::hear(Rank from, const Assign& assign, AttemptContext& context) {
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

Status Agent::hear(Rank from, const Merge& merge, AttemptContext& context) {
  Bucket* bucket = find(merge.bucket);
  const bool ready = bucket && contributed() && weight() > 0 && !serves() && !bucket->given &&
                     !bucket->in && !bucket->out && bucket->missing > 0;
  if (!ready || from != server() || merge.xfer <= bucket->obeyed || merge.to == spec_.team->self ||
      !(merge.to == server() || takes_part(merge.to)))
    return refuse(from, "an order about a part that cannot be");
  Sending sending;
  const Sum& sum = bucket->sum;
  sending.weight = sum.weight > 0 ? sum.weight : weight();
  sending.counted = to_bits(sum.weight > 0 ? sum.counted : std::vector<Rank>{spec_.team->self});
  send(*bucket, {merge.xfer, false, merge.to, context.now + Time(merge.allowed)},
       std::move(sending), context);
  return Ok{};
}

// What was not taken until now will never be.
Status Agent::hear(Rank from, const Fence& fence, AttemptContext& context) {
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

// --- what senders say

Status Agent::hear(Rank from, const Sending& sending, AttemptContext& context) {
  Bucket* bucket = find(sending.bucket);
  if (!bucket || from == spec_.team->self) return refuse(from, "what cannot be announced");
  return sending.mean ? hear_mean(from, sending, *bucket, context)
                      : hear_part(from, sending, *bucket, context);
}

Status Agent::hear_mean(Rank from, const Sending& sending, Bucket& bucket,
                        AttemptContext& context) {
  const auto known = bucket.sources.find(from);
  if (serves() || !contributed() ||
      (known != bucket.sources.end() && sending.xfer <= known->second.xfer))
    return refuse(from, "a mean that cannot be, or again");
  bucket.again |= !bucket.sources.empty();
  bucket.sources[from] = {sending.xfer, context.now};
  if (bucket.missing == 0) say(from, write(Got{sending.bucket, sending.xfer, true, 0}), context);
  return Ok{};
}

Status Agent::check_part(Rank from, const Sending& sending, const Bucket& bucket,
                         const std::vector<Rank>& counted) const {
  const bool awaits =
      serves() ? !bucket.given : contributed() && weight() > 0 && !bucket.given && !bucket.out;
  if (!awaits || bucket.in) return refuse(from, "a part that was not awaited");
  const auto foreign = [&](Rank rank) { return !takes_part(rank) || rank == spec_.team->self; };
  if (!std::binary_search(counted.begin(), counted.end(), from) ||
      std::any_of(counted.begin(), counted.end(), foreign) ||
      !disjoint(counted, bucket.sum.counted) || !(sending.weight > 0))
    return refuse(from, "a part that counts whom it cannot");
  if (!serves()) return Ok{};
  // The server knows what each brings.
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

Status Agent::hear_part(Rank from, const Sending& sending, Bucket& bucket,
                        AttemptContext& context) {
  const auto past = bucket.past.find(from);
  if (past != bucket.past.end() && sending.xfer <= past->second.xfer) {
    if (past->second.taken) return refuse(from, "a part for the second time");
    return Ok{};  // given up before it came
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

// All of a sum is here.
void Agent::take_part(Bucket& bucket, AttemptContext& context) {
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

// All of a bucket of the mean is here: whoever else is sending it may stop.
void Agent::take_mean(Bucket& bucket, Rank from, AttemptContext& context) {
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

Status Agent::hear(Rank from, const Got& got, AttemptContext& context) {
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
  // Also after the deadline: the coordinator hears it from who took it.
  if (bucket->missing == 0) return Ok{};  // the mean overtook it
  if (got.xfer != bucket->obeyed || from != bucket->target || bucket->given)
    return refuse(from, "thanks for nothing");
  give(*bucket, context);
  return Ok{};
}

// The own part, and what was added to it, is counted elsewhere.
void Agent::give(Bucket& bucket, AttemptContext& context) {
  if (bucket.given) return;
  bucket.given = true;
  stop(bucket, context);
  // Announced after a deadline, and nothing is left to add it to.
  if (bucket.in) {
    bucket.past[bucket.in->from] = {bucket.in->xfer, false, true};
    bucket.in.reset();
  }
  bucket.sum.values = {};
}

// What has not gone out of the transfer under way does not. If all of it has, the next one to the
// same node may have begun, under the same name.
void Agent::stop(Bucket& bucket, AttemptContext& context) {
  if (!bucket.out) return;
  const auto counted = std::max<std::size_t>(bucket.sum.counted.size(), 1);
  if (bucket.out->left > 0)
    context.cancelled.emplace_back(
        bucket.out->mean ? mean_key() : part_key(spec_.team->self, counted), bucket.out->to);
  bucket.out.reset();
  set_due();
}

// --- deadlines

void Agent::set_due() {
  due_.reset();
  for (const Bucket& bucket : buckets_)
    if (bucket.out && (!due_ || bucket.out->due < *due_)) due_ = bucket.out->due;
}

void Agent::on_time(AttemptContext& context) {
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

}  // namespace longhaul::overlay::tsengine
