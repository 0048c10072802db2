#include "longhaul/transfer/dgt/cut.h"

#include <algorithm>

#include "longhaul/base/check.h"

namespace longhaul::transfer::dgt {

std::vector<Block> cut(const std::vector<Range>& ranges, const Layout& layout,
                       std::uint64_t block) {
  LH_CHECK(block > 0);
  std::vector<Block> blocks;
  const auto& tensors = layout.layers();
  std::size_t tensor = 0;
  for (const Range& range : ranges) {
    for (std::uint64_t at = range.offset; at < range.end();) {
      while (tensor < tensors.size() && tensors[tensor].range.end() <= at) ++tensor;
      const bool inside = tensor < tensors.size();
      const std::uint64_t first = inside ? tensors[tensor].range.offset : layout.size();
      std::uint64_t end = first + ((at - first) / block + 1) * block;
      if (inside) end = std::min(end, tensors[tensor].range.end());
      end = std::min(end, range.end());
      blocks.push_back({{at, end - at}, std::uint32_t(tensor)});
      at = end;
    }
  }
  return blocks;
}

std::uint64_t most_blocks(std::uint64_t values, std::uint64_t stretches, const Layout& layout,
                          std::uint64_t block) {
  return values / block + layout.layers().size() + stretches + 2;
}

}  // namespace longhaul::transfer::dgt
