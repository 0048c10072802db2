#pragma once
// The orthonormal cosine transform of short chunks: DCT-II and its inverse, by their matrix. Sums
// are in double, in order, and rounded once.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numbers>
#include <span>
#include <vector>

#include "longhaul/base/check.h"

namespace longhaul::codec {

class CosineTransform {
  // A chunk of the largest floats has a coefficient beyond them.
  static float rounded(double value) {
    return float(std::clamp(value, -double(FLT_MAX), double(FLT_MAX)));
  }

 public:
  explicit CosineTransform(std::size_t length) : length_(length), matrix_(length * length) {
    LH_CHECK(length > 0);
    const double n = double(length);
    for (std::size_t k = 0; k < length; ++k)
      for (std::size_t i = 0; i < length; ++i)
        matrix_[k * length + i] =
            std::sqrt((k == 0 ? 1 : 2) / n) *
            std::cos(std::numbers::pi * double((2 * i + 1) * k % (4 * length)) / (2 * n));
  }

  std::size_t length() const { return length_; }
  // out[k] = w_k sum_i in[i] cos(pi (2 i + 1) k / (2 n)), w_0 = sqrt(1/n), w_k = sqrt(2/n)
  void forward(std::span<const float> in, std::span<float> out) const {
    LH_CHECK(in.size() == length_ && out.size() == length_);
    for (std::size_t k = 0; k < length_; ++k) {
      double sum = 0;
      for (std::size_t i = 0; i < length_; ++i) sum += matrix_[k * length_ + i] * double(in[i]);
      out[k] = rounded(sum);
    }
  }

  // The matrix is orthogonal: its transpose. By columns, leaving out the coefficients that are 0.
  void inverse(std::span<const float> in, std::span<float> out) const {
    LH_CHECK(in.size() == length_ && out.size() == length_);
    std::vector<double> sums(length_);
    for (std::size_t k = 0; k < length_; ++k) {
      if (in[k] == 0) continue;
      for (std::size_t i = 0; i < length_; ++i) sums[i] += matrix_[k * length_ + i] * double(in[k]);
    }
    for (std::size_t i = 0; i < length_; ++i) out[i] = rounded(sums[i]);
  }

 private:
  std::size_t length_;
  std::vector<double> matrix_;  // row k: the coefficients of out[k]
};

}  // namespace longhaul::codec
