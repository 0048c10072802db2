#include "longhaul/flow/max_flow.h"

#include <algorithm>
#include <limits>

namespace longhaul::flow {
namespace {

constexpr double kEmpty = 1e-12;
constexpr std::size_t kNone = ~std::size_t{0};

// The node before each on a shortest path from `start`; with `backwards` edges are walked to their
// beginning. kNone: not reached.
std::vector<std::size_t> search(const std::vector<double>& left, std::size_t nodes,
                                std::size_t start, bool backwards) {
  std::vector<std::size_t> before(nodes, kNone), queue = {start};
  before[start] = start;
  for (std::size_t at = 0; at < queue.size(); ++at)
    for (std::size_t next = 0; next < nodes; ++next) {
      const std::size_t here = queue[at];
      const double room = backwards ? left[next * nodes + here] : left[here * nodes + next];
      if (room <= kEmpty || before[next] != kNone) continue;
      before[next] = here;
      queue.push_back(next);
    }
  return before;
}

std::vector<bool> flags(const std::vector<std::size_t>& before, bool reached) {
  std::vector<bool> set;
  for (std::size_t node : before) set.push_back((node != kNone) == reached);
  return set;
}

}  // namespace

MaxFlow max_flow(std::vector<double> left, std::size_t nodes, std::size_t source, std::size_t sink,
                 double enough) {
  MaxFlow flow;
  while (flow.value < enough) {
    const auto before = search(left, nodes, source, false);
    if (before[sink] == kNone) {
      flow.unreached = flags(before, false);
      flow.reaching = flags(search(left, nodes, sink, true), true);
      return flow;
    }
    double room = std::numeric_limits<double>::infinity();
    for (std::size_t to = sink; to != source; to = before[to])
      room = std::min(room, left[before[to] * nodes + to]);
    for (std::size_t to = sink; to != source; to = before[to]) {
      left[before[to] * nodes + to] -= room;
      left[to * nodes + before[to]] += room;
    }
    flow.value += room;
  }
  return flow;
}

}  // namespace longhaul::flow
