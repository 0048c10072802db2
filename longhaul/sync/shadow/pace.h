#pragma once
// Pace counts what a trainer computes beside the rounds of its shadow machine: the gap, which is
// the steps since the last round that it completed; the passes over its own data; and what it has
// computed since its last snapshot. It says when the trainer takes no more steps.
#include <utility>

#include "longhaul/base/archive.h"
#include "longhaul/core/work.h"

namespace longhaul::sync::shadow {

class Pace {
 public:
  // `max_gap`: steps; 0: none. `epochs`: passes over its own data; 0: as long as the run lasts.
  Pace(std::uint32_t max_gap, std::uint32_t epochs) : max_gap_(max_gap), epochs_(epochs) {}

  void stepped(const StepResult& result) {
    ++gap_;
    since_snapshot_.add(result);
    if (result.exhausted) ++passes_;
  }
  bool is_done() const { return epochs_ > 0 && passes_ >= epochs_; }  // with its data
  bool may_step() const { return !is_done() && (max_gap_ == 0 || gap_ < max_gap_); }
  std::uint64_t gap() const { return gap_; }
  // Steps since the last snapshot.
  std::uint32_t steps() const { return since_snapshot_.steps; }
  // A snapshot is taken: what was computed since the one before. Without a step the loss is the
  // last one.
  Computed snapshot() {
    Computed computed = std::exchange(since_snapshot_, {});
    if (computed.steps == 0) computed.loss = loss_;
    loss_ = computed.loss;
    return computed;
  }
  // A round is complete; the gap that it ends.
  std::uint64_t completed() { return std::exchange(gap_, 0); }
  // Of a trainer that comes back: what it has computed is gone.
  void begin_anew() { gap_ = 0, since_snapshot_ = {}, loss_ = 0, passes_ = 0; }
  void state(Archive& ar) { ar(gap_, passes_, loss_, since_snapshot_); }

 private:
  const std::uint32_t max_gap_, epochs_;
  std::uint64_t gap_ = 0;
  std::uint64_t passes_ = 0;
  double loss_ = 0;
  Computed since_snapshot_;
};

}  // namespace longhaul::sync::shadow
