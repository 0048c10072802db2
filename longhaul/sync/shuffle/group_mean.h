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
  };
  explicit GroupMean(Overlay& overlay) : overlay_(overlay) {}

  // Gives params() to the mean of `group`, a number that is used once; `samples` to theirs. `below`
  // is the turn as the overlay sees it. An Error: values that are not finite.
  Status begin(std::uint32_t group, const std::vector<Rank>& members, const Options&,
               double samples, Turn& turn, Turn below);
  // True, once: params() is the mean, and `samples`. A mean that nobody is counted in changes
  // nothing.
  bool take(double& samples, Turn& turn, Turn below);
  std::string waiting_for() const { return overlay_.waiting_for(); }
  void state(Archive& ar) { ar(group_, buffers_, samples_, mean_, extras_); }

 private:
  static constexpr std::uint32_t kParameters = 0, kExtras = 1;  // ranges
  std::uint64_t extras(const Turn&) const;

  Overlay& overlay_;
  std::uint32_t group_ = 0;
  bool buffers_ = false, samples_ = false;
  std::optional<Outcome> mean_, extras_;  // that came first
};

}  // namespace longhaul::sync::shuffle
