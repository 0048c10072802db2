#pragma once
// Low-rank products of matrices, for PowerSGD (Vogels, Karimireddy, Jaggi, "PowerSGD: practical
// low-rank gradient compression for distributed optimization", NeurIPS 2019, algorithm 1):
//
//   P = M Q;  P <- orthonormal columns of P;  Q = M^T P;  M ~ P Q^T
//
// P and Q are linear in M. Their means over workers are those of the mean of M, so an overlay can
// sum them at each hop.
#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/core/layout.h"

namespace longhaul::sync::power {

// The positions of the factors of a layout's matrices in two flat vectors. A parameter tensor of
// two or more dimensions is a matrix with as many rows as its first dimension. It is factored if
// the factors are smaller. Other values (biases, norms, small matrices) follow the Ps unchanged.
class LowRank {
 public:
  LowRank(const Layout& layout, std::uint32_t rank) : rank_(rank) {
    LH_CHECK(rank > 0);
    for (const LayerRange& layer : layout.layers()) {
      if (layer.role != LayerRange::Role::parameter) continue;
      const std::size_t length = layer.range.length, at = layer.range.offset;
      parameters_ = at + length;
      const std::size_t rows = layer.shape.size() >= 2 ? std::size_t(layer.shape.front()) : 0;
      const std::size_t columns = rows > 0 ? length / rows : 0;
      if (rows > 0 && rank_ * (rows + columns) < length) {
        matrices_.push_back({at, rows, columns, left_size_, right_size_});
        left_size_ += rank_ * rows;
        right_size_ += rank_ * columns;
      } else {
        plain_.push_back({at, length, 0});
      }
    }
    for (Plain& plain : plain_) {
      plain.p = left_size_;
      left_size_ += plain.length;
    }
  }

  std::size_t left_size() const { return left_size_; }  // size of the Ps and the unfactored values
  std::size_t right_size() const { return right_size_; }  // size of the Qs

  // Returns the Ps of `delta` (one value per parameter) by the Qs, and the unfactored values.
  std::vector<float> left(std::span<const float> delta, std::span<const float> q) const {
    LH_CHECK(delta.size() == parameters_ && q.size() == right_size_);
    std::vector<float> p(left_size_);
    std::vector<double> sums(rank_);
    for (const Matrix& m : matrices_)
      for (std::size_t i = 0; i < m.rows; ++i) {
        std::ranges::fill(sums, 0.0);
        for (std::size_t j = 0; j < m.columns; ++j) {
          const double value = delta[m.at + i * m.columns + j];
          for (std::size_t k = 0; k < rank_; ++k) sums[k] += value * double(q[m.q + j * rank_ + k]);
        }
        for (std::size_t k = 0; k < rank_; ++k) p[m.p + i * rank_ + k] = float(sums[k]);
      }
    for (const Plain& plain : plain_)
      std::copy_n(delta.begin() + std::ptrdiff_t(plain.at), plain.length,
                  p.begin() + std::ptrdiff_t(plain.p));
    return p;
  }

  // Returns the Qs of `delta` by Ps with orthonormal columns.
  std::vector<float> right(std::span<const float> delta, std::span<const float> p) const {
    LH_CHECK(delta.size() == parameters_ && p.size() == left_size_);
    std::vector<float> q(right_size_);
    std::vector<double> sums;
    for (const Matrix& m : matrices_) {
      sums.assign(m.columns * rank_, 0.0);
      for (std::size_t i = 0; i < m.rows; ++i)
        for (std::size_t j = 0; j < m.columns; ++j) {
          const double value = delta[m.at + i * m.columns + j];
          for (std::size_t k = 0; k < rank_; ++k)
            sums[j * rank_ + k] += value * double(p[m.p + i * rank_ + k]);
        }
      std::ranges::transform(sums, q.begin() + std::ptrdiff_t(m.q),
                             [](double s) { return float(s); });
    }
    return q;
  }

  // Gives each P orthonormal columns (Gram-Schmidt). A column that depends on earlier ones becomes
  // 0.
  void orthonormalise(std::span<float> p) const {
    constexpr double kNothing = 1e-6;  // rounding error of a dependent column
    LH_CHECK(p.size() == left_size_);
    for (const Matrix& m : matrices_) {
      std::vector<double> columns(m.rows * rank_);
      for (std::size_t i = 0; i < columns.size(); ++i) columns[i] = p[m.p + i];
      const auto dot = [&](std::size_t a, std::size_t b) {
        double sum = 0;
        for (std::size_t i = 0; i < m.rows; ++i)
          sum += columns[i * rank_ + a] * columns[i * rank_ + b];
        return sum;
      };
      for (std::size_t k = 0; k < rank_; ++k) {
        const double before = std::sqrt(dot(k, k));
        for (std::size_t earlier = 0; earlier < k; ++earlier) {
          const double share = dot(k, earlier);
          for (std::size_t i = 0; i < m.rows; ++i)
            columns[i * rank_ + k] -= share * columns[i * rank_ + earlier];
        }
        const double left = std::sqrt(dot(k, k));
        const double scale = left > kNothing * before ? 1 / left : 0;
        for (std::size_t i = 0; i < m.rows; ++i) columns[i * rank_ + k] *= scale;
      }
      for (std::size_t i = 0; i < columns.size(); ++i) p[m.p + i] = float(columns[i]);
    }
  }

  // Returns P Q^T of each matrix and the unfactored values: one value per parameter.
  std::vector<float> product(std::span<const float> p, std::span<const float> q) const {
    LH_CHECK(p.size() == left_size_ && q.size() == right_size_);
    std::vector<float> delta(parameters_);
    for (const Matrix& m : matrices_)
      for (std::size_t i = 0; i < m.rows; ++i)
        for (std::size_t j = 0; j < m.columns; ++j) {
          double sum = 0;
          for (std::size_t k = 0; k < rank_; ++k)
            sum += double(p[m.p + i * rank_ + k]) * double(q[m.q + j * rank_ + k]);
          delta[m.at + i * m.columns + j] = float(sum);
        }
    for (const Plain& plain : plain_)
      std::copy_n(p.begin() + std::ptrdiff_t(plain.p), plain.length,
                  delta.begin() + std::ptrdiff_t(plain.at));
    return delta;
  }

  // Sets the unfactored values to 0.
  void clear_rest(std::span<float> delta) const {
    LH_CHECK(delta.size() == parameters_);
    for (const Plain& plain : plain_)
      std::fill_n(delta.begin() + std::ptrdiff_t(plain.at), plain.length, 0.f);
  }

  // Fills the columns of the Qs that are 0 with values of `draw`. At the start these are all
  // columns. Later, a column whose P is 0 would otherwise stay 0 forever.
  void fill_empty(std::span<float> q, const std::function<double()>& draw) const {
    LH_CHECK(q.size() == right_size_);
    for (const Matrix& m : matrices_)
      for (std::size_t k = 0; k < rank_; ++k) {
        bool empty = true;
        for (std::size_t j = 0; j < m.columns; ++j) empty = empty && q[m.q + j * rank_ + k] == 0;
        for (std::size_t j = 0; empty && j < m.columns; ++j) q[m.q + j * rank_ + k] = float(draw());
      }
  }

 private:
  struct Matrix {
    std::size_t at, rows, columns;  // position in the parameters, row by row
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
