#pragma once
// GlobalModel is the common model of all trainers with a collective algorithm, bit-identical on
// each. It has the last agreed mean m. With BMUF it also has the filtered model w_glob and its
// momentum v.
//   Chen, Huo, "Scalable training of deep learning machines by incremental block training with
//   intra-block parallel optimization and blockwise model-update filtering", ICASSP 2016 (BMUF);
//   model averaging (MA) has no filter.
//
// A trainer contributes y - m to the mean instead of y. m is equal everywhere, so the mean of the
// differences moves it to the mean of y. A codec then has small numbers to write.
#include <optional>
#include <span>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/base/check.h"

namespace longhaul::sync::shadow {

struct Filter {
  std::optional<double> mu;  // null: 1 - 1/n for n trainers in the mean
  double zeta = 1;
  bool nesterov = false;
};

class GlobalModel {
 public:
  // `filter`: null for MA.
  explicit GlobalModel(std::optional<Filter> filter) : filter_(filter) {}

  // Sets m = w_glob = w0, v = 0.
  void begin(std::span<const float> w0) {
    m_.assign(w0.begin(), w0.end());
    if (!filter_) return;
    w_glob_ = m_;
    v_.assign(m_.size(), 0);
    if (filter_->nesterov) ahead_ = m_;
  }

  // Returns y - m.
  std::vector<float> difference(std::span<const float> y) const {
    LH_CHECK(y.size() == m_.size());
    std::vector<float> z(y.size());
    for (std::size_t i = 0; i < z.size(); ++i) z[i] = y[i] - m_[i];
    return z;
  }

  // Sets m <- m + zbar, where zbar is the mean of the differences of n trainers. With a filter
  // also:
  //   d <- m - w_glob; v <- mu v + zeta d; w_glob <- w_glob + v
  void take(std::span<const float> zbar, std::size_t n) {
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

  // Returns the values that trainers write back: m, w_glob, or with nesterov w_glob + mu v.
  std::span<const float> target() const { return filter_ && filter_->nesterov ? ahead_ : model(); }

  // Returns the model that is scored and that a run ends with: m, or w_glob.
  std::span<const float> model() const { return filter_ ? w_glob_ : m_; }
  bool fits(std::size_t parameters) const {
    const std::size_t filtered = filter_ ? parameters : 0;
    return m_.size() == parameters && w_glob_.size() == filtered && v_.size() == filtered &&
           ahead_.size() == (filter_ && filter_->nesterov ? parameters : 0);
  }

  void state(Archive& ar) { ar(m_, w_glob_, v_, ahead_); }

 private:
  const std::optional<Filter> filter_;
  std::vector<float> m_, w_glob_, v_;  // empty in a phantom job
  std::vector<float> ahead_;           // w_glob + mu v
};

}  // namespace longhaul::sync::shadow
