// Streaming DiLoCo: each round synchronises one part of the model, while the sites continue to
// compute.
//   Douillard et al., "Streaming DiLoCo with overlapping communication: towards a distributed free
//   lunch", arXiv 2501.18512; write_back = "delta" is not from the paper.
//
// In round r, with f the fragment of the round and H = steps x fragments:
//   after `steps` steps since the last round's:  y <- x_f;  ubar <- agreed mean of y - X_f
//   `delay` steps later:  X_f <- X_f + outer_f(ubar);  x_f takes in X_f    (shadow/write_back.h)
// A site waits only if the mean has not arrived by then. Rounds, and the run, end with X.
#include <algorithm>

#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"
#include "longhaul/sync/shadow/write_back.h"
#include "longhaul/sync/synchronous.h"

namespace longhaul::sync {
namespace {

class StreamingDiLoCo final : public Synchronous {
 public:
  // Presets of DiLoCo, with the outer rate of the publication. A returned node receives the model
  // and the outer optimisers, and begins with a fresh inner optimiser.
  static SyncEntry entry() {
    using namespace std::string_literals;
    return strategy_entry<StreamingDiLoCo>(
        {.name = "streaming_diloco",
         .summary = "DiLoCo of one part of the model after the other, while the sites compute on",
         .traits = {.takes_gaps = true,
                    .when_lost = "goes on without it; ends the run below min_sites",
                    .lets_return = true},
         .presets = {{"outer", "kind", {"nesterov"s}},
                     {"outer", "rate", {0.4}},
                     {"outer", "momentum", {0.9}},
                     {"optimizer", "kind", {"adamw"s}},
                     {"optimizer", "rate", {4e-4}},
                     {"optimizer", "weight_decay", {0.1}},
                     {"optimizer", "beta1", {0.9}},
                     {"optimizer", "beta2", {0.95}}},
         .small = {{"fragments", {std::int64_t{2}}}},
         .costs = {{.rounds = "every H/F steps (25)",
                    .sent = "an exchange of S/F (4)",
                    .waits_for = "all, if they are `delay` steps late",
                    .staleness = "`delay` steps (1)",
                    .memory = "anchor: S, y: S/F (and the outer's)"}}});
  }

  struct Config {
    std::uint32_t steps = 25;
    std::uint32_t fragments = 4;
    std::uint32_t delay = 1;
    std::string write_back = "delta";
    double alpha = 1;
    std::uint32_t min_sites = 1;

    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(steps, "local steps in a round, which synchronises one fragment (H / F)",
                   .min = 1);
      LONGHAUL_KEY(fragments, "equal parts of the model, one a round in turn (F)", .min = 1,
                   .max = 32);
      LONGHAUL_KEY(delay, "local steps that a site takes while its fragment is averaged (tau)");
      LONGHAUL_KEY(write_back,
                   "delta: what was learned meanwhile stays whole; interpolate: a share alpha of "
                   "it is lost, as published",
                   .choices = {"delta", "interpolate"});
      LONGHAUL_KEY(alpha,
                   "how far a fragment goes to the common one; 1: all the way (1 - alpha of the "
                   "publication, which has 0.5)",
                   .min = 0, .max = 1, .positive = true);
      visit_min_sites(visit, self.min_sites);
    }
  };

  StreamingDiLoCo(const Config& config, SyncParts parts)
      : Synchronous(entry(), std::move(parts), config.min_sites),
        config_(config),
        rule_(config.write_back == "delta" ? shadow::WriteBack::delta
                                           : shadow::WriteBack::interpolate) {
    for (std::uint32_t f = 0; f < config.fragments; ++f) outers_.push_back(make_outer());
  }

  static Status check(const Config& config, const Place&) {
    if (config.delay > config.steps)
      return invalid("[sync] delay = " + std::to_string(config.delay) +
                     ": expected steps = " + std::to_string(config.steps) +
                     " at most, as one fragment is under way at a time: lower it, or raise steps");
    return Ok{};
  }

  void on_computed(const Computed& computed, Turn& turn) override {
    computing_ = false;
    since_ += computed.steps;
    pending_.add(computed);
    try_contribute(turn);
  }

  void state(Archive& ar) override {
    Synchronous::state(ar);
    ar.expect("X with buffers");
    for (const auto& outer : outers_) outer->state(ar);
    ar(anchor_, y_, pending_, since_, in_flight_, computing_, closing_, blocked_);
  }

  std::string waiting_for() const override { return computing_ ? "" : Synchronous::waiting_for(); }

 private:
  void begin_run(Turn& turn) override {
    const std::uint64_t length = turn.place().layout->parameters().length;
    if (length < config_.fragments) {
      closing_ = true;
      return turn.fail(invalid("[sync] fragments = " + std::to_string(config_.fragments) +
                               ", but the model has " + std::to_string(length) +
                               " parameters: lower it"));
    }
    assign(anchor_, turn.params());
  }

  void begin_round(Turn& turn) override { try_contribute(turn); }
  std::span<float> model(Turn&) override { return anchor_; }
  bool takes_mean(Turn&) const override { return !computing_ && since_ >= config_.delay; }
  // X_f <- X_f + outer_f(ubar); x_f takes in X_f
  void use_mean(std::span<float> ubar, Turn& turn) override {
    if (!turn.place().phantom) {
      outers_[round() % config_.fragments]->apply(ubar);
      const auto x = parameters(turn);
      const Range f = fragment(x.size());
      const auto anchor = std::span(anchor_).subspan(f.offset, f.length);
      if (is_catching_up()) assign(y_, x.subspan(f.offset, f.length));
      for (std::size_t i = 0; i < ubar.size(); ++i) anchor[i] += ubar[i];
      shadow::write_back(x.subspan(f.offset, f.length), anchor, y_, config_.alpha, rule_);
      std::copy(anchor_.begin() + std::ptrdiff_t(x.size()), anchor_.end(), buffers(turn).begin());
    }
    end_with_model(turn);
  }

  // Called when all contributors are lost: X and x stay unchanged.
  void use_nothing(Turn& turn) override { end_with_model(turn); }

  // Ends the run with X, without the steps since.
  bool close(Turn& turn) override {
    closing_ = true;
    if (computing_) {
      turn.stop_computing();
      return false;
    }
    std::ranges::copy(anchor_, turn.params().begin());
    return true;
  }

  // Takes the steps up to the next boundary, that of the current mean or of the next contribution.
  void on_idle(Turn& turn) override {
    if (computing_ || closing_) return;
    const std::uint32_t until = in_flight_ ? config_.delay : config_.steps;
    if (since_ >= until) {
      if (!blocked_) blocked_ = turn.now();
      return;
    }
    computing_ = true;
    turn.compute(LocalStep{}, until - since_);
  }

  // Counts only the time without a step to take as waiting.
  void waited(Wait what, Time, Turn& turn) override {
    const Time took = blocked_ ? turn.now() - *blocked_ : Time{0};
    blocked_.reset();
    Synchronous::waited(what, took, turn);
  }

  // Called with the senior worker's state. Resets the sender's own part of it. The other workers
  // have taken `delay` steps of the round that begins.
  void on_returned(Turn& turn) override {
    y_ = {};
    pending_ = {};
    since_ = config_.delay;
    in_flight_ = computing_ = closing_ = false;
    blocked_.reset();
    const auto model = turn.params();  // X, which the sender's anchor_ should be as well
    anchor_.assign(model.begin(), model.end());
  }

  bool fits(std::size_t parameters) const override {
    if (anchor_.size() < parameters) return false;
    for (std::uint64_t f = 0; f < outers_.size(); ++f) {
      const std::uint64_t begin = parameters * f / outers_.size();
      if (!outers_[f]->fits(parameters * (f + 1) / outers_.size() - begin)) return false;
    }
    return true;
  }

  std::uint32_t fragments() const override { return config_.fragments; }
  std::size_t exchanged(const Turn& turn) const override {
    return fragment(turn.place().layout->parameters().length).length;
  }

  // Returns the fragment of this round, out of a number of parameters.
  Range fragment(std::uint64_t parameters) const {
    const std::uint64_t f = round() % config_.fragments;
    const std::uint64_t begin = parameters * f / config_.fragments;
    return {begin, parameters * (f + 1) / config_.fragments - begin};
  }

  // y <- x_f; contributes y - X_f
  void try_contribute(Turn& turn) {
    if (!working() || computing_ || in_flight_ || since_ < config_.steps) return;
    const auto x = parameters(turn);
    const Range f = fragment(x.size());
    assign(y_, x.subspan(f.offset, f.length));
    const std::vector<float> u = difference_of(y_, std::span(anchor_).subspan(f.offset, f.length));
    const Computed computed = std::exchange(pending_, {});
    since_ = 0;
    in_flight_ = true;
    contribute(u, 1, computed, turn);
  }

  void end_with_model(Turn& turn) {
    y_ = {};
    in_flight_ = false;
    end_round(turn);
  }

  const Config config_;
  const shadow::WriteBack rule_;
  std::vector<std::unique_ptr<Transform>> outers_;  // one per fragment
  std::vector<float> anchor_;                       // X, parameters and buffers
  std::vector<float> y_;                            // x_f as contributed, until the mean is used
  Computed pending_;                                // steps since the last contribution
  std::uint32_t since_ = 0;                         // number of steps since the last contribution
  bool in_flight_ = false, computing_ = false, closing_ = false;
  std::optional<Time> blocked_;  // start of the time without a step to take
};

}  // namespace

SyncEntry streaming_diloco_entry() { return StreamingDiLoCo::entry(); }

}  // namespace longhaul::sync
