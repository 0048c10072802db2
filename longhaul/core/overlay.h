#pragma once
// An Overlay turns everyone's vector into what all agree on: their weighted mean. Which node sends
// to which is its secret; what it promises is the agreed mean: exactly the members of the view in
// which it was decided are counted, all survivors get the same bits or all repeat, whoever dies
// when. (docs/overlay/README.md)
#include <optional>
#include <vector>

#include "longhaul/core/codec.h"
#include "longhaul/core/machine.h"
#include "longhaul/core/traffic.h"

namespace longhaul {

struct Contribution {
  std::span<const float> values;  // copied by begin() if it contributes; a phantom's are empty
  std::uint64_t length = 0;       // of the vector; all members give the same
  double weight = 1;              // finite, > 0
  bool contributes = true;        // false: takes part, gives nothing, gets the outcome
  bool exact = false;             // written as fp32 whatever the job's codec: buffers
  // The training loss that it comes from, for transfers that go by it (dgt); nothing: unknown.
  std::optional<double> loss = {};
  bool wants_own = false;  // Outcome::own is filled
  // This node has the state of the run, and so knows of itself which round it is in. One that has
  // come back and does not is told, and begins anew after each loss.
  bool knows_round = false;
};

struct Outcome {
  std::vector<float> values;  // the mean; a phantom's are empty
  double weight = 0;          // sum of the weights counted
  RankList counted;
  // Of the group (it counts the losses and returns of its members): all members who live in it took
  // part; those who came back later did not.
  Epoch epoch = 0;
  // With Contribution::wants_own: what the mean has of this node, as the others read it. Empty:
  // nothing, or a phantom's.
  std::vector<float> own = {};
  // How long this node's contribution took to leave it, from begin() to the last of it being with
  // the host. 0: it gave none, or it is not known.
  Time gave{0};
  void state(auto& archive) { archive(values, weight, counted, epoch, own, gave); }
};

class Overlay : public Machine {
 public:
  // Rounds of one (group, range) are begun in ascending order from 0, one at a time; different
  // groups and ranges overlap freely. `members`: who form the group's means, workers of the job,
  // ascending, this node among them; empty: all, and always in group 0. All members name the same,
  // in every round; those who live take part, unless they came back after the group was made
  // (core/group_number.h). A loss concerns the groups that name whoever was lost, and no other. An
  // Error: values that are not finite, or other members than a peer names; nothing was begun.
  virtual Status begin(const VectorId&, const std::vector<Rank>& members, const Contribution&,
                       Turn&) = 0;
  // This node has begun the last round of the group, and has its outcome; all members close it
  // after the same rounds. Its memory is given back when all have. A number is used once; group 0
  // is never closed. Nothing happens if the group was never begun.
  virtual void close(std::uint32_t group, Turn&) = 0;
  // The round to begin next. Nothing while a node that has come back has not heard it from the
  // others; what it is told may be another after a new view, until it has an outcome.
  virtual std::optional<Round> next_round(std::uint32_t group, std::uint32_t range) const = 0;
  // The outcome, once; to be asked in on_progress and right after begin().
  virtual std::optional<Outcome> poll(const VectorId&) = 0;
  // Waiting for whom, for messages and for finding what hangs: "round 7: parts of 2, 5".
  virtual std::string waiting_for() const = 0;
  // What one exchange of so many values (> 0) moves if all workers who live now contribute.
  // Nothing: no plan says so, as who sends to whom is decided while it runs, or nobody is left.
  virtual std::optional<Traffic> planned(std::uint64_t length) const {
    (void)length;
    return std::nullopt;
  }
};

}  // namespace longhaul
