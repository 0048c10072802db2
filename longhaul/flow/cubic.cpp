#include "longhaul/flow/cubic.h"

#include <algorithm>
#include <cmath>

namespace longhaul::flow {
namespace {

constexpr double kC = 0.4;                                // section 5.1
constexpr double kBeta = 0.7;                             // 4.6
constexpr double kAlpha = 3 * (1 - kBeta) / (1 + kBeta);  // 4.3

double seconds(CubicWindow::Time t) { return double(t.count()) * 1e-9; }

double cubic_window(double loss, double rtt_s) {
  return std::pow(kC * (3 + kBeta) / (4 * (1 - kBeta)), 0.25) * std::pow(rtt_s / loss, 0.75);
}

double reno_friendly_window(double loss) {
  return std::sqrt(kAlpha * (1 + kBeta) / (2 * (1 - kBeta) * loss));
}

}  // namespace

double cubic_growth(double after_s) { return kC * after_s * after_s * after_s; }

double cubic_mean_window(double loss, double rtt_s) {
  return std::max({1.0, cubic_window(loss, rtt_s), reno_friendly_window(loss)});
}

double CubicWindow::round(Time now, double rtt_s, Lost lost, bool used) {
  if (silent_) {
    silent_ = false;
    begin_epoch(now);
  } else if (recovering_) {
    recovering_ = lost.any;  // belongs to the same loss: no further decrease
    if (!recovering_) begin_epoch(now);
  } else if (lost.any) {
    lose(lost.again);
  } else if (used) {
    grow(now, rtt_s);
  }
  return silent_ ? timeout_s(rtt_s) : rtt_s;
}

void CubicWindow::lose(bool again) {
  peak_ = packets_ < peak_ ? packets_ * (1 + kBeta) / 2 : packets_;
  threshold_ = std::max(2.0, std::floor(packets_ * kBeta));
  packets_ = again ? 1 : threshold_;
  (again ? silent_ : recovering_) = true;
}

void CubicWindow::begin_epoch(Time now) {
  since_ = now;
  least_ = reno_ = packets_;
}

double CubicWindow::cubic(double after_s) const {
  const double k = std::cbrt(std::max(0.0, peak_ - least_) / kC);
  return kC * std::pow(after_s - k, 3) + std::max(peak_, least_);
}

void CubicWindow::grow(Time now, double rtt_s) {
  if (packets_ < threshold_) {
    packets_ = std::min(2 * packets_, threshold_);
    return begin_epoch(now);
  }
  const double reno = std::floor(reno_);  // of the round before
  reno_ += kAlpha;
  const double target = std::min(cubic(seconds(now - since_) + rtt_s), 1.5 * packets_);
  packets_ = std::max({packets_, reno, target});
}

void CubicWindow::idle(double idle_s, double rtt_s, double first) {
  const double halvings = std::floor(idle_s / timeout_s(rtt_s));
  if (halvings < 1) return;
  threshold_ = std::max(threshold_, 0.75 * packets_);
  packets_ = std::max(std::min(first, packets_), packets_ * std::exp2(-halvings));
}

}  // namespace longhaul::flow
