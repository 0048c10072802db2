#pragma once
// What tells two data sets apart.
#include <cstdint>

#include "longhaul/learn/data/dataset.h"

namespace longhaul::learn {

// Of samples, labels and names, in their order; the order of a table's columns does not count. Two
// sets with one digest are the same, but for a chance of 1 in 2^64 (XXH3).
std::uint64_t digest_of(const DataSet&);

}  // namespace longhaul::learn
