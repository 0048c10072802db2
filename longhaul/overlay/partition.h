#pragma once
// How a vector is cut, the same on all nodes for the whole job: into shards of equal length, one
// for each worker the job began with (a hub: one), and those into pieces of at most a chunk.
// Members come and go; the cut stays, so that a repeat after a loss sends the same bytes. What
// changes is who owns a piece (plan.h).
#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/core/types.h"

namespace longhaul::overlay {

class Partition {
 public:
  Partition() = default;
  // `length` values, at most `longest` of them in a piece. Shard s is [s d/n, (s+1) d/n), rounded
  // down; it is empty where there are fewer values than shards.
  Partition(std::uint64_t length, std::uint32_t shards, std::uint64_t longest)
      : length_(length), shards_(shards), longest_(longest) {
    LH_CHECK(shards > 0 && longest > 0 && length < (std::uint64_t{1} << 41));
    first_.push_back(0);
    for (std::uint64_t s = 0; s < shards_; ++s)
      first_.push_back(first_.back() + (start(s + 1) - start(s) + longest_ - 1) / longest_);
  }

  std::uint64_t length() const { return length_; }
  std::size_t pieces() const { return first_.empty() ? 0 : first_.back(); }
  std::uint32_t shard_of(std::size_t piece) const {
    LH_CHECK(piece < pieces());
    const auto behind = std::upper_bound(first_.begin(), first_.end(), piece);
    return std::uint32_t(behind - first_.begin() - 1);
  }

  Range range(std::size_t piece) const {
    const std::uint32_t shard = shard_of(piece);
    const std::uint64_t offset = start(shard) + (piece - first_[shard]) * longest_;
    return {offset, std::min(longest_, start(shard + 1) - offset)};
  }

  // The piece that is exactly this stretch, if there is one.
  std::optional<std::size_t> find(Range range) const {
    if (range.offset >= length_) return std::nullopt;
    // start(s) is rounded down: the guess may be one too low.
    std::uint64_t shard = range.offset * shards_ / length_;
    while (start(shard + 1) <= range.offset) ++shard;
    const std::size_t piece = first_[shard] + (range.offset - start(shard)) / longest_;
    if (this->range(piece) != range) return std::nullopt;
    return piece;
  }

 private:
  std::uint64_t start(std::uint64_t shard) const { return shard * length_ / shards_; }

  std::uint64_t length_ = 0;
  std::uint64_t shards_ = 1;
  std::uint64_t longest_ = 1;
  std::vector<std::size_t> first_;  // piece of each shard, and one behind the last
};

}  // namespace longhaul::overlay
