#include "longhaul/sync/shadow/global_model.h"

#include "longhaul/base/check.h"

namespace longhaul::sync::shadow {

void GlobalModel::begin(std::span<const float> w0) {
  m_.assign(w0.begin(), w0.end());
  if (!filter_) return;
  w_glob_ = m_;
  v_.assign(m_.size(), 0);
  if (filter_->nesterov) ahead_ = m_;
}

std::vector<float> GlobalModel::difference(std::span<const float> y) const {
  LH_CHECK(y.size() == m_.size());
  std::vector<float> z(y.size());
  for (std::size_t i = 0; i < z.size(); ++i) z[i] = y[i] - m_[i];
  return z;
}

void GlobalModel::take(std::span<const float> zbar, std::size_t n) {
  LH_CHECK(zbar.size() == m_.size() && n > 0);
  for (std::size_t i = 0; i < m_.size(); ++i) m_[i] = m_[i] + zbar[i];
  if (!filter_) return;
  const double mu = filter_->mu.value_or(1 - 1 / double(n));
  for (std::size_t i = 0; i < m_.size(); ++i) {
    const double d = double(m_[i]) - double(w_glob_[i]);
    v_[i] = float(mu * double(v_[i]) + filter_->zeta * d);
    w_glob_[i] = float(double(w_glob_[i]) + double(v_[i]));
    if (filter_->nesterov) ahead_[i] = float(double(w_glob_[i]) + mu * double(v_[i]));
  }
}

std::span<const float> GlobalModel::target() const {
  return filter_ && filter_->nesterov ? ahead_ : model();
}

bool GlobalModel::fits(std::size_t parameters) const {
  const std::size_t filtered = filter_ ? parameters : 0;
  return m_.size() == parameters && w_glob_.size() == filtered && v_.size() == filtered &&
         ahead_.size() == (filter_ && filter_->nesterov ? parameters : 0);
}

}  // namespace longhaul::sync::shadow
