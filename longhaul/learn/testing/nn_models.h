#pragma once
// The registered models once more, with torch::nn and its layers: what the TorchScript texts are
// compared with. Includes torch.
#include <torch/nn.h>

#include "longhaul/learn/models/registry.h"

namespace longhaul::learn::testing {

// A torch::nn module of that kind for these data; its state_dict has the names of the layout. Its
// forward is called through `run`.
struct NnModel {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> run;

  // Sets parameters and buffers by name from a flat vector of the layout.
  void assign(const Layout&, std::span<const float> flat);
  // The same the other way round.
  std::vector<float> flat(const Layout&) const;
};

NnModel make_nn_model(const ModelConfig&, const DataShape&);

}  // namespace longhaul::learn::testing
