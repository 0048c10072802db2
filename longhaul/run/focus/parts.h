#pragma once
// What a job with [focus] consists of, for the simulator and for sockets alike.
#include "longhaul/core/learner.h"
#include "longhaul/focus/focus_node.h"
#include "longhaul/focus/tracks.h"
#include "longhaul/run/job/job.h"
#include "longhaul/sim/compute_time.h"

namespace longhaul::run {

// The configuration of the node of that rank. Where the job leaves T out, K and T are chosen on the
// first [focus] sample objects of its own stream. Error: no choice reaches the targets.
Result<focus::NodeConfig> focus_node_config(const Job&, Rank);

// Both models; classes as the baseline says.
std::unique_ptr<Learner> focus_learner(const Job&, const focus::NodeConfig&);

// [focus] cheap_ms and gt_ms for each object.
std::unique_ptr<sim::ComputeTime> infer_times(const Job&);

// The stream of one site.
class TrackSource {
 public:
  TrackSource(const Job&, Rank);
  // Sends again from the next one: after a restart, of what was acknowledged.
  void begin_after(std::uint64_t seq) { next_ = seq + 1; }
  // Those seen at or before `now`, at most `most`.
  std::vector<Item> due(Time now, std::size_t most = 10000);
  // When the next one is seen; nothing: the stream is over.
  std::optional<Time> next_at() const;

 private:
  focus::Tracks tracks_;
  double rate_;
  std::optional<std::uint64_t> length_;
  std::uint64_t next_ = 1;
};

}  // namespace longhaul::run
