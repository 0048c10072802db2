#include "longhaul/outer/momentum.h"

#include "longhaul/outer/number.h"

namespace longhaul::outer {

void Momentum::apply(std::span<float> update) {
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

}  // namespace longhaul::outer
