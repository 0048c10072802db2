#include "longhaul/sync/shadow/mean_trainer.h"

#include <algorithm>

#include "longhaul/sync/flat.h"
#include "longhaul/sync/shadowsync.h"

namespace longhaul::sync::shadow {
namespace {

constexpr double kAlpha = 0.5;
constexpr TimerId kNextRound{0}, kTrainerSlot{1};

}  // namespace

SyncEntry MeanTrainer::entry() { return ShadowSync::entry(); }

Status MeanTrainer::check(const Config& config, const Place& place) {
  if (config.rule() == WriteBack::interpolate && config.alpha == 1.0)
    return invalid(
        "[sync] alpha = 1 with write_back = \"interpolate\" replaces all that a trainer learns "
        "during a round by the mean: choose a smaller alpha or write_back = \"delta\"");
  if (config.lanes > 1 && config.is_foreground())
    return invalid("[sync] lanes: expected 1 with mode = \"foreground\" and algorithm = \"" +
                   config.algorithm +
                   "\", whose trainers stop all at once; give algorithm = \"easgd\"");
  return check_min_sites(config.min_sites, place);
}

MeanTrainer::MeanTrainer(const Config& config, SyncParts parts)
    : Synchronous(entry(), std::move(parts), config.min_sites),
      config_(config),
      global_(config.filter()),
      pace_(config.is_foreground() ? 0 : config.max_gap, config.epochs),
      lanes_(config.lanes) {}

void MeanTrainer::begin_run(Turn& turn) {
  global_.begin(parameters(turn));
  const auto b = buffers(turn);
  buffers_.assign(b.begin(), b.end());
}

void MeanTrainer::begin_round(Turn& turn) {
  if (!config_.is_foreground()) return try_snapshot(turn);
  if (!pace_.may_step()) return snapshot(turn);
  computing_ = true;
  lanes_.start(0, turn);
  lanes_.compute(config_.steps, kTrainerSlot, *this, turn);
}

void MeanTrainer::on_step(const StepResult& result, Turn& turn) {
  if (!lanes_.is_step()) return;
  lanes_.stepped(result);
  pace_.stepped(result);
  if (!pace_.may_step()) turn.stop_computing();
}

void MeanTrainer::on_computed(const Computed&, Turn& turn) {
  if (!lanes_.computed(turn)) return;
  computing_ = false;
  if (config_.is_foreground()) return snapshot(turn);
  try_snapshot(turn);
}

void MeanTrainer::on_timer(TimerId id, Turn& turn) {
  if (id == kTrainerSlot) lanes_.slot_passed();
  try_snapshot(turn);
  on_progress(turn);
}

// A round begins at a boundary behind which there is a step that no round has seen.
void MeanTrainer::try_snapshot(Turn& turn) {
  if (!working() || computing_ || (pace_.steps() == 0 && pace_.may_step())) return;
  const Time due = began_.value_or(Time::min() / 2) + from_seconds(config_.min_interval_s);
  if (turn.now() >= due) return snapshot(turn);
  if (!pace_.may_step()) turn.set_timer(*this, kNextRound, due);
}

// y <- w; y - m goes to the mean, with the vote done
void MeanTrainer::snapshot(Turn& turn) {
  began_ = turn.now();
  const auto w = parameters(turn);
  y_.assign(w.begin(), w.end());
  const Computed computed = pace_.snapshot();
  // Phantoms have no vote: whoever is done contributes nothing.
  if (turn.place().phantom && pace_.is_done()) return stand_by(turn);
  std::vector<float> vote(scalars(), pace_.is_done() ? 1.0f : 0.0f);
  const std::vector<float> z = global_.difference(y_);
  contribute({.values = z,
              .buffers = buffers(turn),
              .weight = 1,
              .loss = computed.loss,
              .samples = computed.samples,
              .scalars = std::move(vote)},
             turn);
}

// At a boundary, later than the one of the snapshot unless the trainer computes no more.
bool MeanTrainer::takes_mean(Turn&) const {
  return config_.is_foreground() || (!computing_ && (pace_.steps() > 0 || !pace_.may_step()));
}

void MeanTrainer::mean_came(Turn& turn) {
  const auto b = buffers(turn);
  own_buffers_.assign(b.begin(), b.end());
}

void MeanTrainer::use_mean(std::span<float> zbar, Turn& turn) {
  const double alpha = config_.alpha.value_or(kAlpha);
  if (!turn.place().phantom) global_.take(zbar, contributors());
  write_back(parameters(turn), global_.target(), y_, alpha, config_.rule());
  // Running statistics go the same share of the way; a mean of two keeps variances positive.
  const auto b = buffers(turn);
  buffers_.assign(b.begin(), b.end());
  for (std::size_t i = 0; i < b.size(); ++i)
    b[i] = float((1 - alpha) * double(own_buffers_[i]) + alpha * double(b[i]));
  over_ = scalars() > 0 && !turn.place().phantom && mean_scalars()[0] == 1;
  end_with_model(turn);
}

// All that gave something are lost; or in a phantom job all are done.
void MeanTrainer::use_nothing(Turn& turn) {
  over_ = turn.place().phantom && config_.epochs > 0;
  end_with_model(turn);
}

void MeanTrainer::end_with_model(Turn& turn) {
  y_ = {};
  own_buffers_ = {};
  if (!config_.is_foreground()) turn.record("gap", round(), double(pace_.gap()));
  pace_.completed();
  std::vector<float> model(global_.model().begin(), global_.model().end());
  model.insert(model.end(), buffers_.begin(), buffers_.end());
  end_round(model, turn);
}

// The next step, in the turn of the last one's end.
void MeanTrainer::on_idle(Turn& turn) {
  if (config_.is_foreground() || computing_ || closing_) return;
  try_snapshot(turn);
  if (!pace_.may_step()) {
    if (!paused_) paused_ = turn.now();
    return;
  }
  if (paused_) turn.record("paused_s", round(), seconds(turn.now() - *paused_));
  paused_.reset();
  for (std::uint32_t lane = 0; lane < lanes_.count(); ++lane)
    if (!lanes_.runs(lane)) lanes_.start(lane, turn);
  computing_ = lanes_.compute(1, kTrainerSlot, *this, turn);
}

void MeanTrainer::waited(Wait what, Time took, Turn& turn) {
  if (config_.is_foreground()) return Synchronous::waited(what, took, turn);
  if (what == Wait::exchange) turn.record("sync_s", round(), seconds(took));
}

// The run ends with the model of the last round; steps since its snapshot are not in it.
bool MeanTrainer::close(Turn& turn) {
  closing_ = true;
  if (computing_) {
    turn.stop_computing();
    return false;
  }
  const auto x = turn.params();
  std::ranges::copy(buffers_, std::ranges::copy(global_.model(), x.begin()).out);
  return true;
}

bool MeanTrainer::fits(std::size_t parameters) const {
  return Synchronous::fits(parameters) && global_.fits(parameters);
}

// The state that was handed over is the senior worker's; what is its alone begins anew here, with
// the model that all have in common.
void MeanTrainer::on_returned(Turn& turn) {
  pace_.begin_anew();
  y_ = {};
  lanes_.clear();
  began_.reset();
  paused_.reset();
  computing_ = false;
  std::ranges::copy(buffers_, std::ranges::copy(global_.model(), turn.params().begin()).out);
}

std::string MeanTrainer::waiting_for() const {
  if (computing_ || (working() && pace_.may_step())) return "";
  return Synchronous::waiting_for();
}

void MeanTrainer::state(Archive& ar) {
  Synchronous::state(ar);
  ar(global_, pace_, lanes_, y_, own_buffers_, buffers_, began_, paused_, computing_, closing_,
     over_);
}

}  // namespace longhaul::sync::shadow
