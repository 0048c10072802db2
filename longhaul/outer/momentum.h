#pragma once
// momentum: heavy-ball momentum on the mean update (Polyak 1964; on federated means: Hsu, Qi and
// Brown, "Measuring the effects of non-identical data distribution", 2019).
//
//   buf <- momentum buf + u      u <- rate buf
#include <vector>

#include "longhaul/base/fields.h"
#include "longhaul/core/transform.h"
#include "longhaul/outer/number.h"

namespace longhaul::outer {

struct MomentumConfig {
  double rate = 1.0;
  double momentum = 0.9;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(rate, .doc = "factor of the step", .max = 1000, .positive = true);
    LONGHAUL_FIELD(momentum, .doc = "share of the buffer that is kept", .min = 0, .max = 0.9999);
  }
};

class Momentum : public Transform {
 public:
  explicit Momentum(const MomentumConfig& config) : Momentum(config, false) {}
  // always of the same length
  void apply(std::span<float> update) override {
    if (buffer_.empty()) buffer_.resize(update.size());
    LH_CHECK(buffer_.size() == update.size());
    const double rate = config_.rate, momentum = config_.momentum;
    for (std::size_t i = 0; i < update.size(); ++i) {
      const double buffer = momentum * buffer_[i] + update[i];
      const double step = ahead_ ? update[i] + momentum * buffer : buffer;
      buffer_[i] = to_float(buffer);
      update[i] = to_float(rate * step);
    }
  }

  void state(Archive& ar) override { ar(buffer_); }
  bool fits(std::size_t length) const override {
    return buffer_.empty() || buffer_.size() == length;
  }

 protected:
  // `ahead`: the step is taken with the buffer as it will be if u comes again.
  Momentum(const MomentumConfig& config, bool ahead) : config_(config), ahead_(ahead) {}

 private:
  const MomentumConfig config_;
  const bool ahead_;
  std::vector<float> buffer_;  // as long as the update; empty before the first
};

// nesterov: Nesterov momentum on the mean update, as DiLoCo's outer optimiser (Douillard et al.,
// 2023; code of OpenDiLoCo: torch.optim.SGD with nesterov).
//
//   buf <- momentum buf + u      u <- rate (u + momentum buf)
struct NesterovConfig : MomentumConfig {
  NesterovConfig() : MomentumConfig{.rate = 0.7, .momentum = 0.9} {}
};

class Nesterov final : public Momentum {
 public:
  explicit Nesterov(const MomentumConfig& config) : Momentum(config, true) {}
};

}  // namespace longhaul::outer
