#pragma once
// nesterov: Nesterov momentum on the mean update, as DiLoCo's outer optimiser (Douillard et al.,
// 2023; code of OpenDiLoCo: torch.optim.SGD with nesterov).
//
//   buf <- momentum buf + u      u <- rate (u + momentum buf)
#include <vector>

#include "longhaul/base/fields.h"
#include "longhaul/core/transform.h"

namespace longhaul::outer {

struct NesterovConfig {
  double rate = 0.7;
  double momentum = 0.9;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "rate", .doc = "factor of the step", .max = 1000, .positive = true},
          self.rate);
    visit(
        Field{
            .name = "momentum", .doc = "share of the buffer that is kept", .min = 0, .max = 0.9999},
        self.momentum);
  }
};

class Nesterov final : public Transform {
 public:
  explicit Nesterov(const NesterovConfig& config) : config_(config) {}
  void apply(std::span<float> update) override;  // always of the same length
  void state(Archive& ar) override { ar(buffer_); }

 private:
  NesterovConfig config_;
  std::vector<float> buffer_;  // as long as the update; empty before the first
};

}  // namespace longhaul::outer
