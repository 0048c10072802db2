#pragma once
// The weighted mean of one piece: sum of a_i z_i / sum of a_i in double, added in rank order and
// rounded once, whatever the order in which parts come. Equal parts come back bit-equal: the
// relative error of sum and quotient is about n 2^-53, far below half a unit of a float.
// Of senders: the sum of a_i is, value by value, over those parts in which the value is not 0,
// which of a sparse codec are those that sent it (Codec::mean_of_senders).
#include <map>
#include <span>
#include <vector>

#include "longhaul/base/archive.h"

namespace longhaul::overlay {

// What a member brings; set once its Share is known.
inline constexpr double kUnknownWeight = -1;

class Reduction {
 public:
  explicit Reduction(bool of_senders = false) : of_senders_(of_senders) {}

  // `parts` by member; 0: brings nothing; kUnknownWeight: not heard of yet.
  using Weights = std::span<const double>;

  bool has(std::uint32_t member) const { return member < next_ || waiting_.contains(member); }
  // Is a part of this member the next to be added?
  bool wants(std::uint32_t member, Weights weights);
  // A phantom's values are empty.
  void add(std::uint32_t member, std::vector<float> values, Weights weights);
  // Adds what can be added; true when all parts are in.
  bool advance(Weights weights);
  std::vector<float> mean(double total) const;
  std::size_t waiting() const { return waiting_.size(); }  // parts kept because others miss
  void state(Archive&);

 private:
  bool of_senders_;
  std::uint32_t next_ = 0;  // member whose part is added next
  std::vector<double> sum_;
  std::vector<double> sent_;  // of senders: the weights of those that sent each value
  std::map<std::uint32_t, std::vector<float>> waiting_;  // came before their turn
};

}  // namespace longhaul::overlay
