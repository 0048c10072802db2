#pragma once
// Where a vector is cut into blocks: at the bounds of the stretches that it is exchanged in, of the
// layout's tensors, and after every `block` values of a tensor. Equal at sender and receiver.
#include <vector>

#include "longhaul/core/layout.h"

namespace longhaul::transfer::dgt {

struct Block {
  Range range;
  std::uint32_t tensor = 0;  // place in the layout; behind it: one more
};

// `ranges`: ascending, disjoint, none empty. The blocks ascend, too.
std::vector<Block> cut(const std::vector<Range>& ranges, const Layout&, std::uint64_t block);

// That block of cut() without the others; LH_CHECKs that it is there.
Block block_of(const std::vector<Range>& ranges, const Layout&, std::uint64_t block,
               std::uint64_t number);

// So many blocks are enough for all vectors of so many values, in as many stretches.
std::uint64_t most_blocks(std::uint64_t values, std::uint64_t stretches, const Layout&,
                          std::uint64_t block);

}  // namespace longhaul::transfer::dgt
