#pragma once
// Checks is a site's half of the accurate model. It sends representatives to verifiers, at most two
// batches in flight to each, and receives verdicts. A cluster is checked once, however many queries
// wait for it. If a verifier is lost or silent about a batch for `patience`, the site itself checks
// its clusters. A silent verifier receives new batches once it has answered that batch.
#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <span>

#include "longhaul/core/machine.h"
#include "longhaul/focus/index.h"
#include "longhaul/focus/messages.h"

namespace longhaul::focus {

class Checks {
  static constexpr std::size_t kMostBody = 256 * 1024;  // bytes of one message

 public:
  static constexpr std::size_t kInFlight = 2;  // batches to one verifier
  static constexpr TimerId kTimer{5};          // a timer of the node, which then calls advance()
  // `node`: the machine that owns this part. `batch`: maximum objects of one batch; `object_bytes`:
  // size of an object on the network.
  Checks(const Machine& node, std::uint32_t batch, std::uint32_t object_bytes, Time patience)
      : node_(node), batch_(batch), object_bytes_(object_bytes), patience_(patience) {}

  // Requests a check of the cluster, unless one is pending.
  void request(std::uint64_t cluster, Rank verifier) {
    if (pending_.insert(cluster).second) queues_[verifier].push_back(cluster);
  }

  // Removes the cluster, unless its check is in flight.
  void forget(std::uint64_t cluster) {
    for (auto& [verifier, queue] : queues_)
      if (std::erase(queue, cluster) > 0) pending_.erase(cluster);
  }

  // Gives up silent verifiers, and sends the batches that can be sent now.
  void advance(const Index& index, Turn& turn) {
    give_up_silent(turn);
    for (auto& [verifier, queue] : queues_)
      while (!queue.empty() && in_flight(verifier) < kInFlight && turn.room(verifier, kObjects) > 0)
        send(verifier, queue, index, turn);
    std::erase_if(queues_, [](const auto& entry) { return entry.second.empty(); });
    set_timer(turn);
  }

  // Returns clusters and their classes, in the order of requests; empty if the batch is unknown or
  // was given up. Returns an Error if the verdicts do not fit the batch or name none of `classes`;
  // the batch then stays in flight.
  Result<std::vector<std::pair<std::uint64_t, std::uint32_t>>> take(Rank from,
                                                                    const Verdict& verdict,
                                                                    std::uint32_t classes) {
    std::vector<std::pair<std::uint64_t, std::uint32_t>> decided;
    const auto it = batches_.find(verdict.batch);
    if (it == batches_.end()) return decided;
    const Batch& batch = it->second;
    if (batch.verifier != from || batch.clusters.size() != verdict.classes.size())
      return malformed("verdicts that do not fit their batch");
    for (const std::uint32_t cls : verdict.classes)
      if (cls >= classes) return malformed("a verdict of an unknown class");
    for (std::size_t i = 0; i < batch.clusters.size() && !batch.given_up; ++i) {
      decided.emplace_back(batch.clusters[i], verdict.classes[i]);
      pending_.erase(batch.clusters[i]);
    }
    batches_.erase(it);
    return decided;
  }

  Status take(Rank from, const StillChecking& message, Time now) {
    const auto it = batches_.find(message.batch);
    if (it != batches_.end() && it->second.verifier == from) it->second.heard = now;
    return Ok{};
  }

  void on_view(Turn& turn) {
    std::vector<std::uint64_t> owed;
    for (auto it = batches_.begin(); it != batches_.end();) {
      const bool lost = !turn.view().has(it->second.verifier);
      const Batch& batch = it->second;
      if (lost && !batch.given_up)
        owed.insert(owed.end(), batch.clusters.begin(), batch.clusters.end());
      it = lost ? batches_.erase(it) : std::next(it);
    }
    for (auto it = queues_.begin(); it != queues_.end();) {
      const bool lost = !turn.view().has(it->first);
      if (lost) owed.insert(owed.end(), it->second.begin(), it->second.end());
      it = lost ? queues_.erase(it) : std::next(it);
    }
    check_here(owed, turn.self());
  }

  std::size_t pending() const { return pending_.size(); }
  void state(Archive& ar) { ar(queues_, batches_, pending_, next_); }
  // Returns the verifiers with an overdue batch.
  std::set<Rank> given_up() const {
    std::set<Rank> ranks;
    for (const auto& [number, batch] : batches_)
      if (batch.given_up) ranks.insert(batch.verifier);
    return ranks;
  }

 private:
  struct Batch {
    Rank verifier = 0;
    std::vector<std::uint64_t> clusters;
    Time heard{0};          // last message about it
    bool given_up = false;  // this site checks its clusters itself
    void state(auto& ar) { ar(verifier, clusters, heard, given_up); }
  };
  // Gives up overdue batches, except those of this node: its learner has them, or will.
  void give_up_silent(Turn& turn) {
    for (auto& [number, batch] : batches_) {
      if (batch.verifier == turn.self() || batch.given_up) continue;
      batch.given_up = turn.now() >= batch.heard + patience_;
      if (batch.given_up) check_here(batch.clusters, turn.self());
    }
    for (const Rank verifier : given_up()) {
      const auto it = queues_.find(verifier);
      if (it == queues_.end()) continue;
      const std::vector<std::uint64_t> waiting(it->second.begin(), it->second.end());
      queues_.erase(it);
      check_here(waiting, turn.self());
    }
  }

  void set_timer(Turn& turn) const {
    std::optional<Time> next;
    for (const auto& [number, batch] : batches_)
      if (batch.verifier != turn.self() && !batch.given_up)
        next = std::min(next.value_or(batch.heard + patience_), batch.heard + patience_);
    if (next) turn.set_timer(node_, kTimer, *next);
  }

  void check_here(std::span<const std::uint64_t> clusters, Rank self) {
    if (clusters.empty()) return;
    auto& own = queues_[self];
    own.insert(own.end(), clusters.begin(), clusters.end());
  }

  void send(Rank verifier, std::deque<std::uint64_t>& queue, const Index& index, Turn& turn) {
    // The epoch makes sure that a returned node gets no verdicts on its earlier batches.
    Check check;
    check.batch = turn.view().epoch << 32 | next_++;
    check.length = std::uint32_t(index.representative(queue.front()).values.size());
    check.stride = std::max<std::uint32_t>(check.length * sizeof(float), 1);
    if (verifier != turn.self()) check.stride = std::max(check.stride, object_bytes_);
    const std::size_t most =
        std::max<std::size_t>(std::min<std::size_t>(batch_, kMostBody / check.stride), 1);
    Batch batch{verifier, {}, turn.now()};
    Buffer body;
    while (!queue.empty() && batch.clusters.size() < most) {
      const Item& item = index.representative(queue.front());
      LH_CHECK(item.values.size() == check.length);  // all from one source
      check.items.push_back({queue.front(), item.seq, item.at.count()});
      batch.clusters.push_back(queue.front());
      queue.pop_front();
      const std::size_t at = body.size();
      body.resize(at + check.stride);
      if (check.length > 0)
        std::memcpy(body.data() + at, item.values.data(), check.length * sizeof(float));
    }
    batches_.emplace(check.batch, std::move(batch));
    turn.send(verifier, check, Payload(share(std::move(body))), kObjects);
  }

  std::size_t in_flight(Rank verifier) const {
    return std::size_t(std::ranges::count_if(
        batches_, [&](const auto& entry) { return entry.second.verifier == verifier; }));
  }

  const Machine& node_;
  std::uint32_t batch_, object_bytes_;
  Time patience_;
  std::map<Rank, std::deque<std::uint64_t>> queues_;  // by verifier
  std::map<std::uint64_t, Batch> batches_;            // by number
  std::set<std::uint64_t> pending_;                   // in queues_ or batches_
  std::uint32_t next_ = 0;
};

// Verifier runs the accurate model on batches of representatives from sites, its own included, one
// batch at a time in order of arrival. A site receives the verdicts, and notices while they take
// long. The queue is bounded by the batches that sites may have in flight.
class Verifier {
 public:
  static constexpr TimerId kTimer{6};  // a timer of the node, which then calls advance()
  // `node`: the machine that owns this part. `length`: values of an object, 0: any. `patience`:
  // that of the sites.
  Verifier(const Machine& node, std::uint32_t version, std::uint32_t length, Time patience)
      : node_(node), version_(version), length_(length), still_after_(still_after(patience)) {}

  // Returns an Error if objects do not fit or have no number, or if the site has too many batches.
  Status take(Rank from, const Check& check, const Payload& body, Time now) {
    if (check.items.empty() || check.length * sizeof(float) > check.stride || body.is_phantom() ||
        body.size() != check.items.size() * std::size_t(check.stride))
      return malformed("a check whose objects do not fit its size");
    if (length_ > 0 && check.length != length_)
      return malformed("a check of objects of " + std::to_string(check.length) +
                       " values, not of " + std::to_string(length_));
    const auto queued =
        std::ranges::count_if(queue_, [&](const Batch& batch) { return batch.from == from; });
    if (std::size_t(queued) >= Checks::kInFlight) return malformed("a check beyond those allowed");
    Batch batch{from, check.batch, {}, now};
    for (std::size_t i = 0; i < check.items.size(); ++i) {
      const CheckItem& checked = check.items[i];
      if (checked.seq == 0) return malformed("a check of an object without a number");
      Item item{from, checked.seq, Time{checked.at_ns}, std::vector<float>(check.length)};
      if (check.length > 0)
        std::memcpy(item.values.data(), body.view().data() + i * check.stride,
                    check.length * sizeof(float));
      batch.items.push_back(std::move(item));
    }
    queue_.push_back(std::move(batch));
    return Ok{};
  }

  // Notifies other sites that their batches wait or run.
  void advance(Turn& turn) {
    std::optional<Time> next;
    for (Batch& batch : queue_) {
      if (batch.from == turn.self() || !turn.view().has(batch.from)) continue;
      if (turn.now() >= batch.told + still_after_) {
        batch.told = turn.now();
        turn.send(batch.from, StillChecking{batch.number}, {}, kAnswer);
      }
      next = std::min(next.value_or(batch.told + still_after_), batch.told + still_after_);
    }
    if (next) turn.set_timer(node_, kTimer, *next);
  }

  bool has_work() const { return !queue_.empty(); }
  // Returns the items of the oldest batch, for Infer. The batch stays until verdicts().
  std::vector<Item> items() const { return queue_.front().items; }
  void verdicts(std::span<const float> classes, Turn& turn) {
    const Batch batch = std::move(queue_.front());
    queue_.pop_front();
    LH_CHECK(classes.size() == batch.items.size());
    Verdict verdict{batch.number, version_, {}};
    for (const float cls : classes) verdict.classes.push_back(std::uint32_t(cls));
    if (turn.view().has(batch.from)) turn.send(batch.from, verdict, {}, kAnswer);
  }

  // Drops the batches of lost sites, except the first, which may be running.
  void on_view(Turn& turn) {
    if (queue_.empty()) return;
    queue_.erase(std::remove_if(queue_.begin() + 1, queue_.end(),
                                [&](const Batch& batch) { return !turn.view().has(batch.from); }),
                 queue_.end());
  }

  void state(Archive& ar) { ar(queue_); }

 private:
  struct Batch {
    Rank from = 0;
    std::uint64_t number = 0;
    std::vector<Item> items;
    Time told{0};  // last notice to the site about this batch
    void state(auto& ar) { ar(from, number, items, told); }
  };
  const Machine& node_;
  std::uint32_t version_, length_;
  Time still_after_;
  std::deque<Batch> queue_;
};

}  // namespace longhaul::focus
