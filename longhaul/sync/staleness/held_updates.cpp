#include "longhaul/sync/staleness/held_updates.h"

#include <algorithm>

#include "longhaul/base/archive.h"
#include "longhaul/base/check.h"

namespace longhaul::sync::staleness {

void HeldUpdates::Update::state(Archive& ar) {
  ar(iteration, origin, weight, rate);
  archive_snapshot(ar, values);
}

void HeldUpdates::begin(Round iteration, std::span<const float> x) {
  if (compensation_ > 0)
    past_[iteration] = std::make_shared<const std::vector<float>>(x.begin(), x.end());
}

void HeldUpdates::hold(Round due, Update update) {
  LH_CHECK(due > update.iteration && update.values);
  const Key key{due, update.iteration, update.origin};
  LH_CHECK(held_.emplace(key, std::move(update)).second);
}

HeldUpdates::Applied HeldUpdates::apply_up_to(Round due, Round now, std::span<float> x) {
  Applied applied;
  if (held_.empty() || std::get<0>(held_.begin()->first) > due) {
    forget_past(now);
    return applied;
  }
  std::vector<double> sum(x.begin(), x.end());
  while (!held_.empty() && std::get<0>(held_.begin()->first) <= due) {
    const Update& update = held_.begin()->second;
    LH_CHECK(now > update.iteration);
    add(update, sum);
    ++applied.updates;
    applied.delays += now - update.iteration;
    held_.erase(held_.begin());
  }
  std::transform(sum.begin(), sum.end(), x.begin(), [](double value) { return float(value); });
  applied_ += applied.updates;
  forget_past(now);
  return applied;
}

void HeldUpdates::add(const Update& update, std::span<double> sum) const {
  const std::vector<float>& u = *update.values;
  if (u.empty()) return;  // a phantom
  LH_CHECK(u.size() == sum.size());
  const double weight = scale_ * update.weight;
  if (compensation_ == 0) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weight * double(u[i]);
    return;
  }
  const std::vector<float>& x_t = *past_.at(update.iteration);
  const double strength = compensation_ / update.rate;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const double v = double(u[i]);
    sum[i] += weight * (v - strength * v * v * (sum[i] - double(x_t[i])));
  }
}

// The x_t that no held update was computed at any more. That of `now` is still to come.
void HeldUpdates::forget_past(Round now) {
  std::erase_if(past_, [&](const auto& one) {
    return one.first < now && std::none_of(held_.begin(), held_.end(), [&](const auto& held) {
             return std::get<1>(held.first) == one.first;
           });
  });
}

void HeldUpdates::state(Archive& ar) {
  std::map<Round, std::vector<float>> past;
  for (const auto& [iteration, x] : past_) past[iteration] = *x;
  ar(held_, past, applied_);
  if (!ar.loading()) return;
  past_.clear();
  for (auto& [iteration, x] : past)
    past_[iteration] = std::make_shared<const std::vector<float>>(std::move(x));
}

}  // namespace longhaul::sync::staleness
