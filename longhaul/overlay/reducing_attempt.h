#pragma once
// The base of attempts that add up pieces from the parts of all members (reduction.h).
#include <algorithm>
#include <numeric>

#include "longhaul/overlay/attempt.h"
#include "longhaul/overlay/reduction.h"

namespace longhaul::overlay {

class ReducingAttempt : public Attempt {
 public:
  using Attempt::Attempt;

 protected:
  void expect_weights(std::size_t pieces) {
    weights_.assign(spec_.team->members.size(), kUnknownWeight);
    unknown_ = std::uint32_t(weights_.size());
    to_reduce_ = pieces;
  }
  std::uint32_t self() const { return *spec_.team->index_of(spec_.team->self); }
  bool all_known() const { return unknown_ == 0; }
  void set_weight(std::uint32_t member, double weight) {
    weights_[member] = weight;
    --unknown_;
    givers_ += weight > 0;
    if (all_known()) total_ = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  }
  // `reduces`: this node adds up pieces of it.
  Status take_weight(Rank from, double weight, bool reduces) {
    const auto member = spec_.team->index_of(from);
    if (!member || !reduces) return refuse(from, "a share for a node that owns nothing of it");
    if (weights_[*member] != kUnknownWeight) return refuse(from, "a second share");
    set_weight(*member, weight);
    return Ok{};
  }
  // `piece` has its `reduction` until it is `done`.
  Result<bool> admit_part(Rank from, const auto& piece) const {
    const auto member = spec_.team->index_of(from);
    if (!member || !(weights_[*member] > 0))
      return refuse(from, "a part without a share before it");
    if (piece.done || piece.reduction.has(*member))
      return refuse(from, "a part for the second time");
    return true;
  }
  Status add_part(Arrival&& arrival, auto& piece) {
    const std::uint32_t member = *spec_.team->index_of(arrival.from);
    if (arrival.weight != weights_[member])
      return refuse(arrival.from, "a weight unlike its share");
    piece.reduction.add(member, std::move(arrival.values), weights_);
    return Ok{};
  }
  // Returns true if no member contributes: the mean is empty.
  bool is_empty(AttemptContext& context) {
    if (!all_known() || givers_ > 0) return false;
    to_reduce_ = 0;
    if (spec_.plan->root() == spec_.team->self) tell_contributors(weights_, context);
    return true;
  }
  // Returns the members whose parts are missing, except for this node.
  template <class P>
  std::vector<Rank> lacking(const std::vector<P>& pieces) const {
    std::vector<Rank> ranks;
    for (std::uint32_t i = 0; i < weights_.size(); ++i) {
      const bool missing = std::ranges::any_of(pieces, [&](const P& piece) {
        return weights_[i] != 0 && !piece.done && !piece.reduction.has(i);
      });
      if (missing && spec_.team->members[i] != spec_.team->self)
        ranks.push_back(spec_.team->members[i]);
    }
    return ranks;
  }
  std::string roster_text() const {
    return ": roster of rank " + std::to_string(spec_.plan->root());
  }
  void state(Archive& ar) override {
    Attempt::state(ar);
    ar(weights_, unknown_, givers_, total_);
  }

  std::vector<double> weights_;  // by member; only where pieces are added up
  std::uint32_t unknown_ = 0;    // members whose weight is not known
  std::uint32_t givers_ = 0;     // members known to contribute
  double total_ = 0;             // sum of all weights, in rank order, once all are known
  std::size_t to_reduce_ = 0;    // pieces
};

}  // namespace longhaul::overlay
