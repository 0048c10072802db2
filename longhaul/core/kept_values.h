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
inline const KeepsValues* keeper(const Learner* learner) {
  return dynamic_cast<const KeepsValues*>(learner);
}

// `model`, a vector of the layout, as it is scored and written at this learner's node: with what
// the learner keeps behind it. An empty vector, of a phantom, stays empty.
inline std::vector<float> whole_model(const Learner* learner, std::span<const float> model) {
  std::vector<float> whole(model.begin(), model.end());
  if (const KeepsValues* keeps = keeper(learner); keeps && !whole.empty()) {
    const std::vector<float> kept = keeps->kept_values();
    whole.insert(whole.end(), kept.begin(), kept.end());
  }
  return whole;
}

}  // namespace longhaul
