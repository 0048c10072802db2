#pragma once
// Weighted max-min fair rates of flows over links, by progressive filling: the rates of all flows
// rise together, each as its weight says; when a link is full, its flows stay as they are and the
// others go on. (Bertsekas and Gallager, "Data Networks", 2nd edition, section 6.5.2.)
//
// Flows of a higher priority are filled first; a lower one gets what they leave. A flow's own cap
// ends its rise as a full link would.
//
// The rates are a function of the set of flows: neither the order of flows nor that of links, nor
// flows that share no link with it directly or by others, change a bit of a flow's rate. For that
// weights are whole numbers, so that sums of them are exact, and all that is full at one level is
// frozen at once.
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "longhaul/flow/rate.h"

namespace longhaul::flow {

struct FairFlow {
  std::uint32_t first = 0;  // its links: a stretch of the list of crossings, each link once
  std::uint32_t links = 0;
  std::uint32_t weight = 1;  // > 0
  std::uint8_t priority = 0;
  double cap = kUnlimited;  // of its rate; >= 0
};

// Holds only reusable scratch memory.
class FairShare {
 public:
  // The rate of each flow, in the units of the capacities (>= 0, finite). A flow that nothing
  // limits has kUnlimited. Valid until the next call.
  const std::vector<double>& solve(std::span<const double> capacities,
                                   std::span<const FairFlow> flows,
                                   std::span<const std::uint32_t> crossings);

 private:
  struct Link {
    double left = 0;           // of the capacity
    std::uint64_t rising = 0;  // weights of its flows whose rates still rise
    std::uint64_t frozen = 0;  // weights that stop at the level of now
    std::uint32_t begin = 0;   // its flows in members_; those of one priority
    std::uint32_t count = 0;
    bool full = false;
  };
  using Level = std::pair<double, std::uint32_t>;  // of a link or of a flow's cap

  void fill(std::span<const FairFlow> flows, std::span<const std::uint32_t> chosen);
  void gather(std::span<const FairFlow> flows, std::span<const std::uint32_t> chosen);
  void sink(Level level);
  double next_level();
  void freeze(const FairFlow& flow, double rate, double& into);
  void settle(double level);
  std::span<const std::uint32_t> links_of(const FairFlow& flow) const {
    return crossings_.subspan(flow.first, flow.links);
  }

  std::span<const std::uint32_t> crossings_;
  std::vector<double> rates_;
  std::vector<Link> links_;
  std::vector<std::uint32_t> order_;    // flows by priority
  std::vector<std::uint32_t> used_;     // links of the priority that is being filled
  std::vector<std::uint32_t> members_;  // flows, link by link
  std::vector<std::uint32_t> touched_;  // links with flows that stop at the level of now
  std::vector<Level> heap_;             // of links: at which level each is full, or earlier
  std::vector<Level> caps_;             // heap of flows'
};

}  // namespace longhaul::flow
