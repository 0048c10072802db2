#pragma once
// The parts of a synchronous strategy as tests need them: an overlay whose outcomes come when the
// test says so, and a strategy that brings its parameters and keeps what it is told.
#include <map>

#include <gtest/gtest.h>

#include "longhaul/sync/synchronous.h"

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

// Brings its parameters, and keeps what it is told.
class Probe final : public Synchronous {
 public:
  Probe(SyncParts parts, bool stands_by)
      : Synchronous({.name = "probe", .summary = {}}, std::move(parts)), stands_by_(stands_by) {}
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
