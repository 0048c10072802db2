#pragma once
// checkpoints/: the state of a whole run after an event; resuming from it equals an uninterrupted
// run. The newest are kept: if one is torn or damaged, the one before is used.
#include <optional>
#include <string>

#include "longhaul/base/archive.h"
#include "longhaul/core/place.h"

namespace longhaul::run {

struct Checkpoint {
  std::uint64_t job_hash = 0;       // resume_hash() of the job
  std::uint64_t round = 0;          // rounds done (over sockets: counts checkpoints); in its name
  std::uint64_t metrics_bytes = 0;  // length of metrics.jsonl at that moment
  Buffer world;                     // sim::World's state
  Buffer experiment;                // the experiment's own state
  View view = {};                   // over sockets
  std::uint32_t sites = 0;          // of the job then; it may have got others, see resume_hash()
  std::uint32_t members = 0;        // nodes at these sites
  std::vector<float> model = {};    // rank 0's parameters, over sockets this node's; for export
};

class Checkpoints {
 public:
  static constexpr std::size_t kKept = 2;  // at least: nodes may be one checkpoint apart
  explicit Checkpoints(std::string folder, std::size_t kept = kKept)
      : folder_(std::move(folder)), kept_(kept) {}

  // Atomic; drops all but the newest. A round that was written before is written again.
  Status write(const Checkpoint&) const;
  // The newest valid one; empty if there is none.
  Result<std::optional<Checkpoint>> newest() const;
  // The checkpoint of that round. Error: missing or damaged.
  Result<Checkpoint> at(std::uint64_t round) const;
  // Whether there is a file of one.
  bool any() const;
  // Removes those of later rounds.
  void drop_after(std::uint64_t round) const;

 private:
  std::string folder_;
  std::size_t kept_;
};

// Reads one file. Error: missing or damaged; names it.
Result<Checkpoint> read_checkpoint(const std::string& path);
// Any bytes give a Checkpoint or an Error.
Result<Checkpoint> parse_checkpoint(std::span<const std::byte>);
Buffer format_checkpoint(const Checkpoint&);

}  // namespace longhaul::run
