#include "longhaul/sync/p3.h"

#include <fmt/format.h>

#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"

namespace longhaul::sync {
namespace {

// Of a pass, of each part.
Result<std::vector<double>> shares_of(const P3::Config& config,
                                      const std::vector<LayerPart>& parts) {
  std::vector<double> shares = config.shares;
  if (shares.empty())
    for (const LayerPart& part : parts) shares.push_back(double(part.values.length));
  double sum = 0;
  bool is_valid = shares.size() == parts.size();
  for (const double share : shares) {
    is_valid = is_valid && share >= 0;
    sum += share;
  }
  if (!is_valid || !(sum > 0))
    return invalid("[sync] shares: expected " + std::to_string(parts.size()) +
                   " numbers from 0 on, one for each part of the model, not all 0; found " +
                   std::to_string(config.shares.size()));
  for (double& share : shares) share /= sum;
  return shares;
}

// Of a job whose model is not known yet, too, to which they need not fit.
std::vector<double> known_shares(const P3::Config& config, const std::vector<LayerPart>& parts) {
  if (auto shares = shares_of(config, parts)) return *std::move(shares);
  return std::vector<double>(parts.size(), 1 / double(parts.size()));
}

}  // namespace

SyncEntry P3::entry() {
  return strategy_entry<P3>(
      {.name = "p3",
       .summary = "bsp layer by layer: shallow layers first, the next step begins with them",
       .traits = {.takes_outer = false,
                  .takes_gaps = true,
                  .when_lost = "waits until the others agree that it is gone, repeats the parts "
                               "that lack it without it",
                  .lets_return = true,
                  .takes_parts = true},
       .costs = {{.rounds = "every step",
                  .sent = "an exchange of S",
                  .waits_for = "all, every layer",
                  .staleness = "0",
                  .memory = "none",
                  .when_lost = "agreed mean, goes on"}}});
}

Status P3::check(const Config& config, const Place& place) {
  const auto parts = layer_parts(*place.layout, place.phantom, kMostParts);
  // A job is first read without its model.
  if (!config.shares.empty() && place.layout->layers().size() <= 1) return Ok{};
  const auto shares = shares_of(config, parts);
  return shares ? Status(Ok{}) : Status(shares.error());
}

P3::P3(const Config& config, SyncParts with, const Place& place)
    : config_(config),
      place_(place),
      parts_(layer_parts(*place.layout, place.phantom, kMostParts)),
      shares_(known_shares(config, parts_)),
      overlay_(std::move(with.overlay)),
      stop_(with.stop) {
  own(*overlay_, kOverlayChild);
  own(stop_, {1, "stop rule"});
  own(state_transfer_, {2, "state transfer"});
}

void P3::on_start(Turn& turn) {
  phase_ = turn.place().comes_back() ? Phase::finding_round : Phase::awaiting;
}

std::uint32_t P3::range(std::size_t part) const {
  return std::uint32_t(config_.order == "fifo" ? parts_.size() - 1 - part : part);
}

void P3::on_progress(Turn& turn) {
  if (knows_model()) state_transfer_.drop_received();  // sent twice
  while (advance(turn)) {
  }
}

// One move, if one can be made now.
bool P3::advance(Turn& turn) {
  switch (phase_) {
    case Phase::awaiting:
      if (round_ == first_) return go_forward(turn), false;
      return take_mean(turn);
    case Phase::deciding:
      return decide(turn);
    case Phase::finding_round:
      return stand_in(turn);
    case Phase::standing_in:
      return end_stand_in(turn);
    case Phase::awaiting_state:
      return begin_from_state(turn);
    case Phase::unstarted:
    case Phase::applying:
    case Phase::forward:
    case Phase::backward:
    case Phase::ended:
    case Phase::failed:
    case Phase::setting_optimizer:
      return false;
  }
  return false;
}

// The model of the round before is whole: whoever needs it is sent it before the next pass goes on.
bool P3::decide(Turn& turn) {
  if (turn.learner_is_busy()) return false;  // reads the optimiser's state
  const StopRule::Step step = stop_.after(done_ - 1);
  if (step == StopRule::Step::wait) return false;
  const bool is_last = step == StopRule::Step::stop;
  const bool sends =
      !needs_state_.empty() && senior_worker(turn.place(), turn.view()) == turn.self();
  if (sends && !is_last && !optimizer_.ready(turn)) return false;
  send_state(is_last, turn);
  optimizer_.forget();
  wait_s_ += seconds(turn.now() - asked_);
  if (!is_last) return go_forward(turn), false;
  phase_ = Phase::ended;
  turn.finish();
  return false;
}

// x_p <- opt_p(x_p, gbar_p) once gbar_p of the round before is here. Nobody has given to it if all
// who did are lost: then the part stays as it is, at all alike.
bool P3::take_mean(Turn& turn) {
  const bool is_last = part_ + 1 == parts_.size();
  if (is_last && !take_buffers(turn)) return false;
  const auto mean = overlay_->poll({round_ - 1, 0, range(part_)});
  if (!mean) return false;
  note_returned(*mean, turn);
  has_buffers_ = false;
  wait_s_ += seconds(turn.now() - asked_);
  if (part_ == 0) samples_ += std::uint64_t(mean->weight);
  if (mean->counted.empty()) return applied(turn), true;
  const LayerPart& part = parts_[part_];
  const auto g = turn.grads().first(parameter_count(turn.place()));
  if (!g.empty()) {
    LH_CHECK(mean->values.size() == part.values.length);
    std::ranges::copy(mean->values, g.begin() + std::ptrdiff_t(part.values.offset));
  }
  phase_ = Phase::applying;
  turn.compute(ApplyGradient{part.first, part.end});
  return false;
}

// Of the round before; averaged exactly, and complete with it. False: they are not here yet.
bool P3::take_buffers(Turn& turn) {
  if (has_buffers_ || place_.layout->buffers().length == 0) return true;
  const auto mean = overlay_->poll({round_ - 1, 0, buffers_range()});
  if (!mean) return false;
  note_returned(*mean, turn);
  std::ranges::copy(mean->values, buffers(turn).begin());
  has_buffers_ = true;
  return true;
}

// With its last part the round is complete: its model may be the last.
void P3::applied(Turn& turn) {
  if (part_ + 1 < parts_.size()) return go_forward(turn);
  asked_ = turn.now();
  phase_ = Phase::deciding;
  ++done_;
  note_who_needs_state();
  Turn below = within(stop_, turn);
  stop_.round_done(done_ - 1, turn.params(), samples_, below);
}

void P3::go_forward(Turn& turn) {
  phase_ = Phase::forward;
  const LayerPart& part = parts_[part_];
  turn.compute(ForwardPart{part.first, part.end, config_.forward_share * share(part_)});
}

void P3::go_back(Turn& turn) {
  phase_ = Phase::backward;
  const LayerPart& part = parts_[part_];
  turn.compute(BackwardPart{.first = part.first,
                            .end = part.end,
                            .begins = part_ + 1 == parts_.size(),
                            .layers = {},
                            .share = (1 - config_.forward_share) * share(part_)});
}

void P3::on_step(const StepResult& result, Turn&) {
  optimizer_.on_step(result);
  step_ = result;
}

void P3::on_computed(const Computed&, Turn& turn) {
  if (optimizer_.on_computed()) {
    step_ = {};
    if (phase_ == Phase::setting_optimizer) phase_ = Phase::awaiting;
    return on_progress(turn);
  }
  move_on(std::exchange(step_, {}), turn);
  on_progress(turn);
}

// A part of a pass, or of the optimiser's step, is done.
void P3::move_on(const StepResult& step, Turn& turn) {
  compute_s_ += seconds(step.elapsed);
  switch (phase_) {
    case Phase::applying:
      return applied(turn);
    case Phase::forward:
      if (part_ + 1 == parts_.size()) return go_back(turn);
      ++part_;
      phase_ = Phase::awaiting;
      asked_ = turn.now();
      return;
    case Phase::backward:
      send_part(step, turn);
      if (phase_ == Phase::failed) return;
      if (part_ > 0) return --part_, go_back(turn);
      if (!send_buffers(turn)) return;
      turn.record("compute_s", round_, std::exchange(compute_s_, 0));
      turn.record("wait_s", round_, std::exchange(wait_s_, 0));
      ++round_;
      phase_ = Phase::awaiting;
      asked_ = turn.now();
      return;
    case Phase::unstarted:
    case Phase::awaiting:
    case Phase::deciding:
    case Phase::ended:
    case Phase::failed:
    case Phase::finding_round:
    case Phase::standing_in:
    case Phase::awaiting_state:
    case Phase::setting_optimizer:
      return;
  }
}

// g_p leaves; loss and samples are the first backward part's.
void P3::send_part(const StepResult& step, Turn& turn) {
  if (part_ + 1 == parts_.size()) {
    own_samples_ = step.samples;
    loss_ = step.loss;
    if (!turn.place().phantom) turn.record("train_loss", round_, step.loss);
  }
  const Range& values = parts_[part_].values;
  std::span<const float> g;
  if (!turn.place().phantom) g = turn.grads().subspan(values.offset, values.length);
  Turn below = within(*overlay_, turn);
  const Status begun = overlay_->begin(
      {round_, 0, range(part_)}, {},
      {.values = g, .length = values.length, .weight = double(own_samples_), .loss = loss_}, below);
  if (!begun) fail(begun.error(), turn);
}

bool P3::send_buffers(Turn& turn) {
  const std::uint64_t length = place_.layout->buffers().length;
  if (length == 0) return true;
  Turn below = within(*overlay_, turn);
  const Status begun = overlay_->begin(
      {round_, 0, buffers_range()}, {},
      {.values = buffers(turn), .length = length, .weight = double(own_samples_), .exact = true},
      below);
  if (!begun) fail(begun.error(), turn);
  return bool(begun);
}

void P3::fail(const Error& error, Turn& turn) {
  phase_ = Phase::failed;
  turn.fail({error.kind, "p3, round " + std::to_string(round_) + ", site " +
                             turn.place().me().site + " (rank " + std::to_string(turn.self()) +
                             "): " + error.what});
}

std::string P3::waiting_for() const {
  if (phase_ == Phase::deciding) return stop_.waiting_for();
  if (phase_ == Phase::finding_round || phase_ == Phase::standing_in)
    return "the round that runs, to come back to it; " + overlay_->waiting_for();
  if (phase_ == Phase::awaiting_state) return "the model of round " + std::to_string(done_);
  if (phase_ != Phase::awaiting || round_ == first_) return "";
  return "part " + std::to_string(part_) + " of " + std::to_string(parts_.size()) + ": " +
         overlay_->waiting_for();
}

Explanation P3::explain() const {
  Explanation said;
  said.lines.push_back(fmt::format(
      "The model goes in {} parts, from the output to the input; of those that wait for a link {}.",
      parts_.size(),
      config_.order == "fifo" ? "the one that was done first goes first"
                              : "the one nearest to the input goes first"));
  if (parts_.size() == 1)
    said.lines.push_back("With one part there is nothing to put in order: this is bsp.");
  Explanation::Table table{.title = "Parts, from the input on; MB of a gradient as fp32",
                           .head = {"part", "MB", "forward %", "backward %"},
                           .rows = {}};
  for (std::size_t p = 0; p < parts_.size(); ++p)
    table.rows.push_back({std::to_string(p),
                          fmt::format("{:.3g}", 4e-6 * double(parts_[p].values.length)),
                          fmt::format("{:.3g}", 100 * config_.forward_share * share(p)),
                          fmt::format("{:.3g}", 100 * (1 - config_.forward_share) * share(p))});
  said.tables.push_back(std::move(table));
  return said;
}

void P3::state(Archive& ar) {
  ar(phase_, round_, done_, part_, samples_, own_samples_, has_buffers_, loss_, compute_s_, wait_s_,
     asked_);
  ar(first_, returned_, needs_state_, formed_, optimizer_, state_sender_, stands_in_all_);
}

}  // namespace longhaul::sync
