#pragma once
// How a vector is cut, the same on all nodes for the whole job: into shards of equal length, one
// for each worker the job began with (a hub: one), and those into pieces of at most a chunk.
// Members come and go; the cut stays, so that a repeat after a loss sends the same bytes. What
// changes is who owns a piece (plan.h).
#include <cstddef>
#include <optional>
#include <vector>

#include "longhaul/core/types.h"

namespace longhaul::overlay {

class Partition {
 public:
  Partition() = default;
  // `length` values, at most `longest` of them in a piece. Shard s is [s d/n, (s+1) d/n), rounded
  // down; it is empty where there are fewer values than shards.
  Partition(std::uint64_t length, std::uint32_t shards, std::uint64_t longest);

  std::uint64_t length() const { return length_; }
  std::size_t pieces() const { return first_.empty() ? 0 : first_.back(); }
  std::uint32_t shard_of(std::size_t piece) const;
  Range range(std::size_t piece) const;
  // The piece that is exactly this stretch, if there is one.
  std::optional<std::size_t> find(Range) const;

 private:
  std::uint64_t start(std::uint64_t shard) const { return shard * length_ / shards_; }

  std::uint64_t length_ = 0;
  std::uint64_t shards_ = 1;
  std::uint64_t longest_ = 1;
  std::vector<std::size_t> first_;  // piece of each shard, and one behind the last
};

}  // namespace longhaul::overlay
