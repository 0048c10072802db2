#pragma once
// Clicks, made from a seed: what models of advertisements and recommendations learn. A sample has
// one value of each of some categorical fields (who looks, at what, where); few values are frequent
// (Zipf's law with exponent 1.1). It is a click with the probability 1 / (1 + e^-t), where
//
//   t = -1 + sum of w[value] over its fields + sum of v[a] . v[b] over the pairs of its fields,
//
// w ~ N(0, 0.2^2), and v of four numbers ~ N(0, 0.2^2): a factorisation machine (Rendle,
// "Factorization machines", 2010).
#include <cstdint>

#include "longhaul/learn/data/dataset.h"

namespace longhaul::learn {

struct ClicksOptions {
  std::uint32_t fields = 0, values = 0;  // fields x values is at most kMostClickRows
  std::size_t samples = 0;
  std::uint64_t seed = 1;
  bool test = false;  // other samples of the same teacher
};

// Floats hold whole numbers up to here.
constexpr std::uint64_t kMostClickRows = 1 << 24;

// Two classes: no click, click. The numbers of a sample are rows of one table of fields x values:
// field f has the rows from f x values on.
DataSet make_clicks(const ClicksOptions&);

}  // namespace longhaul::learn
