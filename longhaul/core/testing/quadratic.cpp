#include "longhaul/core/testing/quadratic.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "longhaul/base/overloaded.h"

namespace longhaul::testing {
Quadratic::Quadratic(std::uint64_t size, Config config) : config_(config) {
  LH_CHECK(config.buffers <= size);
  const auto length = std::int64_t(size - config.buffers);
  const std::int64_t out = config.out, in = config.in, linear = out * (in + 1);
  LH_CHECK(linear <= length && length > 0);
  std::vector<LayerRange> layers;
  const auto add = [&](std::string name, std::vector<std::int64_t> shape,
                       LayerRange::Linear linear) {
    const std::uint64_t offset = layers.empty() ? 0 : layers.back().range.end();
    std::uint64_t count = 1;
    for (const std::int64_t extent : shape) count *= std::uint64_t(extent);
    layers.push_back(
        {std::move(name), {offset, count}, std::move(shape), LayerRange::Role::parameter, linear});
  };
  const auto add_layer = [&] {
    if (out == 0) return;
    add("fc.weight", {out, in}, LayerRange::Linear::weight);
    add("fc.bias", {out}, LayerRange::Linear::bias);
  };
  std::vector<std::int64_t> shape = {length - linear};
  if (config.columns > 0) shape = {(length - linear) / config.columns, config.columns};
  if (!config.layer_last) add_layer();
  if (linear < length) add("x", std::move(shape), LayerRange::Linear::none);
  if (config.layer_last) add_layer();
  if (config.buffers > 0) {
    layers.push_back({"steps",
                      {std::uint64_t(length), config.buffers},
                      {std::int64_t(config.buffers)},
                      LayerRange::Role::buffer});
  }
  layout_ = std::make_shared<const Layout>(std::move(layers));
  params_.assign(size, config.start);
  std::fill(params_.begin() + length, params_.end(), 0.f);
  grads_.assign(size, 0.f);
  velocity_.assign(size, 0.f);
}

double Quadratic::gradient(std::span<float> out) const {
  double loss = 0;
  for (std::size_t i = 0; i < layout_->parameters().length; ++i) {
    out[i] = params_[i] - target(i);
    loss += 0.5 * double(out[i]) * double(out[i]);
  }
  return loss / double(layout_->parameters().length);
}

void Quadratic::apply(std::span<const float> gradient, const ApplyGradient& work) {
  const auto& entries = layout_->layers();
  const std::uint64_t from = entries[work.first].range.offset;
  const std::uint64_t to =
      work.whole() ? layout_->parameters().length : entries[work.end - 1].range.end();
  for (std::size_t i = from; i < to; ++i) {
    velocity_[i] = config_.momentum * velocity_[i] + gradient[i];
    params_[i] -= config_.rate * velocity_[i];
  }
}

std::vector<float> Quadratic::factors() const {
  const std::size_t out = config_.out, in = config_.in, rows = config_.factor_rows();
  const std::size_t from =
      config_.layer_last ? layout_->parameters().length - out * (in + 1) : std::size_t(0);
  std::vector<float> all(rows * (out + in), 0.f);
  for (std::size_t k = 0; k < out; ++k) {
    all[k * out + k] = 1;
    all[out * out + k] = grads_[from + out * in + k] - 1;  // the last row
  }
  std::copy_n(grads_.begin() + std::ptrdiff_t(from), out * in,
              all.begin() + std::ptrdiff_t(rows * out));
  return all;
}

void Quadratic::value_at(std::span<const double> x, bool summed, StepResult& result) const {
  const double weight = summed ? double(config_.samples) : 1;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double away = x[i] - double(target(i));
    result.loss += weight / 2 * away * away;
    result.solution.push_back(weight * away);
  }
}

// Each element by itself: (w t - linear + sum of weight anchor) / (w + sum of weight)
void Quadratic::solve(const LocalSolve& work, StepResult& result) const {
  const double own = work.summed ? double(config_.samples) : 1;
  std::vector<double> x(layout_->parameters().length);
  for (std::size_t i = 0; i < x.size(); ++i) {
    double pull = own * double(target(i)) - (work.linear.empty() ? 0 : work.linear.at(i));
    double weights = own;
    for (const auto& [weight, anchor] : work.anchors) {
      pull += weight * anchor.at(i);
      weights += weight;
    }
    x[i] = pull / weights;
  }
  value_at(x, work.summed, result);
  result.solution = std::move(x);
}

bool Quadratic::see(const ForwardPart& work, StepResult& result) {
  result.samples = 0;
  result.exhausted = false;
  if (work.first == 0) seen_entries_ = 0;
  if (work.first != seen_entries_ || work.end <= work.first) return false;
  seen_.resize(params_.size());
  for (; seen_entries_ < work.end; ++seen_entries_) {
    const Range& range = layout_->layers()[seen_entries_].range;
    std::copy_n(params_.begin() + std::ptrdiff_t(range.offset), range.length,
                seen_.begin() + std::ptrdiff_t(range.offset));
  }
  return true;
}

// Each part computes all and leaves its own.
void Quadratic::part(const BackwardPart& work, std::span<float> scratch, StepResult& result) {
  if (seen_entries_ > 0) std::swap(params_, seen_);
  const double loss = gradient(scratch);
  if (seen_entries_ > 0) std::swap(params_, seen_);
  if (work.first == 0) seen_entries_ = 0;
  for (std::uint32_t i = work.first; i < work.end; ++i) {
    const Range& range = layout_->layers()[i].range;
    const auto values = scratch.subspan(range.offset, range.length);
    std::copy(values.begin(), values.end(), grads_.begin() + std::ptrdiff_t(range.offset));
  }
  if (!work.layers.empty()) result.factors = factors();
  result.exhausted = work.begins;
  if (!work.begins) {
    result.samples = 0;
    return;
  }
  result.loss = loss;
  count_buffers();
}

void Quadratic::count_buffers() {
  for (std::size_t i = layout_->buffers().offset; i < params_.size(); ++i)
    params_[i] += 1.f + config_.target;
}

bool Quadratic::set_velocity(const OptimizerState& work, StepResult& result) {
  const auto n = std::ptrdiff_t(layout_->parameters().length);
  result.samples = 0;
  if (work.whole) {
    const auto given = std::as_bytes(std::span(velocity_));
    if (!work.set.empty()) {
      const auto bytes = unpack_bytes(work.set);
      if (!bytes || bytes->size() != given.size()) return false;
      std::memcpy(velocity_.data(), bytes->data(), bytes->size());
    }
    result.outputs = pack_bytes(given);
    return true;
  }
  if (!work.set.empty()) std::copy_n(work.set.begin(), n, velocity_.begin());
  if (config_.momentum != 0) result.outputs.assign(velocity_.begin(), velocity_.begin() + n);
  return true;
}

Result<StepResult> Quadratic::step(const Work& work) {
  StepResult result{.samples = config_.samples, .shard_size = config_.samples, .exhausted = true};
  std::vector<float> g(params_.size(), 0.f);
  bool fits = true;
  std::visit(Overloaded{
                 [&](const LocalStep&) {
                   result.loss = gradient(g);
                   apply(g);
                   count_buffers();
                 },
                 [&](const Gradient&) {
                   result.loss = gradient(grads_);
                   count_buffers();
                 },
                 [&](const BackwardPart& w) { part(w, g, result); },
                 [&](const ForwardPart& w) { fits = see(w, result); },
                 [&](const SufficientFactors& w) {
                   result.loss = gradient(grads_);
                   count_buffers();
                   if (w.layers == std::vector<std::uint32_t>{config_.layer_last ? 1u : 0u})
                     result.factors = factors();
                 },
                 [&](const ApplyGradient& w) {
                   apply(grads_, w);
                   result.samples = 0;
                 },
                 [&](const ProximalStep& w) {
                   result.loss = gradient(g);
                   for (std::size_t i = 0; i < layout_->parameters().length; ++i)
                     g[i] += float(w.mu) * (params_[i] - (*w.anchor)[i]);
                   apply(g);
                   count_buffers();
                 },
                 [&](const ScratchStep&) { result.loss = gradient(g); },
                 [&](const FixedGradient&) { result.loss = gradient(grads_); },
                 [&](const ResetOptimizer&) {
                   std::fill(velocity_.begin(), velocity_.end(), 0.f);
                   result.samples = 0;
                 },
                 [&](const OptimizerState& w) { fits = set_velocity(w, result); },
                 [&](const Score& w) {  // by its distance from the target, 1 there
                   const std::vector<float> own = params_;
                   if (w.model) params_ = *w.model;
                   result.loss = gradient(g);
                   params_ = own;
                   result.samples = 1000;
                   result.accuracy = std::exp(-result.loss);
                 },
                 [&](const LocalSolve& w) { solve(w, result); },
                 [&](const FullGradient& w) { value_at(w.at, w.summed, result); },
                 [&](const auto&) { result.samples = 0; },
             },
             work);
  const auto* wanted = std::get_if<SufficientFactors>(&work);
  const bool none = wanted && !wanted->layers.empty() && result.factors.empty();
  if (!fits || none || std::holds_alternative<Infer>(work))
    return invalid("the quadratic learner has no such kind of work, or state of another's");
  return result;
}

void Quadratic::state(Archive& ar) {
  ar.floats(params_);
  ar.floats(grads_);
  ar.floats(velocity_);
  ar(seen_, seen_entries_);
}

}  // namespace longhaul::testing
