#pragma once
// Factors of the gradient of one layer, and the sums that they are multiplied to.
//   Xie et al., "Distributed machine learning via sufficient factor broadcasting", 2015
//   (arXiv:1511.08486), section 2: the gradient of a matrix is a sum of few outer products.
#include <algorithm>
#include <span>
#include <vector>

#include "longhaul/base/check.h"

namespace longhaul::sync::sfb {

// u: rows x out, v: rows x in, row major; the gradient is u^T v. A phantom's are empty.
struct Factors {
  std::vector<float> u, v;
};

// One term of a sum: by * u^T v.
struct FactorTerm {
  const Factors* factors = nullptr;
  double by = 1;
};

// sum over the terms, in their order, in double: element (j, i) of the weight's gradient is
// sum by u_kj v_ki over the rows k of each term; of the bias's, sum by u_kj. Rounded once.
// A row of the result at a time: its sums stay in the cache.
inline void weight_gradient(std::span<const FactorTerm> terms, std::size_t out, std::size_t in,
                            std::span<float> into) {
  LH_CHECK(into.size() == out * in);
  std::vector<double> sums(in);
  for (std::size_t j = 0; j < out; ++j) {
    std::ranges::fill(sums, 0.0);
    for (const FactorTerm& term : terms) {
      const auto& [u, v] = *term.factors;
      for (std::size_t k = 0; k * out < u.size(); ++k) {
        const double by = term.by * double(u[k * out + j]);
        if (by == 0) continue;
        const float* row = &v[k * in];
        for (std::size_t i = 0; i < in; ++i) sums[i] += by * double(row[i]);
      }
    }
    for (std::size_t i = 0; i < in; ++i) into[j * in + i] = float(sums[i]);
  }
}

inline void bias_gradient(std::span<const FactorTerm> terms, std::size_t out,
                          std::span<float> into) {
  LH_CHECK(into.size() == out);
  std::vector<double> sums(out);
  for (const FactorTerm& term : terms) {
    const std::vector<float>& u = term.factors->u;
    for (std::size_t k = 0; k < u.size(); ++k) sums[k % out] += term.by * double(u[k]);
  }
  for (std::size_t j = 0; j < out; ++j) into[j] = float(sums[j]);
}

}  // namespace longhaul::sync::sfb
