#pragma once
// GlobalModel is what all trainers of a collective kind hold alike, bit for bit: the last agreed
// mean m and, with BMUF, the filtered model w_glob and its momentum v.
//   Chen, Huo, "Scalable training of deep learning machines by incremental block training with
//   intra-block parallel optimization and blockwise model-update filtering", ICASSP 2016 (BMUF);
//   model averaging (MA) has no filter.
//
// A trainer gives y - m to the mean instead of y. m is equal everywhere, so the mean of the
// differences moves it to the mean of y, and a codec has small numbers to write.
#include <optional>
#include <span>
#include <vector>

#include "longhaul/base/archive.h"

namespace longhaul::sync::shadow {

struct Filter {
  std::optional<double> mu;  // absent: 1 - 1/n of the n trainers in the mean
  double zeta = 1;
  bool nesterov = false;
};

class GlobalModel {
 public:
  // `filter`: absent for MA.
  explicit GlobalModel(std::optional<Filter> filter) : filter_(filter) {}

  // m = w_glob = w0, v = 0
  void begin(std::span<const float> w0);
  // y - m
  std::vector<float> difference(std::span<const float> y) const;
  // m <- m + zbar, zbar being the mean of the differences of n trainers; and with a filter
  //   d <- m - w_glob; v <- mu v + zeta d; w_glob <- w_glob + v
  void take(std::span<const float> zbar, std::size_t n);
  // What trainers write back: m, or w_glob, or with nesterov w_glob + mu v.
  std::span<const float> target() const;
  // What is scored and what a run ends with: m, or w_glob.
  std::span<const float> model() const { return filter_ ? w_glob_ : m_; }
  bool fits(std::size_t parameters) const;
  void state(Archive& ar) { ar(m_, w_glob_, v_, ahead_); }

 private:
  const std::optional<Filter> filter_;
  std::vector<float> m_, w_glob_, v_;  // a phantom's are empty
  std::vector<float> ahead_;           // w_glob + mu v
};

}  // namespace longhaul::sync::shadow
