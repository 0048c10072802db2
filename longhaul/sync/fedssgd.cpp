#include "longhaul/sync/fedssgd.h"

#include <algorithm>
#include <cmath>

#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"

namespace longhaul::sync {
namespace {

// n_k; 1 of a learner that does not tell.
double samples_of_site(const Computed& computed) {
  return double(std::max<std::uint64_t>(computed.shard_size, 1));
}

bool is_by_step(const Settings& settings) {
  return settings.text("reading").value_or(FedSsgdConfig{}.reading) == "step";
}

}  // namespace

SyncEntry FedSsgd::entry() {
  return strategy_entry<FedSsgd>(
      {.name = "fedssgd",
       .summary = "sites count by their samples: every step, or after the time of the slowest's",
       // What each has done in a time depends on times.
       .traits = {.bits = Bits::schedule,
                  .takes_gaps = true,
                  .when_lost = "goes on without it, weights renormalised",
                  .lets_return = true},
       .costs = {{.variant = "by step",
                  .settings = {{"reading", {std::string("step")}}},
                  .rounds = "every step",
                  .sent = "an exchange of S",
                  .waits_for = "all, every step",
                  .staleness = "0",
                  .memory = "none"},
                 {.variant = "by time",
                  .settings = {{"reading", {std::string("semi")}}},
                  .rounds = "when the slowest has H steps (10)",
                  .sent = "an exchange of S",
                  .waits_for = "all",
                  .staleness = "0",
                  .memory = "anchor: S"}},
       .adapt =
           [](const Settings& settings, SyncTraits& traits) {
             if (is_by_step(settings)) traits.bits = Bits::rank;
           }},
      [](const Settings& settings, SyncParts parts, const Place& place) {
        const auto make =
            is_by_step(settings) ? make_strategy<FedSsgdByStep> : make_strategy<FedSsgdByTime>;
        return make(settings, std::move(parts), place);
      });
}

double FedSsgdByStep::weight(const Computed& computed) const { return samples_of_site(computed); }

Status FedSsgdByTime::check(const Config& config, const Place&) {
  if (config.steps <= config.max_steps) return Ok{};
  return invalid("[sync] steps = " + std::to_string(config.steps) + " is more than max_steps = " +
                 std::to_string(config.max_steps) + ": raise max_steps");
}

void FedSsgdByTime::begin_run(Turn& turn) { local_.anchor(turn); }

// As many steps as end within Delta, one at least; a step that is measured a little long counts.
void FedSsgdByTime::begin_round(Turn& turn) {
  constexpr double kSlack = 1e-3;
  double steps = config_.steps;
  if (delta_s_ > 0 && step_s_ > 0) steps = std::floor(delta_s_ / step_s_ * (1 + kSlack));
  turn.compute(LocalStep{}, std::uint32_t(std::clamp(steps, 1.0, double(config_.max_steps))));
}

void FedSsgdByTime::on_computed(const Computed& computed, Turn& turn) {
  step_s_ = seconds(computed.elapsed) / computed.steps;
  turn.record("steps", round(), computed.steps);
  const std::vector<float> update = local_.update(turn);
  LocalResult mine{.values = update,
                   .buffers = buffers(turn),
                   .weight = samples_of_site(computed),
                   .loss = computed.loss,
                   .samples = computed.samples,
                   .scalars = std::vector<float>(scalars())};
  mine.scalars[turn.self()] = float(step_s_);
  mine.scalars[ranks_ + turn.self()] = 1;
  contribute(mine, turn);
}

void FedSsgdByTime::use_mean(std::span<float> mean, Turn& turn) {
  if (!turn.place().phantom) delta_s_ = config_.steps * slowest();
  local_.apply(mean, outer(), turn);
  end_round(turn);
}

double FedSsgdByTime::slowest() const {
  const auto all = mean_scalars();
  double most = 0;
  for (std::size_t j = 0; j < ranks_; ++j)
    if (all[ranks_ + j] > 0) most = std::max(most, double(all[j]) / double(all[ranks_ + j]));
  return most;
}

void FedSsgdByTime::state(Archive& ar) {
  Synchronous::state(ar);
  ar(local_, step_s_, delta_s_);
}

}  // namespace longhaul::sync
