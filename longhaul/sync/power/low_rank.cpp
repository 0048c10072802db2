#include "longhaul/sync/power/low_rank.h"

#include <algorithm>
#include <cmath>

#include "longhaul/base/check.h"

namespace longhaul::sync::power {

LowRank::LowRank(const Layout& layout, std::uint32_t rank) : rank_(rank) {
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

std::vector<float> LowRank::left(std::span<const float> delta, std::span<const float> q) const {
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

std::vector<float> LowRank::right(std::span<const float> delta, std::span<const float> p) const {
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

void LowRank::orthonormalise(std::span<float> p) const {
  constexpr double kNothing = 1e-6;  // what rounding leaves of a column that depends on others
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

std::vector<float> LowRank::product(std::span<const float> p, std::span<const float> q) const {
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

void LowRank::clear_rest(std::span<float> delta) const {
  LH_CHECK(delta.size() == parameters_);
  for (const Plain& plain : plain_)
    std::fill_n(delta.begin() + std::ptrdiff_t(plain.at), plain.length, 0.f);
}

void LowRank::fill_empty(std::span<float> q, const std::function<double()>& draw) const {
  LH_CHECK(q.size() == right_size_);
  for (const Matrix& m : matrices_)
    for (std::size_t k = 0; k < rank_; ++k) {
      bool empty = true;
      for (std::size_t j = 0; j < m.columns; ++j) empty = empty && q[m.q + j * rank_ + k] == 0;
      for (std::size_t j = 0; empty && j < m.columns; ++j) q[m.q + j * rank_ + k] = float(draw());
    }
}

}  // namespace longhaul::sync::power
