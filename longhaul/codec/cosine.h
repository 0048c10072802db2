#pragma once
// The orthonormal cosine transform of short chunks: DCT-II and its inverse, by their matrix. Sums
// are in double, in order, and rounded once.
#include <cstdint>
#include <span>
#include <vector>

namespace longhaul::codec {

class CosineTransform {
 public:
  explicit CosineTransform(std::size_t length);

  std::size_t length() const { return length_; }
  // out[k] = w_k sum_i in[i] cos(pi (2 i + 1) k / (2 n)), w_0 = sqrt(1/n), w_k = sqrt(2/n)
  void forward(std::span<const float> in, std::span<float> out) const;
  void inverse(std::span<const float> in, std::span<float> out) const;

 private:
  std::size_t length_;
  std::vector<double> matrix_;  // row k: the coefficients of out[k]
};

}  // namespace longhaul::codec
