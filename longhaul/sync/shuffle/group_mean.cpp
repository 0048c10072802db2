#include "longhaul/sync/shuffle/group_mean.h"

#include <algorithm>

#include "longhaul/sync/flat.h"

namespace longhaul::sync::shuffle {

std::uint64_t GroupMean::extras(const Turn& turn) const {
  return (buffers_ ? turn.place().layout->buffers().length : 0) + (samples_ ? 1 : 0);
}

Status GroupMean::begin(std::uint32_t group, const std::vector<Rank>& members,
                        const Options& options, double samples, Turn& turn, Turn below) {
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
    LH_TRY(overlay_.begin({0, group_, kState}, members,
                          {.values = options.state, .length = options.state.size(), .exact = true},
                          below));
  if (extras(turn) == 0) return Ok{};
  std::vector<float> exact;
  if (!turn.place().phantom) {
    if (buffers_) exact.assign(buffers(turn).begin(), buffers(turn).end());
    if (samples_) exact.push_back(float(samples));
  }
  return overlay_.begin({0, group_, kExtras}, members,
                        {.values = exact, .length = extras(turn), .exact = true}, below);
}

// Where the codec lost nothing the mean is taken as it is: all members have its bits.
void GroupMean::apply(Turn& turn) const {
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

bool GroupMean::take(double& samples, Turn& turn, Turn below) {
  if (!mean_) mean_ = overlay_.poll({0, group_, kParameters});
  if (extras(turn) > 0 && !extras_) extras_ = overlay_.poll({0, group_, kExtras});
  if (has_state_ && !state_) state_ = overlay_.poll({0, group_, kState});
  if (!mean_ || (extras(turn) > 0 && !extras_) || (has_state_ && !state_)) return false;
  overlay_.close(group_, below);
  apply(turn);
  if (state_) state_mean_ = std::move(state_->values);
  state_.reset();
  if (extras_ && !extras_->values.empty()) {
    if (buffers_) std::copy_n(extras_->values.begin(), buffers(turn).size(), buffers(turn).begin());
    if (samples_) samples = double(extras_->values.back());
  }
  mean_.reset();
  extras_.reset();
  return true;
}

}  // namespace longhaul::sync::shuffle
