#include "longhaul/overlay/reduction.h"

#include "longhaul/base/check.h"

namespace longhaul::overlay {
namespace {

void add_scaled(std::span<double> sum, double weight, std::span<const float> values) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weight * double(values[i]);
}

void add_senders(std::span<double> sent, double weight, std::span<const float> values) {
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] += values[i] != 0 ? weight : 0;
}

}  // namespace

bool Reduction::wants(std::uint32_t member, Weights weights) {
  advance(weights);
  return next_ == member;
}

void Reduction::add(std::uint32_t member, std::vector<float> values, Weights weights) {
  LH_CHECK(!has(member));
  waiting_.emplace(member, std::move(values));
  advance(weights);
}

bool Reduction::advance(Weights weights) {
  while (next_ < weights.size()) {
    if (weights[next_] == 0) {
      ++next_;
      continue;
    }
    const auto part = waiting_.find(next_);
    if (part == waiting_.end()) return false;
    if (sum_.empty()) {
      sum_.assign(part->second.size(), 0.0);
      if (of_senders_) sent_ = sum_;
    }
    LH_CHECK(part->second.size() == sum_.size());
    add_scaled(sum_, weights[next_], part->second);
    if (of_senders_) add_senders(sent_, weights[next_], part->second);
    waiting_.erase(part);
    ++next_;
  }
  return true;
}

std::vector<float> Reduction::mean(double total) const {
  std::vector<float> mean(sum_.size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const double weights = of_senders_ ? sent_[i] : total;
    mean[i] = weights > 0 ? float(sum_[i] / weights) : 0.f;
  }
  return mean;
}

void Reduction::state(Archive& ar) {
  ar(of_senders_, next_, sum_, sent_, waiting_);
  if (ar.loading() && sent_.size() != (of_senders_ ? sum_.size() : 0))
    ar.fail("holds a mean of senders that does not fit together");
}

}  // namespace longhaul::overlay
