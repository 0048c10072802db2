#pragma once
// nesterov: Nesterov momentum on the mean update, as DiLoCo's outer optimiser (Douillard et al.,
// 2023; code of OpenDiLoCo: torch.optim.SGD with nesterov).
//
//   buf <- momentum buf + u      u <- rate (u + momentum buf)
#include "longhaul/outer/momentum.h"

namespace longhaul::outer {

struct NesterovConfig : MomentumConfig {
  NesterovConfig() : MomentumConfig{.rate = 0.7, .momentum = 0.9} {}
};

class Nesterov final : public Momentum {
 public:
  explicit Nesterov(const MomentumConfig& config) : Momentum(config, true) {}
};

}  // namespace longhaul::outer
