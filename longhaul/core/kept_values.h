#pragma once
// Values of a model that stay with its learner: they are in no exchange, and Learner::layout() does
// not have them. With [model] bn = "local" that is a node's running statistics.
#include <span>
#include <vector>

#include "longhaul/core/learner.h"

namespace longhaul {

// Learners that keep values derive from this, too.
class KeepsValues {
 public:
  virtual ~KeepsValues() = default;
  // Those after the last step that has ended; any thread, also while one runs. They follow the
  // values of the layout in the model as a whole.
  virtual std::vector<float> kept_values() const = 0;
};

// Null: the learner keeps none, or there is no learner.
const KeepsValues* keeper(const Learner*);
// `model`, a vector of the layout, as it is scored and written at this learner's node: with what
// the learner keeps behind it. An empty vector, of a phantom, stays empty.
std::vector<float> whole_model(const Learner*, std::span<const float> model);

}  // namespace longhaul
