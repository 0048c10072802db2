#include "longhaul/transfer/dgt/cut.h"

#include <algorithm>
#include <optional>

#include "longhaul/base/check.h"

namespace longhaul::transfer::dgt {
namespace {

// The intersection of a range and a tensor. Its blocks end at the tensor's block boundaries.
struct Piece {
  std::uint64_t at = 0, end = 0;
  std::uint32_t tensor = 0;
  std::uint64_t origin = 0;  // where the tensor begins
  std::uint64_t block = 1;

  std::uint64_t blocks() const { return (end - 1 - origin) / block - (at - origin) / block + 1; }
  Block operator[](std::uint64_t number) const {
    const std::uint64_t from = origin + ((at - origin) / block + number) * block;
    const std::uint64_t first = std::max(at, from);
    return {{first, std::min(end, from + block) - first}, tensor};
  }
};

// Visits the pieces in ascending order until `visit` returns false.
void for_each_piece(const std::vector<Range>& ranges, const Layout& layout, std::uint64_t block,
                    auto&& visit) {
  LH_CHECK(block > 0);
  const auto& tensors = layout.layers();
  std::size_t tensor = 0;
  for (const Range& range : ranges) {
    for (std::uint64_t at = range.offset; at < range.end();) {
      while (tensor < tensors.size() && tensors[tensor].range.end() <= at) ++tensor;
      Piece piece{at, range.end(), std::uint32_t(tensor), layout.size(), block};
      if (tensor < tensors.size()) {
        piece.origin = tensors[tensor].range.offset;
        piece.end = std::min(piece.end, tensors[tensor].range.end());
      }
      if (!visit(piece)) return;
      at = piece.end;
    }
  }
}

}  // namespace

std::vector<Block> cut(const std::vector<Range>& ranges, const Layout& layout,
                       std::uint64_t block) {
  std::vector<Block> blocks;
  for_each_piece(ranges, layout, block, [&](const Piece& piece) {
    for (std::uint64_t i = 0; i < piece.blocks(); ++i) blocks.push_back(piece[i]);
    return true;
  });
  return blocks;
}

Block block_of(const std::vector<Range>& ranges, const Layout& layout, std::uint64_t block,
               std::uint64_t number) {
  std::optional<Block> found;
  for_each_piece(ranges, layout, block, [&](const Piece& piece) {
    if (number < piece.blocks()) found = piece[number];
    number -= std::min(number, piece.blocks());
    return !found;
  });
  LH_CHECK(found);
  return *found;
}

std::uint64_t most_blocks(std::uint64_t values, std::uint64_t stretches, const Layout& layout,
                          std::uint64_t block) {
  return values / block + layout.layers().size() + stretches + 2;
}

}  // namespace longhaul::transfer::dgt
