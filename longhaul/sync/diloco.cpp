// DiLoCo: few synchronisations of long local runs, with an optimiser inside that keeps its state
// and Nesterov momentum outside.
//   Douillard et al., "DiLoCo: distributed low-communication training of language models", 2023,
//   algorithm 1; Jaghouar et al., "OpenDiLoCo", 2024 (the presets).
#include "longhaul/sync/entry.h"
#include "longhaul/sync/local_update.h"
#include "longhaul/sync/synchronous.h"

namespace longhaul::sync {
namespace {

class DiLoCo : public Synchronous {
 public:
  // Presets: the inner and outer optimiser of the paper. A node that returns begins with a fresh
  // inner optimiser; the model and the outer optimiser are handed over.
  static SyncEntry entry() {
    using namespace std::string_literals;
    return strategy_entry<DiLoCo>(
        {.name = "diloco",
         .summary = "average the updates of many local steps, Nesterov momentum outside",
         .traits = {.takes_gaps = true,
                    .when_lost = "continues without it; ends the run below min_sites",
                    .lets_return = true},
         .presets = {{"outer", "kind", {"nesterov"s}},
                     {"outer", "rate", {0.7}},
                     {"outer", "momentum", {0.9}},
                     {"optimizer", "kind", {"adamw"s}},
                     {"optimizer", "rate", {4e-4}},
                     {"optimizer", "weight_decay", {0.1}},
                     {"optimizer", "beta1", {0.9}},
                     {"optimizer", "beta2", {0.95}}},
         .costs = {{.rounds = "every H steps (500)",
                    .sent = "an exchange of S",
                    .waits_for = "all, every H steps",
                    .staleness = "0",
                    .memory = "anchor: S (and the outer's)"}}});
  }

  struct Config {
    std::uint32_t steps = 500;
    std::uint32_t min_sites = 1;

    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(steps, "local steps in a round (H)", .min = 1);
      visit_min_sites(visit, self.min_sites);
    }
  };

  DiLoCo(const Config& config, SyncParts parts) : DiLoCo(entry(), config, std::move(parts)) {}

 protected:
  // For a strategy with the same rounds.
  DiLoCo(const SyncEntry& entry, const Config& config, SyncParts parts)
      : Synchronous(entry, std::move(parts), config.min_sites), config_(config) {}

 private:
  void begin_run(Turn& turn) override { local_.anchor(turn); }

  // x_k: H steps of the inner optimiser from X.
  void begin_round(Turn& turn) override { turn.compute(LocalStep{}, config_.steps); }

  // ubar <- mean(x_k - X)
  void on_computed(const Computed& computed, Turn& turn) override {
    contribute(local_.update(turn), 1, computed, turn);
  }

  // X <- X + outer(ubar); x_k <- X
  void use_mean(std::span<float> ubar, Turn& turn) override {
    local_.apply(ubar, outer(), turn);
    end_round(turn);
  }

  bool fits(std::size_t parameters) const override {
    return Synchronous::fits(parameters) && local_.fits(parameters);
  }

  void state(Archive& ar) override {
    Synchronous::state(ar);
    ar(local_);
  }

  const Config config_;
  LocalUpdate local_;
};

// SparseLoCo: DiLoCo's rounds with a sparse exchange in two bits, and a decaying error feedback in
// place of the outer momentum.
//   "Communication efficient LLM pre-training with SparseLoCo", arXiv 2508.15706.
// The algorithm is DiLoCo's with outer rate 1 and no momentum. The difference is the codec that it
// presets (codec/q_top_k.cpp), with error_feedback and feedback_decay.
class SparseLoCo final : public DiLoCo {
 public:
  // Presets: those of the authors' code (tplr-ai/templar), whose outer optimiser is SGD with
  // rate 1.
  static SyncEntry entry() {
    using namespace std::string_literals;
    return strategy_entry<SparseLoCo>(
        {.name = "sparse_loco",
         .summary = "DiLoCo's rounds with a sparse exchange in two bits and error feedback",
         .traits = {.takes_outer = false,
                    .when_lost =
                        "continues without it and its residual; ends the run below min_sites",
                    .lets_return = true},
         .presets = {{"codec", "kind", {"q_top_k"s}},
                     {"codec", "ratio", {1.0 / 64}},
                     {"codec", "chunk", {std::int64_t{4096}}},
                     {"codec", "mean_of_senders", {true}},
                     {"codec", "error_feedback", {true}},
                     {"codec", "feedback_decay", {0.95}},
                     {"optimizer", "kind", {"adamw"s}},
                     {"optimizer", "rate", {1.3e-4}},
                     {"optimizer", "weight_decay", {0.1}},
                     {"optimizer", "beta1", {0.9}},
                     {"optimizer", "beta2", {0.95}}},
         .costs = {{.rounds = "every H steps (30)",
                    .sent = "an exchange, of 0.0055 S up",
                    .waits_for = "all, every H steps",
                    .staleness = "0",
                    .memory = "anchor: S, residual: S"}}});
  }

  struct Config : DiLoCo::Config {
    Config() : DiLoCo::Config{.steps = 30} {}
  };

  SparseLoCo(const Config& config, SyncParts parts) : DiLoCo(entry(), config, std::move(parts)) {}
};

}  // namespace

SyncEntry diloco_entry() { return DiLoCo::entry(); }
SyncEntry sparse_loco_entry() { return SparseLoCo::entry(); }

}  // namespace longhaul::sync
