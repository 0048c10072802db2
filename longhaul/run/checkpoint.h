#pragma once
// checkpoints/: the state of a whole run after some event, so that going on from it equals never
// having stopped. The last two are kept: a torn or damaged newest one falls back to the other.
#include <optional>
#include <string>

#include "longhaul/base/archive.h"

namespace longhaul::run {

struct Checkpoint {
  std::uint64_t job_hash = 0;
  std::uint64_t round = 0;          // rounds done (over sockets: counts checkpoints); in its name
  std::uint64_t metrics_bytes = 0;  // length of metrics.jsonl at that moment
  Buffer world;                     // sim::World's state
  Buffer experiment;                // what the experiment itself counts
};

class Checkpoints {
 public:
  explicit Checkpoints(std::string folder) : folder_(std::move(folder)) {}

  // Atomic; drops all but the newest two. A round that was written before is written again.
  Status write(const Checkpoint&) const;
  // The newest one that is whole; nothing if there is none.
  Result<std::optional<Checkpoint>> newest() const;
  // The one of that round; an Error if it is not there or not whole.
  Result<Checkpoint> at(std::uint64_t round) const;
  // Those of later rounds are void.
  void drop_after(std::uint64_t round) const;

 private:
  std::string folder_;
};

// Any bytes give a Checkpoint or an Error.
Result<Checkpoint> parse_checkpoint(std::span<const std::byte>);
Buffer format_checkpoint(const Checkpoint&);

}  // namespace longhaul::run
