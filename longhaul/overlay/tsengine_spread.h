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
  Spread(Rank server, const std::vector<Rank>& receivers);

  bool open() const { return !stands_.empty(); }
  // It has come to `rank`; false: that was known from itself.
  bool received(Rank rank);
  void assigned(Rank rank) { stands_.at(rank) = Stand::assigned; }
  void served(Rank rank);  // says who sent it
  void failed(Rank rank);  // it did not come in time
  // Those who are to get it and take nothing else now, ascending.
  std::vector<Rank> candidates(const Slots&) const;
  bool all_have() const { return lacking_ == 0; }
  // Will not be asked to send it any more; each holder once.
  void let_go(Rank rank);
  bool over() const { return open() && going_ == 0; }
  void state(Archive& ar) { ar(stands_, lacking_, going_); }

 private:
  enum class Stand : std::uint8_t { lacks, assigned, said, has, gone };
  std::map<Rank, Stand> stands_;
  std::size_t lacking_ = 0;  // have not got it
  std::size_t going_ = 0;    // have not been let go
};

}  // namespace longhaul::overlay::tsengine
