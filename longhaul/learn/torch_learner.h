#pragma once
// Internal to learn/ (includes torch). learner.h describes the behaviour.
#include <algorithm>
#include <map>
#include <mutex>

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/autograd.h>

#include "longhaul/base/rng.h"
#include "longhaul/core/kept_values.h"
#include "longhaul/learn/batch_loader.h"
#include "longhaul/learn/flat_vectors.h"
#include "longhaul/learn/loss.h"
#include "longhaul/learn/net.h"
#include "longhaul/learn/optimizer.h"
#include "longhaul/learn/solve.h"
#include "longhaul/learn/threads.h"
#include "longhaul/learn/torch_error.h"

namespace longhaul::learn {

class TorchLearner final : public Learner, public KeepsValues {
  // Values of Stream::range: a model's own random numbers; the samples for scores.
  static constexpr std::uint32_t kDropout = 1, kProbe = 2;
  // Number of samples for scores, and minimum of each class that the node holds.
  static constexpr std::size_t kProbeSamples = 500, kProbeOfClass = 10;

  // Returns the first samples of a permutation of the shard drawn by (seed, node), and more of them
  // until each class has its minimum.
  static std::vector<std::uint32_t> probe_samples(const LearnerParts& parts) {
    std::vector<std::uint32_t> order = parts.shard, samples;
    Random(parts.seed, {Purpose::batches, 0, parts.origin, kProbe}).shuffle(std::span(order));
    const bool has_classes = parts.data->shape.task == Task::classification;
    std::map<std::int64_t, std::size_t> of_class;
    for (std::size_t i = 0; i < order.size(); ++i) {
      std::size_t* count = has_classes ? &of_class[parts.data->labels[order[i]]] : nullptr;
      if (i >= kProbeSamples && (!count || *count >= kProbeOfClass)) continue;
      if (count) ++*count;
      samples.push_back(order[i]);
    }
    return samples;
  }

  static at::Tensor trained(const at::Tensor& flat, const Layout& layout) {
    return flat.narrow(0, 0, std::int64_t(layout.parameters().length));
  }

  static at::Tensor from_host(std::span<const float> values) {
    return at::from_blob(const_cast<float*>(values.data()), {std::int64_t(values.size())},
                         at::kFloat);
  }

 public:
  // Binds the net to flat vectors and sets them to `initial`.
  TorchLearner(LearnerParts parts, Net net, at::Device device, std::span<const float> initial)
      : parts_(std::move(parts)),
        device_(device),
        net_(std::move(net)),
        flat_(net_.layout()->size(), device, parts_.mirror),
        layout_(exchanged_layout(parts_.model, net_.layout())),
        optimizer_(parts_.optimizer, *net_.layout(), trained(flat_.params(), *net_.layout()),
                   trained(flat_.grads(), *net_.layout())),
        batches_(parts_) {
    LH_CHECK(initial.size() == flat_.host_params().size());
    std::copy(initial.begin(), initial.end(), flat_.host_params().begin());
    if (const auto& weights = parts_.class_weights; !weights.empty())
      class_weights_ = at::tensor(weights, at::kDouble).to(device_, at::kFloat);
    publish();
    flat_.upload_params();
    net_.bind(flat_.params(), flat_.grads());
  }

  std::shared_ptr<const Layout> layout() const override { return layout_; }
  std::span<float> params() override { return flat_.host_params().first(layout_->size()); }
  std::span<float> grads() override { return flat_.host_grads().first(layout_->size()); }
  std::vector<float> kept_values() const override {
    const std::lock_guard lock(kept_mutex_);
    return kept_;
  }

  Result<StepResult> step(const Work& work) override {
    prepare_compute_thread();
    return guarded<StepResult>("the learner failed", [&] {
      at::AutoGradMode record(true);  // independent of the calling thread's mode
      auto result = std::visit([&](const auto& kind) { return take(kind); }, work);
      publish();
      return result;
    });
  }

  void state(Archive& ar) override {
    ar.expect("torch learner");
    ar.floats(flat_.host_params());
    ar.floats(grads());
    optimizer_.state(ar);
    batches_.state(ar);
    ar(forward_done_, parts_done_);
    if (ar.loading()) partial_.reset();
    part_optimizers(ar);
    publish();
  }

  Net& net() { return net_; }
  const FlatVectors& flat() const { return flat_; }

 private:
  // One overload for each kind of work. They may throw torch's exceptions.
  Result<StepResult> take(const LocalStep& work) {
    auto result = backward();
    if (!result) return result;
    apply();
    if (const ModelSpec* spec = net_.spec(); work.ahead > 0 && spec && !spec->lookups.empty())
      result->reads_next = reads_of(*spec, *parts_.data, batches_.ahead(work.ahead));
    return result;
  }

  Result<StepResult> take(const Gradient&) {
    const auto result = backward();
    if (!result) return result;
    flat_.download_params();  // running statistics moved
    flat_.download_grads();
    return result;
  }

  Result<StepResult> take(const ApplyGradient& work) {
    flat_.upload_params();
    flat_.upload_grads();
    if (work.whole()) {
      apply();
    } else {
      LH_LET(optimizer, optimizer_of({work.first, work.end}));
      optimizer->step();
      flat_.download_params();
    }
    return StepResult{.shard_size = parts_.shard.size()};
  }

  Result<StepResult> take(const ProximalStep& work) {
    const auto result = backward();
    if (!result) return result;
    if (work.mu != 0) {
      LH_CHECK(work.anchor && work.anchor->size() == params().size());
      at::NoGradGuard no_grad;
      const Layout& layout = *net_.layout();
      const at::Tensor anchor = from_host(*work.anchor).to(device_);
      trained(flat_.grads(), layout)
          .add_(trained(flat_.params(), layout) - trained(anchor, layout), work.mu);
    }
    apply();
    return result;
  }

  Result<StepResult> take(const SufficientFactors& work) {
    std::vector<std::uint32_t> linears;
    for (const std::uint32_t layer : work.layers) {
      LH_LET(linear, net_.linear_at(layer));
      linears.push_back(linear);
    }
    if (linears.empty()) return take(Gradient{});
    std::vector<LinearActivations> activations;
    auto result = backward(linears, &activations);
    if (!result) return result;
    flat_.download_params();
    flat_.download_grads();
    for (const LinearActivations& one : activations)
      for (const at::Tensor& factor : {one.output.grad(), one.input.detach()})
        append_values(result->factors, factor);
    return result;
  }

  Result<StepResult> take(const LocalSolve& work) {
    LH_LET(shard, convex());
    StepResult result = about_shard();
    LH_TRY(shard->solve(work, params(), result));
    return result;
  }

  Result<StepResult> take(const ScratchStep&) {
    Archive before;
    state(before);
    const Buffer bytes = before.take();
    Result<StepResult> result = take(LocalStep{});
    Archive after(bytes);
    state(after);
    LH_CHECK(after.finish());
    return result;
  }

  Result<StepResult> take(const Score& work) {
    at::NoGradGuard no_grad;
    LH_CHECK(!work.model || work.model->size() == params().size());
    flat_.upload_params();
    const at::Tensor own = flat_.params().clone();
    if (work.model)
      flat_.params().narrow(0, 0, std::int64_t(layout_->size())).copy_(from_host(*work.model));
    const Batch batch =
        (work.model ? gather(*parts_.data, probe_samples(parts_)) : batches_.peek()).to(device_);
    const auto answer = net_.answer(batch.input, batch.target, false);
    StepResult result = about(batch);
    result.exhausted = false;
    if (answer) {
      const Task task = parts_.data->shape.task;
      result.loss = batch_loss(*answer, batch.target, task).item<double>();
      result.accuracy = double(batch_correct(*answer, batch.target, task).value_or(0)) /
                        double(predictions(batch.target, task));
    }
    flat_.params().copy_(own);
    if (!answer) return answer.error();
    return result;
  }

  Result<StepResult> take(const ResetOptimizer&) {
    optimizer_.reset();
    for (auto& [part, optimizer] : part_optimizers_) optimizer.reset();
    return StepResult{.shard_size = parts_.shard.size()};
  }

  Result<StepResult> take(const FullGradient& work) {
    LH_LET(shard, convex());
    StepResult result = about_shard();
    shard->gradient(work, result);
    return result;
  }

  Result<StepResult> take(const Infer&) {
    return invalid("a learner that trains a model has none to index items with");
  }

  // Computes in evaluation mode, in which running statistics are read and do not change.
  Result<StepResult> take(const FixedGradient& work) {
    flat_.upload_params();
    flat_.grads().zero_();
    const auto count = std::min<std::size_t>(work.samples, parts_.shard.size());
    const Batch batch = gather(*parts_.data, std::span(parts_.shard).first(count)).to(device_);
    LH_LET(answer, net_.answer(batch.input, batch.target, false));
    const at::Tensor loss =
        batch_loss(answer, batch.target, parts_.data->shape.task, class_weights_);
    loss.backward();
    flat_.download_grads();
    StepResult result = about(batch);
    result.loss = loss.item<double>();
    return result;
  }

  // Uses up the batch with its last part. Repeats parts after loading, like ForwardPart.
  Result<StepResult> take(const BackwardPart& work) {
    const auto layers = std::uint32_t(net_.layout()->layers().size());
    if (work.begins) {
      if (forward_done_.empty()) partial_.reset();
      parts_done_.clear();
    }
    const std::uint32_t expected = parts_done_.empty() ? work.end : parts_done_.back().first;
    if (work.first >= work.end || work.end > layers || work.end != expected ||
        work.begins != parts_done_.empty() ||
        (work.begins && !forward_done_.empty() && forward_end() != work.end))
      return invalid("parts of a backward pass that do not follow one another");
    if (!partial_ || work.begins) {
      LH_TRY(begin_backward());
      for (const PartRange& done : parts_done_) backward_part(done, {});
    }
    if (work.first > 0 && !std::ranges::count(partial_->entries, work.first))
      return invalid("a part of a backward pass that does not begin with a linear layer");
    StepResult result{.shard_size = parts_.shard.size()};
    if (work.begins) result = partial_->result;
    result.factors = backward_part({work.first, work.end}, work.layers);
    flat_.download_grads();
    parts_done_.push_back({work.first, work.end});
    if (work.first > 0) return result;
    batches_.next();
    partial_.reset();
    parts_done_.clear();
    forward_done_.clear();
    return result;
  }

  Result<StepResult> take(const OptimizerState& work) {
    if (work.whole) {
      if (!work.set.empty()) {
        LH_LET(bytes, unpack_bytes(work.set));
        Archive in(bytes);
        optimizer_.state(in);
        part_optimizers(in);
        LH_TRY(in.finish());
      }
      Archive out;
      optimizer_.state(out);
      part_optimizers(out);
      return StepResult{.shard_size = parts_.shard.size(), .outputs = pack_bytes(out.take())};
    }
    if (!part_optimizers_.empty())
      return invalid("the vectors of optimisers over parts of the model are not exchanged");
    if (!work.set.empty()) LH_TRY(optimizer_.set_vectors(work.set));
    LH_LET(vectors, optimizer_.vectors());
    return StepResult{.shard_size = parts_.shard.size(), .outputs = std::move(vectors)};
  }

  // Repeats the earlier parts after loading between two parts. Their parameters have not changed.
  Result<StepResult> take(const ForwardPart& work) {
    const auto parameters = std::uint32_t(std::ranges::count(
        net_.layout()->layers(), LayerRange::Role::parameter, &LayerRange::role));
    if (work.first == 0) {
      partial_.reset();
      parts_done_.clear();
      forward_done_.clear();
    }
    LH_LET(pass, partial_pass());
    const auto is_cut = [&](std::uint32_t entry) {
      return std::ranges::count(pass->entries, entry) > 0;
    };
    if (work.first != forward_end() || work.end <= work.first ||
        (work.end != parameters && !is_cut(work.end)) || !parts_done_.empty())
      return invalid("parts of a forward pass that do not follow one another");
    flat_.upload_params();
    pass->reached = net_.forward_part(work.first, work.end, pass->reached, pass->activations);
    forward_done_.push_back({work.first, work.end});
    return StepResult{.shard_size = parts_.shard.size()};
  }

  // Computes the gradient of the next batch at the current parameters into flat_.grads().
  // `activations`, if any, receives input and output of these linear layers, with the gradients of
  // the outputs.
  Result<StepResult> backward(std::span<const std::uint32_t> linears = {},
                              std::vector<LinearActivations>* activations = nullptr) {
    flat_.upload_params();
    flat_.grads().zero_();
    Random random(parts_.seed, {Purpose::batches, batches_.step(), parts_.origin, kDropout});
    const Batch batch = batches_.next().to(device_);
    LH_LET(answer, activations ? Answer{net_.forward(batch.input, linears, *activations), {}}
                               : net_.answer(batch.input, batch.target, true, random.bits64()));
    if (activations)
      for (LinearActivations& one : *activations) one.output.retain_grad();
    const at::Tensor loss =
        batch_loss(answer, batch.target, parts_.data->shape.task, class_weights_);
    loss.backward();
    StepResult result = about(batch);
    result.loss = loss.item<double>();
    return result;
  }

  // A pass in parts, between two of its parts.
  struct PartialPass {
    std::vector<std::uint32_t> entries;  // layout entries: the weight of each linear layer
    std::vector<LinearActivations> activations;
    Batch batch;
    // Forward: the output so far. Backward: the current position, at first the loss, and the
    // gradient there.
    at::Tensor reached, gradient;
    StepResult result;
  };
  struct PartRange {
    std::uint32_t first = 0, end = 0;
    void state(Archive& ar) { ar(first, end); }
    friend auto operator<=>(const PartRange&, const PartRange&) = default;
  };
  // Returns the current pass, or a new one that repeats the completed forward parts.
  Result<PartialPass*> partial_pass() {
    if (partial_) return &*partial_;
    LH_LET(entries, net_.cuts());
    partial_.emplace();
    partial_->entries = std::move(entries);
    partial_->batch = batches_.peek().to(device_);
    partial_->reached = partial_->batch.input;
    flat_.upload_params();
    for (const PartRange& part : forward_done_)
      partial_->reached =
          net_.forward_part(part.first, part.end, partial_->reached, partial_->activations);
    return &*partial_;
  }

  std::uint32_t forward_end() const { return forward_done_.empty() ? 0 : forward_done_.back().end; }
  // Computes the loss at the end of a forward pass; also that pass if no ForwardPart has done it.
  Status begin_backward() {
    LH_LET(found, partial_pass());
    PartialPass& pass = *found;
    flat_.grads().zero_();
    if (forward_done_.empty()) {
      std::vector<std::uint32_t> linears;
      for (const std::uint32_t entry : pass.entries) linears.push_back(*net_.linear_at(entry));
      pass.reached = net_.forward(pass.batch.input, linears, pass.activations);
    }
    pass.reached =
        batch_loss({pass.reached, {}}, pass.batch.target, parts_.data->shape.task, class_weights_);
    pass.result = about(pass.batch);
    pass.result.loss = pass.reached.item<double>();
    return Ok{};
  }

  // Returns the part's flat optimiser. Element by element its steps equal those of the whole.
  Result<FlatOptimizer*> optimizer_of(PartRange part) {
    if (const auto found = part_optimizers_.find(part); found != part_optimizers_.end())
      return &found->second;
    const auto& entries = net_.layout()->layers();
    if (part.first >= part.end || part.end > entries.size() ||
        entries[part.end - 1].role != LayerRange::Role::parameter)
      return invalid("a step of the optimiser over no part of the parameters");
    if (parts_.optimizer.kind == "muon")
      return invalid(
          "[optimizer] kind = \"muon\" takes no step over a part of the model; use adamw");
    if (parts_.optimizer.clip)
      return invalid(
          "[optimizer] clip needs the gradient of the whole model, and this strategy applies it "
          "part "
          "by part: leave clip out, or use bsp instead of p3");
    const auto from = std::int64_t(entries[part.first].range.offset);
    const auto length = std::int64_t(entries[part.end - 1].range.end()) - from;
    const auto made = part_optimizers_.try_emplace(part, parts_.optimizer, *net_.layout(),
                                                   flat_.params().narrow(0, from, length),
                                                   flat_.grads().narrow(0, from, length));
    return &made.first->second;
  }

  void part_optimizers(Archive& ar) {
    std::vector<PartRange> parts;
    for (const auto& [part, optimizer] : part_optimizers_) parts.push_back(part);
    ar(parts);
    if (ar.loading()) part_optimizers_.clear();
    for (const PartRange& part : parts) {
      auto optimizer = optimizer_of(part);
      if (!optimizer) return ar.fail(optimizer.error().what);
      (*optimizer)->state(ar);
    }
  }

  // Runs the backward pass from its current position to the input of the range's first layer.
  // Returns the factors of these layers.
  std::vector<float> backward_part(PartRange range, const std::vector<std::uint32_t>& layers) {
    PartialPass& pass = *partial_;
    const auto within = [&](std::uint32_t entry) {
      return entry >= range.first && entry < range.end;
    };
    std::vector<at::Tensor> wanted;
    for (std::uint32_t entry = range.first; entry < range.end; ++entry)
      wanted.push_back(net_.tensor(entry));
    for (std::size_t k = 0; k < pass.entries.size(); ++k)
      if (within(pass.entries[k])) wanted.push_back(pass.activations[k].output);
    const auto cut = std::ranges::find(pass.entries, range.first) - pass.entries.begin();
    const bool goes_on = range.first > 0;
    if (goes_on) wanted.push_back(pass.activations.at(std::size_t(cut)).input);
    std::vector<at::Tensor> from;
    if (pass.gradient.defined()) from.push_back(pass.gradient);
    const auto found = torch::autograd::grad({pass.reached}, wanted, from, /*retain_graph=*/goes_on,
                                             /*create_graph=*/false, /*allow_unused=*/true);
    std::size_t next = 0;
    for (std::uint32_t entry = range.first; entry < range.end; ++entry, ++next)
      if (found[next].defined()) {
        const Range& values = net_.layout()->layers()[entry].range;
        flat_.grads()
            .narrow(0, std::int64_t(values.offset), std::int64_t(values.length))
            .copy_(found[next].reshape({-1}));
      }
    std::vector<float> factors;
    for (std::size_t k = 0; k < pass.entries.size(); ++k) {
      if (!within(pass.entries[k])) continue;
      const at::Tensor u = found[next++];
      if (!std::ranges::count(layers, pass.entries[k])) continue;
      append_values(factors, u);
      append_values(factors, pass.activations[k].input.detach());
    }
    if (goes_on) {
      pass.gradient = found.back();
      pass.reached = pass.activations.at(std::size_t(cut)).input;
    }
    return factors;
  }

  StepResult about(const Batch& batch) const {
    return {.samples = std::uint64_t(batch.input.size(0)),
            .shard_size = parts_.shard.size(),
            .exhausted = batch.last};
  }

  StepResult about_shard() const {
    return {.samples = parts_.shard.size(), .shard_size = parts_.shard.size(), .exhausted = true};
  }

  // Returns the whole shard as a convex function, made at the first call.
  Result<ConvexShard*> convex() {
    if (convex_) return convex_.get();
    const std::string& kind = parts_.model.kind;
    if (kind != "linear" && kind != "logistic")
      return invalid("[model] kind = \"" + kind +
                     "\" cannot be solved locally: use \"linear\" or \"logistic\"");
    if (!parts_.class_weights.empty())
      return invalid(
          "[data] class_weights: a local solve counts all samples alike; leave them out");
    const Layout& layout = *net_.layout();
    if (layout.size() > kMaxSolve)
      return invalid("a model of " + std::to_string(layout.size()) +
                     " parameters is too large to be solved locally: at most " +
                     std::to_string(kMaxSolve));
    const Batch shard = gather(*parts_.data, parts_.shard);
    convex_ = std::make_unique<ConvexShard>(shard, parts_.data->shape.task,
                                            layout.layers().front().shape.front(), layout.size());
    return convex_.get();
  }

  void apply() {
    optimizer_.step();
    flat_.download_params();
  }

  // Publishes a copy of the kept values.
  void publish() {
    const auto rest = flat_.host_params().subspan(layout_->size());
    const std::lock_guard lock(kept_mutex_);
    kept_.assign(rest.begin(), rest.end());
  }

  LearnerParts parts_;
  at::Device device_;
  Net net_;
  FlatVectors flat_;                      // in the net's layout
  std::shared_ptr<const Layout> layout_;  // the first, exchanged part of it
  mutable std::mutex kept_mutex_;
  std::vector<float> kept_;  // copy of the other values
  FlatOptimizer optimizer_;
  at::Tensor class_weights_;  // undefined: equal weights
  BatchLoader batches_;
  std::optional<PartialPass> partial_;  // not saved: follows from the batch and its completed parts
  std::vector<PartRange> forward_done_, parts_done_;  // completed parts of the current batch
  std::map<PartRange, FlatOptimizer> part_optimizers_;
  std::unique_ptr<ConvexShard> convex_;  // linear and logistic only; not saved: follows from parts_
};

}  // namespace longhaul::learn
