#pragma once
// GroupMean averages the models of some workers, each with weight 1 / |G|, through the job's
// overlay: parameters in the job's codec, buffers as exact values. Each mean has a group of its
// own, which is closed when its outcome has arrived. The members keep it for each other until all
// have closed it.
#include <algorithm>
#include <vector>

#include "longhaul/core/overlay.h"
#include "longhaul/sync/flat.h"

namespace longhaul::sync::shuffle {

class GroupMean {
 public:
  struct Options {
    bool buffers = true;  // average buffers
    bool exact = false;   // send parameters as exact values
    bool samples = false;
    // Each member keeps the codec's error of its own model: x <- x + mean of all q - its own q,
    // where q is a model as the others read it.
    bool correction = false;
    std::span<const float> state = {};  // state of the local optimiser to average; empty: none
  };
  explicit GroupMean(Overlay& overlay) : overlay_(overlay) {}

  // Contributes params() to the mean of `group`, a number that is used once, and `samples` to
  // theirs. `below` is the turn as the overlay sees it. Returns an Error if values are not finite.
  Status begin(std::uint32_t group, const std::vector<Rank>& members, const Options& options,
               double samples, Turn& turn, Turn below) {
    group_ = group;
    buffers_ = options.buffers;
    samples_ = options.samples;
    has_state_ = !options.state.empty();
    mean_.reset();
    extras_.reset();
    state_.reset();
    LH_TRY(overlay_.begin({0, group_, kParameters}, members,
                          {.values = parameters(turn),
                           .length = turn.place().layout->parameters().length,
                           .exact = options.exact,
                           .wants_own = options.correction && !options.exact},
                          below));
    if (has_state_)
      LH_TRY(overlay_.begin(
          {0, group_, kState}, members,
          {.values = options.state, .length = options.state.size(), .exact = true}, below));
    if (extras(turn) == 0) return Ok{};
    std::vector<float> exact;
    if (!turn.place().phantom) {
      if (buffers_) exact.assign(buffers(turn).begin(), buffers(turn).end());
      if (samples_) exact.push_back(float(samples));
    }
    return overlay_.begin({0, group_, kExtras}, members,
                          {.values = exact, .length = extras(turn), .exact = true}, below);
  }

  // Returns true once, when params() and `samples` are means. A mean without contributions changes
  // nothing.
  bool take(double& samples, Turn& turn, Turn below) {
    if (!mean_) mean_ = overlay_.poll({0, group_, kParameters});
    if (extras(turn) > 0 && !extras_) extras_ = overlay_.poll({0, group_, kExtras});
    if (has_state_ && !state_) state_ = overlay_.poll({0, group_, kState});
    if (!mean_ || (extras(turn) > 0 && !extras_) || (has_state_ && !state_)) return false;
    overlay_.close(group_, below);
    apply(turn);
    if (state_) state_mean_ = std::move(state_->values);
    state_.reset();
    if (extras_ && !extras_->values.empty()) {
      if (buffers_)
        std::copy_n(extras_->values.begin(), buffers(turn).size(), buffers(turn).begin());
      if (samples_) samples = double(extras_->values.back());
    }
    mean_.reset();
    extras_.reset();
    return true;
  }

  // Returns the mean of Options::state, once; empty if there was no state or no contribution.
  std::vector<float> take_state() { return std::exchange(state_mean_, {}); }
  std::string waiting_for() const { return overlay_.waiting_for(); }
  void state(Archive& ar) {
    ar(group_, buffers_, samples_, has_state_, mean_, extras_, state_, state_mean_);
  }

 private:
  static constexpr std::uint32_t kParameters = 0, kExtras = 1, kState = 2;  // ranges
  std::uint64_t extras(const Turn& turn) const {
    return (buffers_ ? turn.place().layout->buffers().length : 0) + (samples_ ? 1 : 0);
  }

  // Applies the mean. If the codec lost nothing, all members take the mean itself, bit-identical.
  void apply(Turn& turn) const {
    const auto x = parameters(turn);
    const std::vector<float>& mean = mean_->values;
    const std::vector<float>& own = mean_->own;
    const bool is_lossy = !mean.empty() && own.size() == x.size() && !std::ranges::equal(own, x);
    if (!is_lossy) {
      std::ranges::copy(mean, x.begin());
      return;
    }
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = float(double(x[i]) + (double(mean[i]) - double(own[i])));
  }

  Overlay& overlay_;
  std::uint32_t group_ = 0;
  bool buffers_ = false, samples_ = false;
  bool has_state_ = false;
  std::optional<Outcome> mean_, extras_, state_;  // outcomes that wait for the others
  std::vector<float> state_mean_;
};

}  // namespace longhaul::sync::shuffle
