#pragma once
// Aggregation of one bucket, "minimal waiting delay": whoever is ready is paired with whoever else
// is. Who sends drops out, who receives becomes ready again; the server only receives. Sums so are
// added in the order of the pairs, never in that of arrival. Pure: no network, no clock.
#include <algorithm>
#include <optional>
#include <vector>

#include "longhaul/overlay/tsengine_choice.h"
#include "longhaul/overlay/tsengine_slots.h"

namespace longhaul::overlay::tsengine {

struct Pair {
  Rank from = 0;
  Rank to = 0;
  friend bool operator==(const Pair&, const Pair&) = default;
};

class Gather {
 public:
  Gather() = default;
  // The server is ready from the start.
  explicit Gather(Rank server) : server_(server), ready_{server} {}

  void ready(Rank rank) {
    LH_CHECK(!is_ready(rank));
    ready_.push_back(rank);
  }

  bool is_ready(Rank rank) const {
    return std::find(ready_.begin(), ready_.end(), rank) != ready_.end();
  }

  // The first two who are ready, in the order in which they became so, with a free slot each. Of
  // two workers the one with the faster link to the other sends; of equal ones the later one.
  std::optional<Pair> match(const Slots& slots, const Rate& rate) {
    const auto sends = [&](Rank r) { return r != server_ && slots.out_free(r); };
    const auto takes = [&](Rank r) { return slots.in_free(r); };
    if (std::none_of(ready_.begin(), ready_.end(), sends)) return std::nullopt;
    if (std::none_of(ready_.begin(), ready_.end(), takes)) return std::nullopt;
    for (auto first = ready_.begin(); first != ready_.end(); ++first) {
      if (!sends(*first) && !takes(*first)) continue;
      for (auto second = first + 1; second != ready_.end(); ++second) {
        const Pair found = pair(*first, *second, rate);
        if (!slots.out_free(found.from) || !slots.in_free(found.to)) continue;
        ready_.erase(second);
        ready_.erase(first);
        return found;
      }
    }
    return std::nullopt;
  }

  void close() { ready_.clear(); }  // all are counted
  void state(Archive& ar) { ar(server_, ready_); }

 private:
  Pair pair(Rank first, Rank second, const Rate& rate) const {
    if (first == server_) return {second, first};
    if (second == server_) return {first, second};
    const double there = rate(first, second).value_or(-1), back = rate(second, first).value_or(-1);
    return there > back ? Pair{first, second} : Pair{second, first};
  }

  Rank server_ = 0;
  std::vector<Rank> ready_;  // in the order in which they became so
};

}  // namespace longhaul::overlay::tsengine
