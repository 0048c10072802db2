#pragma once
// The cut of a vector into blocks: at the bounds of its ranges and of the layout's tensors, and
// after every `block` values of a tensor. Equal at sender and receiver.
#include <vector>

#include "longhaul/core/layout.h"

namespace longhaul::transfer::dgt {

struct Block {
  Range range;
  std::uint32_t tensor = 0;  // place in the layout; behind it: one more
};

// Returns the blocks, ascending. `ranges`: ascending, disjoint, none empty.
std::vector<Block> cut(const std::vector<Range>& ranges, const Layout&, std::uint64_t block);

// Returns that block of cut() without the others; LH_CHECKs that it exists.
Block block_of(const std::vector<Range>& ranges, const Layout&, std::uint64_t block,
               std::uint64_t number);

// Returns a number of blocks that is enough for all vectors of these many values and ranges.
std::uint64_t most_blocks(std::uint64_t values, std::uint64_t stretches, const Layout&,
                          std::uint64_t block);

}  // namespace longhaul::transfer::dgt
