#pragma once
// Factors of the gradient of one layer, and the sums that they are multiplied to.
//   Xie et al., "Distributed machine learning via sufficient factor broadcasting", 2015
//   (arXiv:1511.08486), section 2: the gradient of a matrix is a sum of few outer products.
#include <span>
#include <vector>

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
void weight_gradient(std::span<const FactorTerm>, std::size_t out, std::size_t in,
                     std::span<float> into);
void bias_gradient(std::span<const FactorTerm>, std::size_t out, std::span<float> into);

}  // namespace longhaul::sync::sfb
