#pragma once
// GroupMean averages the models of some workers, each with weight 1 / |G|, through the job's
// overlay: parameters in the job's codec, buffers as exact values. Each mean is of a group of its
// own, which is closed when its outcome is here: the members keep it for each other until all have
// closed it.
#include <vector>

#include "longhaul/core/overlay.h"

namespace longhaul::sync::shuffle {

class GroupMean {
 public:
  struct Options {
    bool buffers = true;  // averaged, too
    bool exact = false;   // parameters as exact values, too
    bool samples = false;
    // Each keeps what the codec lost of its own model: x <- x + mean of all q - its own q, q being
    // a model as the others read it.
    bool correction = false;
    std::span<const float> state = {};  // of the local optimiser: averaged, too, if there is one
  };
  explicit GroupMean(Overlay& overlay) : overlay_(overlay) {}

  // Gives params() to the mean of `group`, a number that is used once; `samples` to theirs. `below`
  // is the turn as the overlay sees it. An Error: values that are not finite.
  Status begin(std::uint32_t group, const std::vector<Rank>& members, const Options&,
               double samples, Turn& turn, Turn below);
  // True, once: params() is the mean, and `samples`. A mean that nobody is counted in changes
  // nothing.
  bool take(double& samples, Turn& turn, Turn below);
  // The mean of Options::state, once; empty: there was none, or nobody was counted.
  std::vector<float> take_state() { return std::exchange(state_mean_, {}); }
  std::string waiting_for() const { return overlay_.waiting_for(); }
  void state(Archive& ar) {
    ar(group_, buffers_, samples_, has_state_, mean_, extras_, state_, state_mean_);
  }

 private:
  static constexpr std::uint32_t kParameters = 0, kExtras = 1, kState = 2;  // ranges
  std::uint64_t extras(const Turn&) const;
  void apply(Turn&) const;

  Overlay& overlay_;
  std::uint32_t group_ = 0;
  bool buffers_ = false, samples_ = false;
  bool has_state_ = false;
  std::optional<Outcome> mean_, extras_, state_;  // that came first
  std::vector<float> state_mean_;
};

}  // namespace longhaul::sync::shuffle
