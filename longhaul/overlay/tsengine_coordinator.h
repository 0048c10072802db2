#pragma once
// The coordinator of one group of tsengine decides each transfer when the nodes for it are free.
// The coordinator runs at the server: all nodes have the object, and only the one at the server is
// used. The learned rates, the count of random draws, and the slots, which all exchanges share,
// outlive attempts.
//
// Inputs return orders for agents, in every exchange that can continue now. An Error: the peer is
// broken, and nothing has changed. No clock: agents measure, and keep the deadlines of the
// coordinator.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/base/check.h"
#include "longhaul/base/rng.h"
#include "longhaul/core/overlay.h"
#include "longhaul/core/types.h"
#include "longhaul/overlay/plan.h"
#include "longhaul/overlay/tsengine_messages.h"

namespace longhaul::overlay::tsengine {

// The transfer slots: each node has at most one transfer in and one out, in all buckets, rounds and
// vectors.
class Slots {
 public:
  bool out_free(Rank rank) const { return !out_.contains(rank); }
  bool in_free(Rank rank) const { return !in_.contains(rank); }
  void take(Rank from, Rank to) {
    const bool free = out_.insert(from).second && in_.insert(to).second;
    LH_CHECK(free && from != to);
  }
  void free_out(Rank rank) { out_.erase(rank); }
  void free_in(Rank rank) { in_.erase(rank); }
  void clear() { in_.clear(), out_.clear(); }
  void state(Archive& ar) { ar(in_, out_); }

 private:
  std::set<Rank> in_, out_;
};

// Choice of a holder's next receiver: over the fastest known link, or over one not tried yet. A
// pure function.

// The learned rate from one node to another in bytes/s, if known.
using Rate = std::function<std::optional<double>(Rank from, Rank to)>;

// Returns the next receiver. `candidates`: at least one, ascending; K have a known link from
// `holder`, U have none. With probability min(K / (K + U), greed) the fastest known link wins, ties
// to the lowest rank. Otherwise one of the unknown is drawn, or any candidate if there is no
// unknown one.
inline Rank choose_receiver(Rank holder, std::span<const Rank> candidates, const Rate& rate,
                            double greed, Random& random) {
  LH_CHECK(!candidates.empty());
  std::vector<Rank> unknown;
  std::optional<std::pair<double, Rank>> fastest;
  for (const Rank to : candidates) {
    const auto known = rate(holder, to);
    if (!known) {
      unknown.push_back(to);
    } else if (!fastest || *known > fastest->first) {
      fastest = {*known, to};
    }
  }
  const double known = double(candidates.size() - unknown.size());
  const double p = std::min(known / double(candidates.size()), greed);
  if (random.uniform() < p) return fastest->second;
  if (unknown.empty()) return candidates[random.below(candidates.size())];
  return unknown[random.below(unknown.size())];
}

// Aggregation of one bucket, "minimal waiting delay": ready nodes are paired. The sender of a pair
// drops out, its receiver becomes ready again; the server only receives. So sums are added in the
// order of the pairs, never in that of arrival. Pure: no network, no clock.
struct Pair {
  Rank from = 0;
  Rank to = 0;
  friend bool operator==(const Pair&, const Pair&) = default;
};

class Gather {
 public:
  Gather() = default;
  // The server is ready from the start.
  explicit Gather(Rank server) : server_(server), ready_{server} {}

  void ready(Rank rank) {
    LH_CHECK(!is_ready(rank));
    ready_.push_back(rank);
  }

  bool is_ready(Rank rank) const { return std::ranges::find(ready_, rank) != ready_.end(); }

  // Returns the first two ready nodes, in the order in which they became ready, with a free slot
  // each. The worker with the faster link to the other sends; in a tie, the later one.
  std::optional<Pair> match(const Slots& slots, const Rate& rate) {
    const auto sends = [&](Rank r) { return r != server_ && slots.out_free(r); };
    const auto takes = [&](Rank r) { return slots.in_free(r); };
    if (std::ranges::none_of(ready_, sends)) return std::nullopt;
    if (std::ranges::none_of(ready_, takes)) return std::nullopt;
    for (auto first = ready_.begin(); first != ready_.end(); ++first) {
      if (!sends(*first) && !takes(*first)) continue;
      for (auto second = first + 1; second != ready_.end(); ++second) {
        const Pair found = pair(*first, *second, rate);
        if (!slots.out_free(found.from) || !slots.in_free(found.to)) continue;
        ready_.erase(second);
        ready_.erase(first);
        return found;
      }
    }
    return std::nullopt;
  }

  void close() { ready_.clear(); }  // all parts are counted
  void state(Archive& ar) { ar(server_, ready_); }

 private:
  Pair pair(Rank first, Rank second, const Rate& rate) const {
    if (first == server_) return {second, first};
    if (second == server_) return {first, second};
    const double there = rate(first, second).value_or(-1), back = rate(second, first).value_or(-1);
    return there > back ? Pair{first, second} : Pair{second, first};
  }

  Rank server_ = 0;
  std::vector<Rank> ready_;  // in the order in which they became ready
};

// Distribution of one bucket: its holders, and the nodes that lack it. Pure: no network, no clock.
class Spread {
 public:
  Spread() = default;
  // `receivers` lack the bucket; the server, which is none of them, has it.
  Spread(Rank server, const std::vector<Rank>& receivers)
      : lacking_(receivers.size()), going_(receivers.size() + 1) {
    for (const Rank rank : receivers) stands_[rank] = Stand::lacks;
    LH_CHECK(stands_.emplace(server, Stand::has).second);
  }

  bool open() const { return !stands_.empty(); }
  // Called when `rank` reports that it has the bucket. Returns false if it had reported this
  // before.
  bool received(Rank rank) {
    const auto stand = stands_.find(rank);
    if (stand == stands_.end() || stand->second >= Stand::has) return false;
    if (stand->second != Stand::said) --lacking_;
    stand->second = Stand::has;
    return true;
  }

  void assigned(Rank rank) { stands_.at(rank) = Stand::assigned; }
  // Called when the sender reports that `rank` has the bucket.
  void served(Rank rank) {
    Stand& stand = stands_.at(rank);
    if (stand >= Stand::said) return;
    --lacking_;
    stand = Stand::said;
  }

  // Called when the bucket did not arrive in time.
  void failed(Rank rank) {
    Stand& stand = stands_.at(rank);
    if (stand == Stand::assigned) stand = Stand::lacks;
  }

  // Returns the nodes that lack the bucket and have a free slot, ascending.
  std::vector<Rank> candidates(const Slots& slots) const {
    std::vector<Rank> ranks;
    for (const auto& [rank, stand] : stands_)
      if (stand == Stand::lacks && slots.in_free(rank)) ranks.push_back(rank);
    return ranks;
  }

  bool all_have() const { return lacking_ == 0; }
  // Releases a holder: it will not be asked to send the bucket again. Once for each holder.
  void let_go(Rank rank) {
    LH_CHECK(stands_.at(rank) == Stand::has);
    stands_.at(rank) = Stand::gone;
    --going_;
  }

  bool over() const { return open() && going_ == 0; }
  void state(Archive& ar) { ar(stands_, lacking_, going_); }

 private:
  enum class Stand : std::uint8_t { lacks, assigned, said, has, gone };
  std::map<Rank, Stand> stands_;
  std::size_t lacking_ = 0;  // nodes that lack the bucket
  std::size_t going_ = 0;    // nodes that are not released
};

// The learned rates of links: bytes/s of whole transfers, by the clock of the run, each new figure
// averaged with the known one. A rate without a report for `expire` rounds is discarded. Owned by
// the coordinator; a new one knows no rates.
class Throughput {
 public:
  // `weight`: of a new figure, in (0, 1]; the first one counts fully.
  Throughput(double weight, Round expire) : weight_(weight), expire_(expire) {}

  void learn(Rank from, Rank to, std::uint64_t bytes, Time elapsed, Round round) {
    const double rate = double(bytes) / seconds(std::max(elapsed, Time{1}));
    const auto known = of(from, to, round);
    links_[{from, to}] = {known ? weight_ * rate + (1 - weight_) * *known : rate, round};
  }

  // Sets the rate to 0.
  void failed(Rank from, Rank to, Round round) { links_[{from, to}] = {0, round}; }

  // Returns bytes/s; nothing: unknown, or too old.
  std::optional<double> of(Rank from, Rank to, Round now) const {
    const auto link = links_.find({from, to});
    if (link == links_.end() || old(link->second, now)) return std::nullopt;
    return link->second.rate;
  }

  // Discards rates that are too old.
  void forget(Round now) {
    std::erase_if(links_, [&](const auto& entry) { return old(entry.second, now); });
  }

  std::size_t size() const { return links_.size(); }
  void state(Archive& ar) { ar(links_); }

 private:
  struct Link {
    double rate = 0;
    Round round = 0;  // round of the last report
    void state(auto& ar) { ar(rate, round); }
  };
  bool old(const Link& link, Round now) const { return now > link.round + expire_; }

  double weight_;
  Round expire_;
  std::map<std::pair<Rank, Rank>, Link> links_;
};

struct CoordinatorConfig {
  double greed = 0.9;
  Round expire = 5;
  double ema = 0.5;
  Time least = std::chrono::seconds(5);     // shortest deadline of a transfer
  Time unknown = std::chrono::seconds(60);  // deadline over an unknown link
};

struct Order {
  VectorId about;
  Rank to = 0;
  AttemptMessage note;
};
struct Orders {
  std::vector<Order> list;
  std::string give_up;  // why the run cannot continue; "": it can
};

class Coordinator {
  // Each failure doubles the deadlines of the bucket's next transfers.
  static constexpr std::uint32_t kMostFailures = 12;

 public:
  Coordinator(const CoordinatorConfig& config, std::uint64_t seed) : config_(config), seed_(seed) {}

  // Ends all exchanges. The learned rates stay at a node that was and is the server.
  void new_team(const GroupMembers& team) {
    boards_.clear();
    lot_.clear();
    transfers_.clear();
    slots_.clear();
    if (team.server != team.self || server_ != team.self) learned_.clear();
    if (!team.server) return;
    server_ = *team.server;
    receivers_ = team.members;
    std::erase(receivers_, server_);
  }

  // Begins an exchange of buckets of these sizes (as fp32), if it has not begun.
  void open(const VectorId& key, const std::vector<std::uint64_t>& bytes) {
    if (runs(key)) return;
    learned(key).forget(key.round);
    for (const std::uint64_t size : bytes) boards_[key].push_back({size, 0, Gather(server_), {}});
  }

  // Ends the exchange.
  void close(const VectorId& key) {
    boards_.erase(key);
    std::erase_if(lot_, [&](const auto& entry) { return entry.second.key == key; });
    std::vector<Xfer> ended;
    for (const auto& [xfer, transfer] : transfers_)
      if (transfer.key == key) ended.push_back(xfer);
    for (const Xfer xfer : ended) end(xfer);
  }

  bool runs(const VectorId& key) const { return boards_.contains(key); }

  // Called when this worker's part is ready to be sent, in all buckets. Once each.
  void ready(const VectorId& key, Rank rank, Orders& orders) {
    for (Bucket& bucket : boards_.at(key)) bucket.gather.ready(rank);
    advance(orders);
  }

  // Called when the server has the mean of this bucket. Once each.
  void committed(const VectorId& key, std::uint32_t bucket, Orders& orders) {
    Bucket& done = *find(key, bucket);
    LH_CHECK(!done.spread.open());
    done.gather.close();
    done.spread = Spread(server_, receivers_);
    park(key, bucket, server_);
    advance(orders);
  }

  Status hear(const VectorId& key, Rank from, const Offer& offer, Orders& orders) {
    Bucket* bucket = find(key, offer.bucket);
    if (!bucket || !bucket->spread.open()) return malformed("offer of a bucket without a mean");
    if (offer.after == Offer::After::received) {
      if (offer.xfer == 0 || offer.xfer >= next_) return malformed("offer after no transfer");
      if (!bucket->spread.received(from)) return malformed("offer for the second time");
      for (auto& [xfer, t] : transfers_) {
        if (!t.mean || t.to != from || t.key != key || t.bucket != offer.bucket || t.received)
          continue;
        t.received = true;
        slots_.free_in(from);
      }
    } else {
      Transfer* t = find(offer.xfer, key, offer.bucket, true);
      if (!t || t->from != from) return malformed("offer after a transfer that is not under way");
      if (offer.after == Offer::After::served) {
        bucket->spread.served(t->to);
        if (offer.elapsed > 0)
          learned(key).learn(from, t->to, bucket->bytes, Time(offer.elapsed), key.round);
        end(offer.xfer);
      } else {
        if (!t->received) bucket->spread.failed(t->to);
        count_failure(offer.xfer, *bucket, orders);
      }
    }
    park(key, offer.bucket, from);
    advance(orders);
    return Ok{};
  }

  Status hear(const VectorId& key, Rank from, const Ready& ready, Orders& orders) {
    Bucket* bucket = find(key, ready.bucket);
    if (ready.xfer == 0 || ready.xfer >= next_) return malformed("ready after no transfer");
    Transfer* t = find(ready.xfer, key, ready.bucket, false);
    if (!ready.taken) {  // taken meanwhile: good
      if (!t) return Ok{};
      if (t->from != from || t->fenced)
        return malformed("ready after another's transfer, or twice");
      t->fenced = true;
      orders.list.push_back({key, t->to, write(Fence{ready.bucket, t->from, ready.xfer})});
      return Ok{};
    }
    if (!t || t->to != from) return malformed("ready after a transfer that is not under way");
    if (ready.elapsed > 0)
      learned(key).learn(t->from, from, bucket->bytes, Time(ready.elapsed), key.round);
    end(ready.xfer);
    bucket->gather.ready(from);
    advance(orders);
    return Ok{};
  }

  Status hear(const VectorId& key, Rank from, const Fenced& fenced, Orders& orders) {
    Bucket* bucket = find(key, fenced.bucket);
    if (fenced.xfer >= next_) return malformed("an answer that nobody asked for");
    Transfer* t = find(fenced.xfer, key, fenced.bucket, false);
    if (!t && fenced.taken) return Ok{};  // the `ready` of this transfer arrived first
    if (!t || t->to != from || !t->fenced || fenced.taken)
      return malformed("an answer that nobody asked for");
    const Rank sender = t->from;
    count_failure(fenced.xfer, *bucket, orders);
    bucket->gather.ready(sender);
    bucket->gather.ready(from);
    advance(orders);
    return Ok{};
  }

  // Returns true if the server must take this part from `from`.
  bool expects(const VectorId& key, std::uint32_t bucket, Xfer xfer, Rank from) const {
    const auto it = transfers_.find(xfer);
    if (it == transfers_.end()) return false;
    const Transfer& t = it->second;
    return t.key == key && t.bucket == bucket && !t.mean && t.from == from && t.to == server_;
  }

  // Returns bytes/s from one node to another, as learned from exchanges of this range.
  std::optional<double> rate(const VectorId& key, Rank from, Rank to) const {
    const auto it = learned_.find(key.range);
    return it == learned_.end() ? std::nullopt : it->second.of(from, to, key.round);
  }

  // Returns the nodes whose answer to a fence is missing.
  std::vector<Rank> fenced(const VectorId& key) const {
    std::vector<Rank> ranks;
    for (const auto& [xfer, t] : transfers_)
      if (t.key == key && t.fenced) ranks.push_back(t.to);
    return ranks;
  }

  void state(Archive& ar) {
    ar(server_, receivers_, boards_, lot_, transfers_, slots_, next_, tickets_, draws_);
    std::vector<std::uint32_t> ranges;
    for (const auto& [range, table] : learned_) ranges.push_back(range);
    ar(ranges);
    if (ar.loading()) learned_.clear();
    for (const std::uint32_t range : ranges) ar(learned({0, 0, range}));
  }

 private:
  struct Bucket {
    std::uint64_t bytes = 0;
    std::uint32_t failures = 0;
    Gather gather;
    Spread spread;
    void state(auto& ar) { ar(bytes, failures, gather, spread); }
  };
  using Board = std::vector<Bucket>;  // buckets of one exchange
  struct Transfer {
    VectorId key;
    std::uint32_t bucket = 0;
    bool mean = false;  // false: a partial sum
    Rank from = 0, to = 0;
    bool received = false;  // a mean: its receiver reported before its sender
    bool fenced = false;    // a sum: its sender gave up, and its receiver was asked
    void state(auto& ar) { ar(key, bucket, mean, from, to, received, fenced); }
  };
  struct Parked {
    VectorId key;
    std::uint32_t bucket = 0;
    Rank holder = 0;
    void state(auto& ar) { ar(key, bucket, holder); }
  };

  Bucket* find(const VectorId& key, std::uint32_t bucket) {
    const auto board = boards_.find(key);
    if (board == boards_.end() || bucket >= board->second.size()) return nullptr;
    return &board->second[bucket];
  }

  Transfer* find(Xfer xfer, const VectorId& key, std::uint32_t bucket, bool mean) {
    const auto it = transfers_.find(xfer);
    if (it == transfers_.end()) return nullptr;
    Transfer& t = it->second;
    return t.key == key && t.bucket == bucket && t.mean == mean ? &t : nullptr;
  }

  Throughput& learned(const VectorId& key) {
    return learned_.try_emplace(key.range, config_.ema, config_.expire).first->second;
  }

  Rate rate_of(const VectorId& key) {
    return [this, key](Rank from, Rank to) { return rate(key, from, to); };
  }

  void park(const VectorId& key, std::uint32_t bucket, Rank holder) {
    lot_[{key.round, tickets_++}] = {key, bucket, holder};
  }

  // Ends a failed transfer. The link has rate 0 until that is discarded.
  void count_failure(Xfer xfer, Bucket& bucket, Orders& orders) {
    const Transfer t = transfers_.at(xfer);
    learned(t.key).failed(t.from, t.to, t.key.round);
    end(xfer);
    if (++bucket.failures > kMostFailures)
      orders.give_up = "round " + std::to_string(t.key.round) + ": " +
                       std::to_string(bucket.failures) +
                       " transfers of one bucket were not done in time, the last one from rank " +
                       std::to_string(t.from) + " to rank " + std::to_string(t.to);
  }

  void end(Xfer xfer) {
    const auto it = transfers_.find(xfer);
    slots_.free_out(it->second.from);
    if (!it->second.received) slots_.free_in(it->second.to);
    transfers_.erase(it);
  }

  void advance(Orders& orders) {
    spread(orders);
    gather(orders);
    std::erase_if(boards_, [](const auto& entry) {
      const auto over = [](const Bucket& bucket) { return bucket.spread.over(); };
      return std::ranges::all_of(entry.second, over);
    });
  }

  // Assigns receivers to holders. A holder is released only when all have the bucket: it may have
  // to replace another.
  void spread(Orders& orders) {
    for (auto it = lot_.begin(); it != lot_.end();) {
      const auto [key, number, holder] = it->second;
      Bucket& bucket = boards_.at(key)[number];
      const auto candidates = bucket.spread.candidates(slots_);
      if (bucket.spread.all_have()) {
        bucket.spread.let_go(holder);
        orders.list.push_back({key, holder, write(Assign{number, 0, 0, 0})});
      } else if (!candidates.empty() && slots_.out_free(holder)) {
        Random random(seed_, {Purpose::overlay, draws_++, holder});
        const Rank to = choose_receiver(holder, candidates, rate_of(key), config_.greed, random);
        bucket.spread.assigned(to);
        const auto time = allowed(bucket, rate(key, holder, to));
        const Xfer xfer = begin(key, number, true, {holder, to});
        orders.list.push_back({key, holder, write(Assign{number, to, xfer, time})});
      } else {
        ++it;
        continue;
      }
      it = lot_.erase(it);
    }
  }

  void gather(Orders& orders) {
    for (auto& [key, board] : boards_) {
      for (std::uint32_t number = 0; number < board.size(); ++number) {
        Bucket& bucket = board[number];
        while (const auto pair = bucket.gather.match(slots_, rate_of(key))) {
          const auto time = allowed(bucket, rate(key, pair->from, pair->to));
          const Xfer xfer = begin(key, number, false, *pair);
          orders.list.push_back({key, pair->from, write(Merge{number, pair->to, xfer, time})});
        }
      }
    }
  }

  Xfer begin(const VectorId& key, std::uint32_t bucket, bool mean, Pair pair) {
    slots_.take(pair.from, pair.to);
    transfers_[next_] = {key, bucket, mean, pair.from, pair.to};
    return next_++;
  }

  std::int64_t allowed(const Bucket& bucket, std::optional<double> rate) const {
    double time = seconds(config_.unknown);
    if (rate && *rate > 0)
      time = std::max(seconds(config_.least), 4 * double(bucket.bytes) / *rate);
    time *= std::ldexp(1, int(std::min(bucket.failures, kMostFailures)));
    return std::int64_t(std::min(time * 1e9, kLongest));
  }

  const CoordinatorConfig config_;
  const std::uint64_t seed_;
  Rank server_ = 0;
  std::vector<Rank> receivers_;       // all members but the server
  std::map<VectorId, Board> boards_;  // older rounds first
  // Holders that are free to send: those of older rounds first, then in the order of their offers.
  std::map<std::pair<Round, std::uint64_t>, Parked> lot_;
  std::map<Xfer, Transfer> transfers_;  // under way
  Slots slots_;
  std::map<std::uint32_t, Throughput> learned_;  // by range
  Xfer next_ = 1;
  std::uint64_t tickets_ = 0;
  Round draws_ = 0;
};

}  // namespace longhaul::overlay::tsengine
