#include "longhaul/overlay/partition.h"

#include <algorithm>

#include "longhaul/base/check.h"

namespace longhaul::overlay {

Partition::Partition(std::uint64_t length, std::uint32_t shards, std::uint64_t longest)
    : length_(length), shards_(shards), longest_(longest) {
  LH_CHECK(shards > 0 && longest > 0 && length < (std::uint64_t{1} << 41));
  first_.push_back(0);
  for (std::uint64_t s = 0; s < shards_; ++s)
    first_.push_back(first_.back() + (start(s + 1) - start(s) + longest_ - 1) / longest_);
}

std::uint32_t Partition::shard_of(std::size_t piece) const {
  LH_CHECK(piece < pieces());
  const auto behind = std::upper_bound(first_.begin(), first_.end(), piece);
  return std::uint32_t(behind - first_.begin() - 1);
}

Range Partition::range(std::size_t piece) const {
  const std::uint32_t shard = shard_of(piece);
  const std::uint64_t offset = start(shard) + (piece - first_[shard]) * longest_;
  return {offset, std::min(longest_, start(shard + 1) - offset)};
}

std::optional<std::size_t> Partition::find(Range range) const {
  if (range.offset >= length_) return std::nullopt;
  // start(s) is rounded down: the guess may be one too low.
  std::uint64_t shard = range.offset * shards_ / length_;
  while (start(shard + 1) <= range.offset) ++shard;
  const std::size_t piece = first_[shard] + (range.offset - start(shard)) / longest_;
  if (this->range(piece) != range) return std::nullopt;
  return piece;
}

}  // namespace longhaul::overlay
