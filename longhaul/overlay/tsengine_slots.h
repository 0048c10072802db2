#pragma once
// No node has more than one transfer in and one out, whatever the bucket, round and vector.
#include <set>

#include "longhaul/base/archive.h"
#include "longhaul/base/check.h"
#include "longhaul/core/types.h"

namespace longhaul::overlay::tsengine {

class Slots {
 public:
  bool out_free(Rank rank) const { return !out_.contains(rank); }
  bool in_free(Rank rank) const { return !in_.contains(rank); }
  void take(Rank from, Rank to) {
    const bool free = out_.insert(from).second && in_.insert(to).second;
    LH_CHECK(free && from != to);
  }
  void free_out(Rank rank) { out_.erase(rank); }
  void free_in(Rank rank) { in_.erase(rank); }
  void clear() { in_.clear(), out_.clear(); }
  bool empty() const { return in_.empty() && out_.empty(); }
  void state(Archive& ar) { ar(in_, out_); }

 private:
  std::set<Rank> in_, out_;
};

}  // namespace longhaul::overlay::tsengine
