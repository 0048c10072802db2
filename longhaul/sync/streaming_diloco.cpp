#include "longhaul/sync/streaming_diloco.h"

#include <algorithm>

#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"

namespace longhaul::sync {

// Presets: DiLoCo's, with the outer rate of the publication. A node that returns begins with a
// fresh inner optimiser; the model and the outer optimisers are handed over.
SyncEntry StreamingDiLoCo::entry() {
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

Status StreamingDiLoCo::check(const Config& config, const Place& place) {
  if (config.delay > config.steps)
    return invalid("[sync] delay = " + std::to_string(config.delay) +
                   ": expected steps = " + std::to_string(config.steps) +
                   " at most, as one fragment is under way at a time: lower it, or raise steps");
  return check_min_sites(config.min_sites, place);
}

StreamingDiLoCo::StreamingDiLoCo(const Config& config, SyncParts parts)
    : Synchronous(entry(), std::move(parts), config.min_sites),
      config_(config),
      rule_(config.write_back == "delta" ? shadow::WriteBack::delta
                                         : shadow::WriteBack::interpolate) {
  for (std::uint32_t f = 0; f < config.fragments; ++f) outers_.push_back(make_outer());
}

Range StreamingDiLoCo::fragment(std::uint64_t parameters) const {
  const std::uint64_t f = round() % config_.fragments;
  const std::uint64_t begin = parameters * f / config_.fragments;
  return {begin, parameters * (f + 1) / config_.fragments - begin};
}

std::size_t StreamingDiLoCo::exchanged(const Turn& turn) const {
  return fragment(turn.place().layout->parameters().length).length;
}

void StreamingDiLoCo::begin_run(Turn& turn) {
  const std::uint64_t length = turn.place().layout->parameters().length;
  if (length < config_.fragments) {
    closing_ = true;
    return turn.fail(invalid("[sync] fragments = " + std::to_string(config_.fragments) +
                             ", but the model has " + std::to_string(length) +
                             " parameters: lower it"));
  }
  const auto x = turn.params();
  anchor_.assign(x.begin(), x.end());
}

// Steps up to the next boundary: of the mean that is under way, or of the next contribution.
void StreamingDiLoCo::on_idle(Turn& turn) {
  if (computing_ || closing_) return;
  const std::uint32_t until = in_flight_ ? config_.delay : config_.steps;
  if (since_ >= until) {
    if (!blocked_) blocked_ = turn.now();
    return;
  }
  computing_ = true;
  turn.compute(LocalStep{}, until - since_);
}

void StreamingDiLoCo::on_computed(const Computed& computed, Turn& turn) {
  computing_ = false;
  since_ += computed.steps;
  pending_.add(computed);
  try_contribute(turn);
}

// y <- x_f; y - X_f goes to the mean
void StreamingDiLoCo::try_contribute(Turn& turn) {
  if (!working() || computing_ || in_flight_ || since_ < config_.steps) return;
  const auto x = parameters(turn);
  const Range f = fragment(x.size());
  const auto x_f = x.subspan(f.offset, f.length);
  y_.assign(x_f.begin(), x_f.end());
  std::vector<float> u = y_;
  for (std::size_t i = 0; i < u.size(); ++i) u[i] -= anchor_[f.offset + i];
  const Computed computed = std::exchange(pending_, {});
  since_ = 0;
  in_flight_ = true;
  contribute(u, 1, computed, turn);
}

// X_f <- X_f + outer_f(ubar); x_f takes it in
void StreamingDiLoCo::use_mean(std::span<float> ubar, Turn& turn) {
  if (!turn.place().phantom) {
    outers_[round() % config_.fragments]->apply(ubar);
    const auto x = parameters(turn);
    const Range f = fragment(x.size());
    const auto anchor = std::span(anchor_).subspan(f.offset, f.length);
    for (std::size_t i = 0; i < ubar.size(); ++i) anchor[i] += ubar[i];
    shadow::write_back(x.subspan(f.offset, f.length), anchor, y_, config_.alpha, rule_);
    std::copy(anchor_.begin() + std::ptrdiff_t(x.size()), anchor_.end(), buffers(turn).begin());
  }
  end_with_model(turn);
}

// All that gave something are lost: X stays, and so does x.
void StreamingDiLoCo::use_nothing(Turn& turn) { end_with_model(turn); }

void StreamingDiLoCo::end_with_model(Turn& turn) {
  y_ = {};
  in_flight_ = false;
  end_round(turn);
}

// Only the time without a step to take is waiting.
void StreamingDiLoCo::waited(Wait what, Time, Turn& turn) {
  const Time took = blocked_ ? turn.now() - *blocked_ : Time{0};
  blocked_.reset();
  Synchronous::waited(what, took, turn);
}

// The run ends with X; steps since are not in it.
bool StreamingDiLoCo::close(Turn& turn) {
  closing_ = true;
  if (computing_) {
    turn.stop_computing();
    return false;
  }
  std::ranges::copy(anchor_, turn.params().begin());
  return true;
}

// The state is the senior worker's; what is its alone begins anew, with the model that all have.
// The others have taken `delay` steps of the round that begins.
void StreamingDiLoCo::on_returned(Turn& turn) {
  y_ = {};
  pending_ = {};
  since_ = config_.delay;
  in_flight_ = computing_ = closing_ = false;
  blocked_.reset();
  const auto model = turn.params();  // X, which the sender's anchor_ should be as well
  anchor_.assign(model.begin(), model.end());
}

bool StreamingDiLoCo::fits(std::size_t parameters) const {
  if (anchor_.size() < parameters) return false;
  for (std::uint64_t f = 0; f < outers_.size(); ++f) {
    const std::uint64_t begin = parameters * f / outers_.size();
    if (!outers_[f]->fits(parameters * (f + 1) / outers_.size() - begin)) return false;
  }
  return true;
}

std::string StreamingDiLoCo::waiting_for() const {
  return computing_ ? "" : Synchronous::waiting_for();
}

void StreamingDiLoCo::state(Archive& ar) {
  Synchronous::state(ar);
  ar.expect("X with buffers");
  for (const auto& outer : outers_) outer->state(ar);
  ar(anchor_, y_, pending_, since_, in_flight_, computing_, closing_, blocked_);
}

}  // namespace longhaul::sync
