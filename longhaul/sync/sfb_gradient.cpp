// How a worker of sync/sfb.h computes its gradient, whole or in stages, and what leaves with each.
#include <algorithm>

#include "longhaul/sync/flat.h"
#include "longhaul/sync/sfb.h"

namespace longhaul::sync {
namespace {

// Ranges of the overlay's vectors: the rest of the first stage, buffers, the rest of the others.
// With partial spread: the model that the run ends with, models, the rest of each stage.
std::uint32_t mean_range(std::uint32_t stage, bool is_partial) {
  if (is_partial) return stage + 2;
  return stage == 0 ? 0 : stage + 1;
}

}  // namespace

// The whole gradient, or its next stage.
void Sfb::compute(Turn& turn) {
  optimizer_.forget();
  if (!config_.wait_free) {
    if (parts_.layers().empty()) return turn.compute(Gradient{});
    return turn.compute(SufficientFactors{parts_.entries()});
  }
  const sfb::BackwardStage& stage = stages_[stage_];
  BackwardPart part{.first = stage.first,
                    .end = stage.end,
                    .begins = stage_ == 0,
                    .layers = {},
                    .share = stage.share};
  for (const std::uint32_t k : stage.layers) part.layers.push_back(parts_.layers()[k].entry);
  std::ranges::sort(part.layers);
  turn.compute(part);
}

// What is done of the gradient leaves: factors to the others, the rest into a mean.
void Sfb::on_stage(const StepResult& step, Turn& turn) {
  compute_s_ += seconds(step.elapsed);
  if (stage_ == 0) {
    own_samples_ = step.samples;
    if (!turn.place().phantom) turn.record("train_loss", clock_, step.loss);
  }
  if (!all_finite(step.factors) || !all_finite(turn.grads()))
    return fail(not_finite("its gradient has values that are not finite; lower [optimizer] rate"),
                turn);
  send_factors(step, stages_[stage_].layers, turn);
  if (phase_ != Phase::failed && !is_eager()) begin_mean(turn);
}

// u_p and v_p of these layers, which are from the output down; step.factors has them from the
// input up.
void Sfb::send_factors(const StepResult& step, const std::vector<std::uint32_t>& layers,
                       Turn& turn) {
  const bool phantom = turn.place().phantom;
  std::uint64_t edge = 0;
  for (const std::uint32_t k : layers) edge += parts_.layers()[k].out + parts_.layers()[k].in;
  const std::uint64_t rows = phantom || edge == 0 ? own_samples_ : step.factors.size() / edge;
  if (!phantom && (step.factors.size() != rows * edge || (edge > 0 && (rows < 1 || rows > batch_))))
    return fail(invalid("the learner gives " + std::to_string(step.factors.size()) +
                        " numbers as factors; expected 1 to " + std::to_string(batch_) +
                        " rows of " + std::to_string(edge) + ", by [data] batch"),
                turn);
  const float* end = step.factors.data() + step.factors.size();
  for (const std::uint32_t k : layers) {
    const sfb::FactorLayer& layer = parts_.layers()[k];
    sfb::Factors own;
    if (!phantom) {
      const float* v = end - rows * layer.in;
      const float* u = v - rows * layer.out;
      own = {{u, v}, {v, end}};
      end = u;
    }
    sfb::FactorsHeader header{.epoch = epoch_,
                              .clock = clock_,
                              .origin = turn.self(),
                              .part = k,
                              .rows = std::uint32_t(rows),
                              .parties = parties(),
                              .samples = own_samples_};
    VectorContent content = sfb::encode(header, layer, own, config_.sparse_v, coder_);
    store_.add(header, content);
    spread({header, std::move(content)}, turn);
  }
}

// With staleness: r_p, to everybody.
void Sfb::send_rest(Turn& turn) {
  if (kinds_of_parts() == parts_.layers().size()) return;
  const sfb::FactorsHeader header{.epoch = epoch_,
                                  .clock = clock_,
                                  .origin = turn.self(),
                                  .part = kinds_of_parts() - 1,
                                  .parties = parties(),
                                  .samples = own_samples_};
  VectorContent content =
      sfb::encode(header, parts_.gather(turn.grads()), parts_.rest_length(), coder_);
  store_.add(header, content);
  spread({header, std::move(content)}, turn);
}

void Sfb::begin_mean(Turn& turn) {
  const sfb::BackwardStage& stage = stages_[stage_];
  if (stage.rest_length == 0) return;
  Overlay& overlay = final_.overlay();
  Turn below = within(overlay, turn);
  const std::vector<float> rest = sfb::Parts::gather_ranges(stage.rest, turn.grads());
  const Status begun = overlay.begin(
      {clock_, 0, mean_range(stage_, is_partial())}, {},
      {.values = rest, .length = stage.rest_length, .weight = double(own_samples_)}, below);
  if (!begun) fail(begun.error(), turn);
}

void Sfb::begin_buffers(Turn& turn) {
  const std::uint64_t length = place_.layout->buffers().length;
  if (length == 0 || is_partial()) return;  // then they are in the means of models
  Overlay& overlay = final_.overlay();
  Turn below = within(overlay, turn);
  const Status begun = overlay.begin(
      {clock_, 0, kBuffersRange}, {},
      {.values = buffers(turn), .length = length, .weight = double(own_samples_), .exact = true},
      below);
  if (!begun) fail(begun.error(), turn);
}

std::map<std::uint32_t, std::uint64_t> Sfb::mean_lengths() const {
  std::map<std::uint32_t, std::uint64_t> lengths;
  for (std::uint32_t i = 0; i < stages_.size(); ++i)
    if (stages_[i].rest_length > 0) lengths[mean_range(i, is_partial())] = stages_[i].rest_length;
  const std::uint64_t beside =
      is_partial() ? place_.layout->size() : place_.layout->buffers().length;
  if (beside > 0) lengths[kBuffersRange] = beside;
  return lengths;
}

bool Sfb::is_mean_here() {
  Overlay& overlay = final_.overlay();
  bool is_here = true;
  for (std::uint32_t i = 0; i < stages_.size(); ++i) {
    if (stages_[i].rest_length == 0 || means_.contains(i)) continue;
    if (auto mean = overlay.poll({clock_, 0, mean_range(i, is_partial())}))
      means_[i] = *std::move(mean);
    else
      is_here = false;
  }
  const bool has_extras = !is_partial() && place_.layout->buffers().length > 0;
  if (has_extras && !extras_) extras_ = overlay.poll({clock_, 0, kBuffersRange});
  return is_here && (!has_extras || extras_);
}

}  // namespace longhaul::sync
