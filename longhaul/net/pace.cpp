#include "longhaul/net/pace.h"

#include <algorithm>

namespace longhaul::net {

void Pace::begin(Time now, const Work& work, bool at_once) {
  const std::uint64_t number = number_++;
  started_ = now;
  if (!duration_) return;
  if (at_once) started_ = due_;
  const Time at = at_once ? ideal_ : now;
  length_ = duration_(number, at, work);
  ideal_ = at + length_;
}

Time Pace::done(Time now) {
  due_ = duration_ ? std::max(now, ideal_) : now;
  if (length_ > Time{0}) {
    ++figures_.steps;
    figures_.overruns += now > ideal_;
  }
  return due_ - started_;
}

}  // namespace longhaul::net
