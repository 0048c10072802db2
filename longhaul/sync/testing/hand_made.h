#pragma once
// The parts of a synchronous strategy as tests need them: an overlay whose outcomes come when the
// test says so, a node with a strategy over it, and a strategy that brings its parameters and keeps
// the means.
#include <map>

#include <gtest/gtest.h>

#include "longhaul/base/testing/archived.h"
#include "longhaul/outer/optimisers.h"
#include "longhaul/sync/synchronous.h"
#include "longhaul/sync/testing/one_node.h"

namespace longhaul::sync::testing {

using Floats = std::vector<float>;

// Gives each outcome once, as overlays do.
class HandMadeOverlay final : public Overlay {
 public:
  struct Begun {
    Floats values;
    std::uint64_t length;
    double weight;
    bool contributes, exact;
    std::optional<double> loss;
  };
  Status begin(const VectorId& key, const std::vector<Rank>&, const Contribution& c,
               Turn&) override {
    const Begun one{
        {c.values.begin(), c.values.end()}, c.length, c.weight, c.contributes, c.exact, c.loss};
    EXPECT_TRUE(begun.emplace(key, one).second);
    return Ok{};
  }
  std::optional<Outcome> poll(const VectorId& key) override {
    const auto found = outcomes.find(key);
    if (found == outcomes.end()) return std::nullopt;
    Outcome outcome = std::move(found->second);
    outcomes.erase(found);
    return outcome;
  }
  void close(std::uint32_t, Turn&) override {}
  std::optional<Round> next_round(std::uint32_t, std::uint32_t range) const override {
    return next[range];
  }
  std::string waiting_for() const override { return "the test"; }

  std::map<VectorId, Begun> begun;
  std::map<VectorId, Outcome> outcomes;
  mutable std::map<std::uint32_t, std::optional<Round>> next;  // for nodes that come back
};

// Of a strategy by its name.
std::function<std::unique_ptr<Strategy>(SyncParts, const Place&)> maker(
    std::string_view name, std::vector<Setting> settings);

// A node whose strategy, made by `make`, works over a HandMadeOverlay.
struct HandMadeNode : OneNode {
  using Make = std::function<std::unique_ptr<Strategy>(SyncParts, const Place&)>;
  HandMadeNode(std::uint64_t size, Quadratic::Config like, Members members, Rank self,
               StopConfig stop_config, Make maker)
      : OneNode(size, like, std::move(members)), stop(stop_config), make(std::move(maker)) {
    place.self = self;
    build();
  }
  // A new strategy, over the same overlay.
  void build() {
    auto made = std::make_unique<HandMadeOverlay>();
    if (overlay) {
      std::swap(made->begun, overlay->begun);
      std::swap(made->outcomes, overlay->outcomes);
      std::swap(made->next, overlay->next);
    }
    overlay = made.get();
    strategy =
        make({std::move(made), std::make_unique<outer::None>(outer::NoneConfig{}), stop}, place);
  }
  void save_and_load() {
    const Buffer bytes = longhaul::testing::saved(*strategy);
    build();
    EXPECT_TRUE(longhaul::testing::load(*strategy, bytes));
  }
  void start() {
    strategy->feed_all([](Machine& m, Turn& t) { m.on_start(t); }, turn);
  }
  void progress() { strategy->on_progress(turn); }
  void see(View next) {
    const View before = std::exchange(view, std::move(next));
    strategy->feed_all([&](Machine& m, Turn& t) { m.on_view(before, t); }, turn);
  }
  void score(Round round, Evaluation evaluation = {}) {
    strategy->feed_all([&](Machine& m, Turn& t) { m.on_scored(round, evaluation, t); }, turn);
  }
  bool hear(Rank from, const Message& message) {
    return bool(strategy->feed_message(from, message, message.machine, turn));
  }
  std::vector<std::pair<Round, double>> recorded(std::string_view name) const {
    std::vector<std::pair<Round, double>> figures;
    for (const Record& record : done<Record>())
      if (record.name == name) figures.emplace_back(record.round, record.value);
    return figures;
  }
  double sum_of(std::string_view name) const {
    double sum = 0;
    for (const auto& [round, value] : recorded(name)) sum += value;
    return sum;
  }

  const StopConfig stop;
  const Make make;
  HandMadeOverlay* overlay = nullptr;
  std::unique_ptr<Strategy> strategy;
};

// Brings its parameters, and keeps the means that it is given.
class Probe final : public Synchronous {
 public:
  Probe(SyncParts parts, bool stands_by)
      : Synchronous({.name = "probe", .summary = {}}, std::move(parts)), stands_by_(stands_by) {}
  static HandMadeNode::Make maker(bool stands_by = false) {
    return [stands_by](SyncParts parts, const Place&) {
      return std::make_unique<Probe>(std::move(parts), stands_by);
    };
  }
  void begin_run(Turn&) override { ++runs; }
  void begin_round(Turn& turn) override {
    ++rounds;
    if (stands_by_) stand_by(turn);
  }
  void on_computed(const Computed& computed, Turn& turn) override {
    const auto length = turn.place().phantom ? 0 : turn.place().layout->parameters().length;
    contribute(turn.params().first(length), 2, computed, turn);
  }
  void use_mean(std::span<float> mean, Turn& turn) override {
    means.emplace_back(mean.begin(), mean.end());
    seen.emplace_back(turn.params().begin(), turn.params().end());
    end_round(turn);
  }

  using Synchronous::outer;

  int runs = 0, rounds = 0;
  std::vector<Floats> means, seen;

 private:
  const bool stands_by_;
};

}  // namespace longhaul::sync::testing
