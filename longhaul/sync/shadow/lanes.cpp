#include "longhaul/sync/shadow/lanes.h"

#include "longhaul/sync/flat.h"

namespace longhaul::sync::shadow {

bool Lanes::runs(std::uint32_t lane) const {
  return std::any_of(running_.begin(), running_.end(),
                     [&](const Running& one) { return one.lane == lane; });
}

// The first steps end in slots 0, 1, 2 ...: as if the lanes had begun one after another.
void Lanes::start(std::uint32_t lane, Turn& turn) {
  LH_CHECK(lane < count_ && !runs(lane));
  Running next{.lane = lane, .due = started_ < count_ ? started_ : slot_ + count_ - 1};
  ++started_;
  if (count_ > 1) {
    const auto w = parameters(turn);
    next.began_at.assign(w.begin(), w.end());
  }
  running_.push_back(std::move(next));
}

bool Lanes::compute(std::uint32_t steps, TimerId timer, const Machine& of, Turn& turn) {
  LH_CHECK(!running_.empty());
  if (is_waiting_) return false;
  if (count_ == 1) {
    turn.compute(LocalStep{}, steps);
    return true;
  }
  if (running_.front().due > slot_) {
    is_waiting_ = true;
    turn.set_timer(of, timer, turn.now() + slot_time_);
    return false;
  }
  const auto w = parameters(turn);
  current_.assign(w.begin(), w.end());
  std::ranges::copy(running_.front().began_at, w.begin());
  turn.compute(Gradient{});
  return true;
}

void Lanes::slot_passed() {
  if (std::exchange(is_waiting_, false)) ++slot_;
}

std::optional<std::uint32_t> Lanes::computed(Turn& turn) {
  if (count_ > 1 && !is_applying_) {
    std::ranges::copy(current_, parameters(turn).begin());
    current_ = {};
    is_applying_ = true;
    turn.compute(ApplyGradient{});
    return std::nullopt;
  }
  is_applying_ = false;
  ++slot_;
  LH_CHECK(!running_.empty());
  const std::uint32_t lane = running_.front().lane;
  running_.pop_front();
  return lane;
}

}  // namespace longhaul::sync::shadow
