#include "longhaul/sync/sfb/factors.h"

#include "longhaul/base/check.h"

namespace longhaul::sync::sfb {

// A row of the result at a time: its sums stay in the cache.
void weight_gradient(std::span<const FactorTerm> terms, std::size_t out, std::size_t in,
                     std::span<float> into) {
  LH_CHECK(into.size() == out * in);
  std::vector<double> sums(in);
  for (std::size_t j = 0; j < out; ++j) {
    std::fill(sums.begin(), sums.end(), 0.0);
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

void bias_gradient(std::span<const FactorTerm> terms, std::size_t out, std::span<float> into) {
  LH_CHECK(into.size() == out);
  std::vector<double> sums(out);
  for (const FactorTerm& term : terms) {
    const std::vector<float>& u = term.factors->u;
    for (std::size_t k = 0; k < u.size(); ++k) sums[k % out] += term.by * double(u[k]);
  }
  for (std::size_t j = 0; j < out; ++j) into[j] = float(sums[j]);
}

}  // namespace longhaul::sync::sfb
