#pragma once
// Internal to learn/ (includes torch): a model as its learner sees it, a TorchScript module whose
// parameters and buffers can be views into flat vectors.
#include <ATen/ATen.h>

#include <memory>
#include <optional>
#include <span>

#include "longhaul/base/result.h"
#include "longhaul/core/layout.h"
#include "longhaul/learn/loss.h"
#include "longhaul/learn/models/registry.h"

namespace torch::jit {
struct Module;
}

namespace longhaul::learn {

struct ScriptGraph;

// Where [model] device = "auto" | "cpu" | "cuda" puts the learner of `rank`; with several GPUs they
// go around. An Error if CUDA is asked for and there is none.
Result<at::Device> choose_device(const ModelConfig&, std::uint32_t rank);

// Input and output of one linear layer in a forward pass, for its sufficient factors.
struct LinearActivations {
  at::Tensor input, output;
};

class Net {
 public:
  // A registered model. Its values mean nothing until bind() or assign().
  static Net from_spec(ModelSpec, at::Device = at::kCPU);
  // A TorchScript file, with its values: torch.jit.script(model).save(path). Its float32 parameters
  // that require a gradient and that forward() reads are the layout's parameters. All others, and
  // its float32 buffers, are the layout's buffers where forward() may write to them, else its
  // constants. Integer tensors (counters) stay outside, on each node by itself. An Error names the
  // file and what is wrong with it.
  static Result<Net> from_file(const std::string& path, at::Device = at::kCPU);
  // Either, as [model] kind says.
  static Result<Net> make(const ModelConfig&, const DataShape&, at::Device = at::kCPU);

  const std::shared_ptr<const Layout>& layout() const { return layout_; }
  // A file's code and the constants in it; 0 for other models.
  std::uint64_t code_digest() const { return code_digest_; }
  // All values into `flat`, in layout order.
  void copy_to(std::span<float> flat) const;
  // All values from `flat`; every tensor keeps memory of its own.
  void assign(std::span<const float> flat);
  // Makes every tensor of the layout a view into `params`, whose values it takes, and the gradient
  // of every parameter a view into `grads`. Undefined grads: a model to score, without gradients.
  void bind(const at::Tensor& params, const at::Tensor& grads);

  // Is the model given the target, and answers its loss?
  bool own_loss() const { return own_loss_; }
  // The spec of a registered model; null for a file.
  const ModelSpec* spec() const { return spec_ ? &*spec_ : nullptr; }

  // Throws what torch throws. In training mode running statistics move, and a model that draws
  // random numbers (dropout) draws them from `seed` alone, whichever thread runs it.
  at::Tensor forward(const at::Tensor& input, bool train, std::uint64_t seed = 0);
  // The same of any model: [model] output picks the output out of the answer, and a script whose
  // forward() takes two arguments is given the target and answers its own loss. An Error names the
  // file and what it answers instead.
  Result<Answer> answer(const at::Tensor& input, const at::Tensor& target, bool train,
                        std::uint64_t seed = 0);
  // The same in training mode, with input and output of each of the linear layers, which are
  // numbers from linear_at().
  at::Tensor forward(const at::Tensor& input, std::span<const std::uint32_t> linears,
                     std::vector<LinearActivations>&);
  // A part of the same, in a model that has cuts(): from entry `first`, which is 0 or a cut, to
  // before entry `end`, a cut or that behind the last parameter. Its input is the part's before it;
  // its linear layers are added to the activations.
  at::Tensor forward_part(std::uint32_t first, std::uint32_t end, const at::Tensor& input,
                          std::vector<LinearActivations>&);
  // For the layout's entry `layer`; an Error if that is no linear layer's weight.
  Result<std::uint32_t> linear_at(std::uint32_t layer) const;

  // The weights of all linear layers that a backward pass may stop at, ascending; an Error if the
  // model is not a chain of registered layers, or has running statistics.
  Result<std::vector<std::uint32_t>> cuts() const;
  const at::Tensor& tensor(std::size_t layer) const { return tensors_.at(layer).front(); }

  // The bytes of a TorchScript file, in evaluation mode; not after bind().
  Result<std::string> file();

 private:
  explicit Net(const torch::jit::Module&);
  // Finds the layout and tensors_ in the module.
  Status collect(const std::string& file, const ScriptGraph*);
  c10::IValue run(std::vector<c10::IValue> inputs, bool train, std::uint64_t seed);
  void set_training(bool train);
  at::Tensor view(const at::Tensor& flat, std::size_t layer) const;

  std::shared_ptr<torch::jit::Module> module_;
  std::shared_ptr<const Layout> layout_;
  std::vector<std::vector<at::Tensor>> tensors_;  // a layout entry each; several: tied weights
  std::optional<ModelSpec> spec_;                 // of a registered model
  std::optional<bool> training_;
  std::string file_, output_;  // of a file: its path, and [model] output
  bool own_loss_ = false;      // forward() takes the target, too
  std::uint64_t code_digest_ = 0;
  bool random_ = false;
  bool records_activations_ = false;
};

}  // namespace longhaul::learn
