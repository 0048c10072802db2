#pragma once
// Matrices as products of thin ones, for PowerSGD (Vogels, Karimireddy, Jaggi, "PowerSGD: practical
// low-rank gradient compression for distributed optimization", NeurIPS 2019, algorithm 1):
//
//   P = M Q;  P <- orthonormal columns of P;  Q = M^T P;  M ~ P Q^T
//
// P and Q are linear in M: means of them over workers are those of the mean of M, so that whoever
// sums may sum on the way.
#include <functional>
#include <span>
#include <vector>

#include "longhaul/core/layout.h"

namespace longhaul::sync::power {

// Where the factors of a layout's matrices stand in two flat vectors. A parameter tensor of two or
// more dimensions is a matrix with as many rows as its first; it is factored if that is smaller.
// What is not factored (biases, norms, small matrices) stands as it is behind the Ps.
class LowRank {
 public:
  LowRank(const Layout&, std::uint32_t rank);

  std::size_t left_size() const { return left_size_; }    // of the Ps and what is not factored
  std::size_t right_size() const { return right_size_; }  // of the Qs

  // Ps of `delta` (as long as the parameters) by the Qs, and what is not factored.
  std::vector<float> left(std::span<const float> delta, std::span<const float> q) const;
  // Qs of `delta` by Ps with orthonormal columns.
  std::vector<float> right(std::span<const float> delta, std::span<const float> p) const;
  // Gives each P orthonormal columns (Gram-Schmidt). A column that depends on those before it
  // becomes 0.
  void orthonormalise(std::span<float> p) const;
  // P Q^T of each, and what is not factored: as long as the parameters.
  std::vector<float> product(std::span<const float> p, std::span<const float> q) const;
  // Sets what is not factored to 0.
  void clear_rest(std::span<float> delta) const;
  // Fills the columns of the Qs that are 0 with what `draw` says: at the start all, later those
  // whose P came to nothing, which would stay 0 for ever.
  void fill_empty(std::span<float> q, const std::function<double()>& draw) const;

 private:
  struct Matrix {
    std::size_t at, rows, columns;  // in the parameters, row by row
    std::size_t p, q;               // P is rows x rank, Q columns x rank, row by row
  };
  struct Plain {
    std::size_t at, length, p;
  };

  const std::size_t rank_;
  std::size_t parameters_ = 0, left_size_ = 0, right_size_ = 0;
  std::vector<Matrix> matrices_;
  std::vector<Plain> plain_;
};

}  // namespace longhaul::sync::power
