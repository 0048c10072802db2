#include "longhaul/sync/local_update.h"

#include "longhaul/sync/flat.h"

namespace longhaul::sync {

void LocalUpdate::anchor(Turn& turn) {
  const auto x = parameters(turn);
  anchor_.assign(x.begin(), x.end());
}

std::vector<float> LocalUpdate::update(Turn& turn) const {
  const auto x = parameters(turn);
  LH_CHECK(x.size() == anchor_.size());
  std::vector<float> u(x.size());
  for (std::size_t i = 0; i < u.size(); ++i) u[i] = x[i] - anchor_[i];
  return u;
}

void LocalUpdate::apply(std::span<float> ubar, Transform& outer, Turn& turn) {
  apply(ubar, outer, parameters(turn));
}

void LocalUpdate::apply(std::span<float> ubar, Transform& outer, std::span<float> x) {
  outer.apply(ubar);
  LH_CHECK(ubar.size() == x.size() && x.size() == anchor_.size());
  for (std::size_t i = 0; i < ubar.size(); ++i) x[i] = anchor_[i] = anchor_[i] + ubar[i];
}

}  // namespace longhaul::sync
