#include "longhaul/core/kept_values.h"

namespace longhaul {

const KeepsValues* keeper(const Learner* learner) {
  return dynamic_cast<const KeepsValues*>(learner);
}

std::vector<float> whole_model(const Learner* learner, std::span<const float> model) {
  std::vector<float> whole(model.begin(), model.end());
  if (const KeepsValues* keeps = keeper(learner); keeps && !whole.empty()) {
    const std::vector<float> kept = keeps->kept_values();
    whole.insert(whole.end(), kept.begin(), kept.end());
  }
  return whole;
}

}  // namespace longhaul
