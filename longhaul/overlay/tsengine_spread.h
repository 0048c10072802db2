#pragma once
// Distribution of one bucket: who has it, who is to get it, and which holders are free to send it.
// Pure: no network, no clock.
#include <map>
#include <vector>

#include "longhaul/overlay/tsengine_slots.h"

namespace longhaul::overlay::tsengine {

class Spread {
 public:
  Spread() = default;
  // To these, none of whom is the server, which has it.
  Spread(Rank server, const std::vector<Rank>& receivers)
      : lacking_(receivers.size()), going_(receivers.size() + 1) {
    for (const Rank rank : receivers) stands_[rank] = Stand::lacks;
    LH_CHECK(stands_.emplace(server, Stand::has).second);
  }

  bool open() const { return !stands_.empty(); }
  // It has come to `rank`; false: that was known from itself.
  bool received(Rank rank) {
    const auto stand = stands_.find(rank);
    if (stand == stands_.end() || stand->second >= Stand::has) return false;
    if (stand->second != Stand::said) --lacking_;
    stand->second = Stand::has;
    return true;
  }

  void assigned(Rank rank) { stands_.at(rank) = Stand::assigned; }
  // says who sent it
  void served(Rank rank) {
    Stand& stand = stands_.at(rank);
    if (stand >= Stand::said) return;
    --lacking_;
    stand = Stand::said;
  }

  // it did not come in time
  void failed(Rank rank) {
    Stand& stand = stands_.at(rank);
    if (stand == Stand::assigned) stand = Stand::lacks;
  }

  // Those who are to get it and take nothing else now, ascending.
  std::vector<Rank> candidates(const Slots& slots) const {
    std::vector<Rank> ranks;
    for (const auto& [rank, stand] : stands_)
      if (stand == Stand::lacks && slots.in_free(rank)) ranks.push_back(rank);
    return ranks;
  }

  bool all_have() const { return lacking_ == 0; }
  // Will not be asked to send it any more; each holder once.
  void let_go(Rank rank) {
    LH_CHECK(stands_.at(rank) == Stand::has);
    stands_.at(rank) = Stand::gone;
    --going_;
  }

  bool over() const { return open() && going_ == 0; }
  void state(Archive& ar) { ar(stands_, lacking_, going_); }

 private:
  enum class Stand : std::uint8_t { lacks, assigned, said, has, gone };
  std::map<Rank, Stand> stands_;
  std::size_t lacking_ = 0;  // have not got it
  std::size_t going_ = 0;    // have not been let go
};

}  // namespace longhaul::overlay::tsengine
