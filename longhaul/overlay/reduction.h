#pragma once
// The weighted mean of one piece: sum of a_i z_i / sum of a_i. The sums are in double, added in
// rank order and rounded once, whatever the order in which parts arrive. The mean of equal parts is
// bit-equal to them: the relative error of sum and quotient is about n 2^-53, far below half a unit
// of a float. With `of_senders` the sum of a_i covers, value by value, the parts in which the value
// is not 0. With a sparse codec these parts come from the nodes that sent it
// (Codec::mean_of_senders).
#include <map>
#include <span>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/base/check.h"

namespace longhaul::overlay {

// Weight of a member until its Announcement has arrived.
inline constexpr double kUnknownWeight = -1;

class Reduction {
 public:
  explicit Reduction(bool of_senders = false) : of_senders_(of_senders) {}

  // Weights by member; 0: no contribution; kUnknownWeight: not known yet.
  using Weights = std::span<const double>;

  bool has(std::uint32_t member) const { return member < next_ || waiting_.contains(member); }
  // Returns true if a part of this member is the next to be added.
  bool wants(std::uint32_t member, Weights weights) {
    advance(weights);
    return next_ == member;
  }

  // Takes a part. A phantom's values are empty.
  void add(std::uint32_t member, std::vector<float> values, Weights weights) {
    LH_CHECK(!has(member));
    waiting_.emplace(member, std::move(values));
    advance(weights);
  }

  // Adds all parts whose turn has arrived; returns true when all parts are in.
  bool advance(Weights weights) {
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
      const double weight = weights[next_];
      const std::span<const float> values = part->second;
      const std::span<double> sum = sum_, sent = sent_;
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weight * double(values[i]);
      for (std::size_t i = 0; i < sent.size(); ++i) sent[i] += values[i] != 0 ? weight : 0;
      waiting_.erase(part);
      ++next_;
    }
    return true;
  }

  std::vector<float> mean(double total) const {
    std::vector<float> mean(sum_.size());
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const double weights = of_senders_ ? sent_[i] : total;
      mean[i] = weights > 0 ? float(sum_[i] / weights) : 0.f;
    }
    return mean;
  }

  std::size_t waiting() const { return waiting_.size(); }  // parts kept because others are missing
  void state(Archive& ar) {
    ar(of_senders_, next_, sum_, sent_, waiting_);
    if (ar.loading() && sent_.size() != (of_senders_ ? sum_.size() : 0))
      ar.fail("holds a mean of senders that does not fit together");
  }

 private:
  bool of_senders_;
  std::uint32_t next_ = 0;  // member whose part is added next
  std::vector<double> sum_;
  std::vector<double> sent_;  // of_senders: by value, the weights of the nodes that sent it
  std::map<std::uint32_t, std::vector<float>> waiting_;  // parts that arrived before their turn
};

}  // namespace longhaul::overlay
