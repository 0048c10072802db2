// What a worker of sync/sfb.h does with the gradients that are here.
#include <algorithm>

#include "longhaul/sync/flat.h"
#include "longhaul/sync/sfb.h"
#include "longhaul/sync/sfb/rule.h"

namespace longhaul::sync {

// g into grads(), and the optimiser over it: momentum moves once a clock.
void Sfb::apply_sum(Turn& turn) {
  turn.record("wait_s", clock_, seconds(turn.now() - asked_));
  const auto g = turn.grads().first(parameter_count(turn.place()));
  std::uint64_t samples = 0;
  const std::vector<Rank> from = origins(clock_);
  for (std::uint32_t part = 0; part < parts_.layers().size(); ++part) {
    const sfb::FactorLayer& layer = parts_.layers()[part];
    std::vector<sfb::Factors> factors;
    std::vector<double> weights;
    samples = 0;
    for (const Rank origin : from) {
      const auto& piece = store_.pieces(origin, clock_).at(part);
      samples += piece.header.samples;
      weights.push_back(double(piece.header.samples));
      auto decoded = sfb::decode(piece.header, layer, piece.content, coder_);
      LH_CHECK(decoded);  // it was when it came
      factors.push_back(*std::move(decoded));
    }
    if (g.empty()) continue;
    std::vector<sfb::FactorTerm> terms;
    for (std::size_t i = 0; i < factors.size(); ++i)
      terms.push_back({&factors[i], weights[i] / double(samples)});
    sfb::weight_gradient(terms, layer.out, layer.in,
                         g.subspan(layer.weight.offset, layer.weight.length));
    if (layer.bias)
      sfb::bias_gradient(terms, layer.out, g.subspan(layer.bias->offset, layer.bias->length));
  }
  for (const auto& [stage, mean] : means_) {
    if (!mean.counted.empty()) sfb::Parts::scatter_ranges(stages_[stage].rest, mean.values, g);
    if (samples == 0) samples = std::uint64_t(mean.weight);
  }
  if (extras_ && !g.empty())
    std::copy(extras_->values.begin(), extras_->values.end(), buffers(turn).begin());
  // As many of each as of those that are known here.
  if (is_partial() && has_factors()) samples = samples * workers_of(clock_).size() / from.size();
  samples_ += samples;
  means_.clear();
  extras_.reset();
  outer_->apply(g);
  phase_ = Phase::applying;
  turn.compute(ApplyGradient{});
}

// Whole clocks of each origin, in its order; of the origins as they come.
void Sfb::apply_arrived(Turn& turn) {
  for (Rank origin = 0; origin < place_.size(); ++origin) {
    Round& applied = applied_[origin];
    for (const Round done = store_.done(origin); applied < done; ++applied) {
      if (!store_.find(origin, applied)) continue;  // it does not count
      const auto& pieces = store_.pieces(origin, applied);
      for (const auto& [part, piece] : pieces) apply_eagerly(piece, turn);
      samples_ += pieces.begin()->second.header.samples;
      turn.record("staleness", clock_, double(clock_) - double(applied));
    }
  }
}

void Sfb::apply_eagerly(const sfb::FactorStore::Piece& piece, Turn& turn) {
  const auto w = parameters(turn);
  if (w.empty()) return;
  const sfb::FactorsHeader& header = piece.header;
  const double share = rate_share_ ? rate_share_(header.clock) : 1;
  const double by = rate_ * share / double(header.parties);
  const auto subtract = [&](Range range, std::span<const float> g) {
    for (std::size_t i = 0; i < g.size(); ++i) {
      float& value = w[range.offset + i];
      value = float(double(value) - by * double(g[i]));
    }
  };
  if (header.part == parts_.layers().size()) {
    const auto rest = sfb::decode(header, parts_.rest_length(), piece.content, coder_);
    LH_CHECK(rest);
    std::span<const float> left = *rest;
    for (const Range& range : parts_.rest()) {
      subtract(range, left.first(range.length));
      left = left.subspan(range.length);
    }
    return;
  }
  const sfb::FactorLayer& layer = parts_.layers()[header.part];
  const auto factors = sfb::decode(header, layer, piece.content, coder_);
  LH_CHECK(factors);
  const sfb::FactorTerm term{&*factors, 1};
  std::vector<float> g(layer.weight.length);
  sfb::weight_gradient({&term, 1}, layer.out, layer.in, g);
  subtract(layer.weight, g);
  if (!layer.bias) return;
  g.resize(layer.out);
  sfb::bias_gradient({&term, 1}, layer.out, g);
  subtract(*layer.bias, g);
}

// What the layers that go as factors would be as matrices in a mean, without what their factors
// are.
double Sfb::saved_bytes(std::size_t parties) const {
  double saved = 0;
  for (const sfb::FactorLayer& layer : parts_.layers()) {
    const sfb::LayerShape shape =
        sfb::shape_of(layer.out, layer.in, own_samples_, parties, config_);
    saved += sfb::matrix_numbers(shape) - sfb::factor_numbers(shape);
  }
  return saved * sizeof(float);
}

}  // namespace longhaul::sync
