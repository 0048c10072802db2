#pragma once
// checkpoints/: the state of a whole run after an event; resuming from it equals an uninterrupted
// run. The last two are kept: if the newest is torn or damaged, the other one is used.
#include <optional>
#include <string>

#include "longhaul/base/archive.h"

namespace longhaul::run {

struct Checkpoint {
  std::uint64_t job_hash = 0;
  std::uint64_t round = 0;          // rounds done (over sockets: counts checkpoints); in its name
  std::uint64_t metrics_bytes = 0;  // length of metrics.jsonl at that moment
  Buffer world;                     // sim::World's state
  Buffer experiment;                // the experiment's own state
};

class Checkpoints {
 public:
  explicit Checkpoints(std::string folder) : folder_(std::move(folder)) {}

  // Atomic; drops all but the newest two. A round that was written before is written again.
  Status write(const Checkpoint&) const;
  // The newest valid one; empty if there is none.
  Result<std::optional<Checkpoint>> newest() const;
  // The checkpoint of that round. Error: missing or damaged.
  Result<Checkpoint> at(std::uint64_t round) const;
  // Removes those of later rounds.
  void drop_after(std::uint64_t round) const;

 private:
  std::string folder_;
};

// Any bytes give a Checkpoint or an Error.
Result<Checkpoint> parse_checkpoint(std::span<const std::byte>);
Buffer format_checkpoint(const Checkpoint&);

}  // namespace longhaul::run
