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
  mean_.reset();
  extras_.reset();
  LH_TRY(overlay_.begin({0, group_, kParameters}, members,
                        {.values = parameters(turn),
                         .length = turn.place().layout->parameters().length,
                         .exact = options.exact},
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

bool GroupMean::take(double& samples, Turn& turn, Turn below) {
  if (!mean_) mean_ = overlay_.poll({0, group_, kParameters});
  if (extras(turn) > 0 && !extras_) extras_ = overlay_.poll({0, group_, kExtras});
  if (!mean_ || (extras(turn) > 0 && !extras_)) return false;
  overlay_.close(group_, below);
  std::copy(mean_->values.begin(), mean_->values.end(), turn.params().begin());
  if (extras_ && !extras_->values.empty()) {
    if (buffers_) std::copy_n(extras_->values.begin(), buffers(turn).size(), buffers(turn).begin());
    if (samples_) samples = double(extras_->values.back());
  }
  mean_.reset();
  extras_.reset();
  return true;
}

}  // namespace longhaul::sync::shuffle
