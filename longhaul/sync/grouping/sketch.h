#pragma once
// A sketch of a gradient: its output layer, projected at random on a few numbers. Likeness of
// gradients, and so of the data that they are from, survives the projection.
//   Johnson, Lindenstrauss, "Extensions of Lipschitz mappings into a Hilbert space", 1984; with
//   signs: Achlioptas, "Database-friendly random projections", JCSS 2003.
#include <span>
#include <vector>

#include "longhaul/core/layout.h"

namespace longhaul::sync::grouping {

// The last parameters of the layout whose names have a common stem ("fc2.weight", "fc2.bias").
Range output_layer(const Layout&);

// R g of `size` numbers, R having entries +-1/sqrt(size) by (seed, row, column): no matrix is kept.
// All zeros if a number of `g` is not finite, or one of R g would not be.
std::vector<float> sketch_of(std::span<const float> g, std::uint32_t size, std::uint64_t seed);

}  // namespace longhaul::sync::grouping
