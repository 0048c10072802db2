#include "longhaul/sync/sfb/factors.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "longhaul/base/rng.h"

namespace longhaul::sync::sfb {
namespace {

Factors random_factors(std::size_t rows, std::size_t out, std::size_t in, std::uint64_t seed) {
  Random random(seed, {});
  Factors factors;
  for (std::size_t i = 0; i < rows * out; ++i) factors.u.push_back(float(random.normal()));
  for (std::size_t i = 0; i < rows * in; ++i) factors.v.push_back(float(random.normal()));
  return factors;
}

// The rank of a matrix by elimination with the largest pivot.
std::size_t rank_of(std::vector<double> m, std::size_t out, std::size_t in) {
  std::size_t rank = 0;
  for (; rank < std::min(out, in); ++rank) {
    std::size_t best = rank * in + rank;
    for (std::size_t j = rank; j < out; ++j)
      for (std::size_t i = rank; i < in; ++i)
        if (std::abs(m[j * in + i]) > std::abs(m[best])) best = j * in + i;
    if (std::abs(m[best]) < 1e-4) break;
    for (std::size_t i = 0; i < in; ++i) std::swap(m[rank * in + i], m[best / in * in + i]);
    for (std::size_t j = 0; j < out; ++j) std::swap(m[j * in + rank], m[j * in + best % in]);
    for (std::size_t j = rank + 1; j < out; ++j) {
      const double by = m[j * in + rank] / m[rank * in + rank];
      for (std::size_t i = rank; i < in; ++i) m[j * in + i] -= by * m[rank * in + i];
    }
  }
  return rank;
}

// sfb_test.cpp, invariant 1.
RC_GTEST_PROP(SfbFactors, MultiplyToTheSumOfOuterProducts, ()) {
  const auto size = rc::gen::inRange<std::size_t>(1, 7);
  const std::size_t rows = *size, out = *size, in = *size;
  const Factors a = random_factors(rows, out, in, 1), b = random_factors(rows, out, in, 2);
  const std::vector<FactorTerm> terms = {{&a, 0.25}, {&b, 0.75}};
  std::vector<float> weight(out * in), bias(out);
  weight_gradient(terms, out, in, weight);
  bias_gradient(terms, out, bias);
  std::vector<double> expected(out * in), sums(out);
  for (const FactorTerm& term : terms)
    for (std::size_t k = 0; k < rows; ++k)
      for (std::size_t j = 0; j < out; ++j) {
        const double u = term.by * double(term.factors->u[k * out + j]);
        sums[j] += u;
        for (std::size_t i = 0; i < in; ++i)
          expected[j * in + i] += u * double(term.factors->v[k * in + i]);
      }
  for (std::size_t i = 0; i < weight.size(); ++i)
    RC_ASSERT(std::abs(double(weight[i]) - expected[i]) <= 1e-5 * (1 + std::abs(expected[i])));
  for (std::size_t j = 0; j < out; ++j)
    RC_ASSERT(std::abs(double(bias[j]) - sums[j]) <= 1e-5 * (1 + std::abs(sums[j])));
  std::vector<float> one(out * in);
  weight_gradient(std::span(terms).first(1), out, in, one);
  RC_ASSERT(rank_of({one.begin(), one.end()}, out, in) <= rows);
}

}  // namespace
}  // namespace longhaul::sync::sfb
