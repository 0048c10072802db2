#pragma once
// An Overlay computes the weighted mean of the members' vectors. The routes between nodes are
// private to it. It guarantees the agreed mean, whichever nodes fail and when. The mean counts only
// members of the view in which it was decided. All survivors get bit-identical results, or all
// repeat. (docs/overlay/README.md)
#include <optional>
#include <vector>

#include "longhaul/core/codec.h"
#include "longhaul/core/machine.h"
#include "longhaul/core/traffic.h"

namespace longhaul {

struct Contribution {
  std::span<const float> values;  // copied by begin() if it contributes; empty in a phantom job
  std::uint64_t length = 0;       // length of the vector, equal on all members
  double weight = 1;              // finite, > 0
  bool contributes = true;  // false: takes part without a contribution, and receives the outcome
  bool exact = false;       // written as fp32 with any codec: buffers
  // Training loss behind the values, for transfers that use it (dgt); empty: unknown.
  std::optional<double> loss = {};
  bool wants_own = false;  // Outcome::own is filled
  // This node has the state of the run, so it knows its round itself. A returned node without the
  // state learns the round from others, and begins again after each loss.
  bool knows_round = false;
};

struct Outcome {
  std::vector<float> values;  // the mean; empty in a phantom job
  double weight = 0;          // sum of the weights counted
  RankList counted;
  // Epoch of the group, which counts the losses and returns of its members. All members live in it
  // took part; nodes that returned later did not.
  Epoch epoch = 0;
  // This node's part of the mean as the other nodes decode it, if Contribution::wants_own is set.
  // Empty: none, or a phantom job.
  std::vector<float> own = {};
  // Time from begin() until the host had the whole contribution. 0: no contribution, or unknown.
  Time gave{0};
  void state(auto& archive) { archive(values, weight, counted, epoch, own, gave); }
};

class Overlay : public Machine {
 public:
  // Begins a round. Rounds of one (group, range) begin in ascending order from 0, one at a time;
  // different groups and ranges may overlap. `members`: the workers of the group's means,
  // ascending, with this node; empty: all workers, and always in group 0. The list must be equal on
  // all members and in every round. Live members take part, unless they returned after the group
  // was made (core/group_number.h). A loss affects only groups that list the lost node. Returns an
  // Error, and begins nothing, if values are not finite or a peer lists other members.
  virtual Status begin(const VectorId&, const std::vector<Rank>& members, const Contribution&,
                       Turn&) = 0;
  // Closes the group after its last round, when this node has the outcome. All members must close
  // it after the same round; then its memory is freed. A number is used once, and group 0 is never
  // closed. Has no effect if the group was never begun.
  virtual void close(std::uint32_t group, Turn&) = 0;
  // Returns the round to begin next. Empty on a returned node that has not learned it yet. Until
  // the node has an outcome, the round can change with a new view.
  virtual std::optional<Round> next_round(std::uint32_t group, std::uint32_t range) const = 0;
  // Returns the outcome, once. Must be called in on_progress and right after begin().
  virtual std::optional<Outcome> poll(const VectorId&) = 0;
  // Returns the nodes that it waits for, for messages and diagnosis: "round 7: parts of 2, 5".
  virtual std::string waiting_for() const = 0;
  // Returns the traffic of one exchange of `length` values (> 0) if all live workers contribute.
  // Empty if routes are decided at run time, or if no worker is live.
  virtual std::optional<Traffic> planned(std::uint64_t length) const {
    (void)length;
    return std::nullopt;
  }
};

}  // namespace longhaul
