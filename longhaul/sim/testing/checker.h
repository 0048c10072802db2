#pragma once
// Watchers that check invariants of a run, and one that hashes its trace.
#include <deque>
#include <map>
#include <set>

#include <xxhash.h>

#include "longhaul/sim/world.h"

namespace longhaul::sim {

inline std::uint64_t fingerprint(const Message& m) {
  const std::uint64_t parts[] = {m.machine.bits(), m.kind, m.epoch, m.head.size(), m.body.size()};
  std::uint64_t hash = XXH64(parts, sizeof parts, 0);
  if (!m.head.is_phantom()) hash = XXH64(m.head.view().data(), m.head.size(), hash);
  if (!m.body.is_phantom()) hash = XXH64(m.body.view().data(), m.body.size(), hash);
  return hash;
}

// XXH64 over every action and delivery in order, with time, nodes and bytes: equal runs have equal
// hashes.
class TraceHash final : public Watcher {
 public:
  std::uint64_t value() const { return hash_; }
  void acted(Time now, Rank rank, const Action& action) override {
    mix(now.count(), rank, std::uint64_t(action.index()));
    if (const auto* send = std::get_if<Send>(&action)) {
      mix(send->to, send->service.service_class(), fingerprint(send->message));
    } else if (const auto* timer = std::get_if<SetTimer>(&action)) {
      mix(timer->machine.bits(), timer->id, timer->at.count());
    } else if (const auto* cancelled = std::get_if<CancelTimer>(&action)) {
      mix(cancelled->machine.bits(), cancelled->id);
    } else if (const auto* step = std::get_if<ComputeStep>(&action)) {
      mix(std::uint64_t(step->work.index()));
    } else if (const auto* report = std::get_if<Report>(&action)) {
      mix(report->round);
      if (report->model) mix_bytes(report->model->data(), report->model->size() * sizeof(float));
    } else if (const auto* record = std::get_if<Record>(&action)) {
      mix_bytes(record->name.data(), record->name.size());
      mix(record->round, record->value);
    } else if (const auto* fail = std::get_if<Fail>(&action)) {
      mix_bytes(fail->error.what.data(), fail->error.what.size());
    }
  }
  void delivering(Time now, const Packet& packet) override {
    mix(now.count(), packet.from, packet.to, packet.bytes, packet.service.service_class(),
        fingerprint(packet.message));
  }
  void crashed(Time now, Rank rank) override { mix(now.count(), rank); }
  void state(Archive& ar) override { ar(hash_); }

 private:
  template <class... T>
  void mix(const T&... values) {
    (mix_bytes(&values, sizeof values), ...);
  }
  void mix_bytes(const void* data, std::size_t size) { hash_ = XXH64(data, size, hash_); }
  std::uint64_t hash_ = 0;
};

// Checks that reliable messages arrive once and in order per (from, to, class), that nothing is
// delivered to a crashed node, and that nothing is delivered that was not sent.
class OrderChecker final : public Watcher {
 public:
  void acted(Time, Rank from, const Action& action) override {
    const auto* send = std::get_if<Send>(&action);
    if (!send || send->service.delivery != Service::Delivery::reliable) return;
    sent_[{from, send->to, send->service.service_class()}].push_back(fingerprint(send->message));
  }
  void delivering(Time, const Packet& packet) override {
    const auto between =
        "from rank " + std::to_string(packet.from) + " to rank " + std::to_string(packet.to);
    if (dead_.contains(packet.to)) error_ = malformed("a message " + between + ", which is dead");
    if (packet.service.delivery != Service::Delivery::reliable) return;
    auto& line = sent_[{packet.from, packet.to, packet.service.service_class()}];
    if (line.empty() || line.front() != fingerprint(packet.message)) {
      error_ = malformed("a message " + between + " out of order");
    } else {
      line.pop_front();
    }
  }
  void crashed(Time, Rank rank) override { dead_.insert(rank); }
  void restarted(Time, Rank rank) override {
    dead_.erase(rank);
    std::erase_if(sent_, [&](const auto& line) {
      return std::get<0>(line.first) == rank || std::get<1>(line.first) == rank;
    });
  }
  Status after(const World&, Rank) override {
    if (error_) return *error_;
    return Ok{};
  }
  void state(Archive& ar) override { ar(sent_, dead_); }

 private:
  using Line = std::tuple<Rank, Rank, unsigned>;  // from, to, class
  std::map<Line, std::deque<std::uint64_t>> sent_;
  std::set<Rank> dead_;
  std::optional<Error> error_;
};

// Checks that all nodes that reach an epoch see the same members, and that epochs ascend at each.
class EpochChecker final : public Watcher {
 public:
  void restarted(Time, Rank rank) override { last_.erase(rank); }
  Status after(const World& world, Rank rank) override {
    const View& view = world.node(rank).view();
    const auto [last, first_time] = last_.try_emplace(rank, view.epoch);
    if (!first_time && last->second == view.epoch) return Ok{};
    if (view.epoch < last->second)
      return malformed("rank " + std::to_string(rank) + " went back to epoch " +
                       std::to_string(view.epoch));
    last->second = view.epoch;
    const auto [list, is_new] = lists_.try_emplace(view.epoch, view.live);
    if (list->second != view.live)
      return malformed("rank " + std::to_string(rank) + " sees other members in epoch " +
                       std::to_string(view.epoch) + " than those before it");
    return Ok{};
  }
  void state(Archive& ar) override { ar(lists_, last_); }

 private:
  std::map<Epoch, std::vector<Rank>> lists_;
  std::map<Rank, Epoch> last_;
};

}  // namespace longhaul::sim
