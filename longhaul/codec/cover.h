#pragma once
// Which elements of a vector something was done for: disjoint stretches, ascending, none touching
// the next.
#include <map>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"

namespace longhaul::codec {

class Cover {
 public:
  // The parts of `at` that are not covered, ascending.
  std::vector<Range> gaps(Range at) const;
  void add(Range at);
  void clear() { ends_.clear(); }
  bool empty() const { return ends_.empty(); }
  std::vector<Range> ranges() const;
  // Behind the last element that is covered.
  std::uint64_t end() const { return ends_.empty() ? 0 : ends_.rbegin()->second; }
  void state(Archive&);

 private:
  std::map<std::uint64_t, std::uint64_t> ends_;  // offset -> end
};

}  // namespace longhaul::codec
