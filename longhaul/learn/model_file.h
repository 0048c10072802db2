#pragma once
// model.pt: a TorchScript module. Without torch's headers.
//   Python: model = torch.jit.load("model.pt"); logits = model(images)
//   C++:    torch::jit::load("model.pt")
#include <span>
#include <string>
#include <vector>

#include "longhaul/core/layout.h"
#include "longhaul/learn/data/dataset.h"
#include "longhaul/learn/models/registry.h"

namespace longhaul::learn {

// `model` (a flat vector of it as a whole) as a module in evaluation mode: the bytes of a file.
// They are made in memory: on a full disk libtorch's own writing ends the process.
Result<std::string> model_file(const ModelConfig&, const DataShape&, std::span<const float> model);

// The flat vector of such a file; an Error if it does not hold this layout.
Result<std::vector<float>> load_model(const std::string& path, const Layout&);

// What a model answers: samples x DataShape::outputs, in the order of the samples: logits of
// classes or labels, or numbers. A model of two classes that answers one logit has 0 for the first.
// In evaluation mode, on the CPU. Errors name the model's file.
Result<std::vector<float>> outputs_of(const ModelConfig&, const DataSet&);

}  // namespace longhaul::learn
