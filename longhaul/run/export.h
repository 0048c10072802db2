#pragma once
// The model in a checkpoint, as a file: what `longhaul export` does.
#include <cstdint>
#include <string>

#include "longhaul/base/result.h"

namespace longhaul::run {

struct Exported {
  std::string path;
  std::uint64_t round = 0;  // of the checkpoint; over sockets its number
  std::uint64_t values = 0;
};

// `checkpoint`: a file in a run folder's checkpoints/, or a run folder: its newest. `out`: the file
// to write; "": exported.pt in the run folder (own learners: exported.f32). Error: no checkpoint, a
// damaged one, or one of a node without a model.
Result<Exported> export_checkpoint(const std::string& checkpoint, const std::string& out);

}  // namespace longhaul::run
