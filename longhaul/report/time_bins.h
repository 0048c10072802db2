#pragma once
// Durations summed over time in a fixed number of bins, whatever the length of the run: when the
// time passes the last bin, bins are joined in pairs and become twice as wide.
#include <algorithm>
#include <cstddef>
#include <vector>

namespace longhaul::report {

class TimeBins {
 public:
  static constexpr std::size_t kBins = 512;

  explicit TimeBins(double width_s = 1.0 / 64) : width_(width_s) {}

  // Adds the overlap of [from, to), in seconds, to each bin. Times below 0 count as 0.
  void add(double from, double to) {
    from = std::max(from, 0.0);
    if (!(to > from)) return;
    cover(to);
    for (auto bin = std::size_t(from / width_); bin < kBins && double(bin) * width_ < to; ++bin)
      sums_[bin] += std::min(to, double(bin + 1) * width_) - std::max(from, double(bin) * width_);
  }
  // Widens the bins until the time lies in one.
  void cover(double time_s) {
    while (time_s > width_ * double(kBins) && width_ < 1e12) {
      for (std::size_t i = 0; i < kBins / 2; ++i) sums_[i] = sums_[2 * i] + sums_[2 * i + 1];
      std::fill(sums_.begin() + std::ptrdiff_t(kBins / 2), sums_.end(), 0.0);
      width_ *= 2;
    }
  }
  double width_s() const { return width_; }
  const std::vector<double>& sums() const { return sums_; }

 private:
  double width_;
  std::vector<double> sums_ = std::vector<double>(kBins, 0.0);
};

}  // namespace longhaul::report
