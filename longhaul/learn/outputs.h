#pragma once
// What a model answers. Without torch's headers.
#include <vector>

#include "longhaul/learn/data/dataset.h"
#include "longhaul/learn/models/config.h"

namespace longhaul::learn {

// samples x DataShape::outputs, in the order of the samples: logits of classes or labels, or
// numbers. A model of two classes that answers one logit has 0 for the first. In evaluation mode,
// on the CPU. Errors name the model's file.
Result<std::vector<float>> outputs_of(const ModelConfig&, const DataSet&);

}  // namespace longhaul::learn
