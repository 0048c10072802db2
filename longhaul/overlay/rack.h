#pragma once
// Groups of workers, each with one that aggregates, below one server. docs/overlay/rack.md
#include <algorithm>
#include <cmath>

#include "longhaul/overlay/tree_attempt.h"

namespace longhaul::overlay {

// With the server at its root; `members`: by place, ascending in rank.
// Group g are the members from g n/G to (g+1) n/G, rounded down; the lowest aggregates.
inline Tree rack_tree(std::uint32_t members, std::uint32_t groups, std::uint32_t server) {
  if (groups == 0) groups = std::uint32_t(std::lround(std::sqrt(double(members))));
  groups = std::min(groups, members);
  Tree tree{.root = server, .reduce_to = {}, .spread_from = {}};
  for (std::uint64_t group = 0; group < groups; ++group) {
    const auto first = std::uint32_t(group * members / groups);
    const auto behind = std::uint32_t((group + 1) * members / groups);
    tree.reduce_to.push_back(server);
    tree.reduce_to.resize(behind, first);
  }
  tree.reduce_to.resize(std::max(members, server + 1), server);
  tree.reduce_to[server] = server;
  tree.spread_from = tree.reduce_to;
  return tree;
}

class Rack final : public ServedTopology {
 public:
  struct Config {
    std::string phases = "streamed";
    std::uint32_t groups = 0;
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(phases,
                     .doc =
                         "streamed: a piece goes on when it is mixed, or its mean is there; "
                         "sequential: when the whole vector is",
                     .choices = {"streamed", "sequential"});
      LONGHAUL_FIELD(
          groups,
          .doc =
              "into how many groups the workers are cut, in the order of their ranks; 0: "
              "the square root of their number, rounded",
          .max = 1 << 20);
    }
  };

  Rack(const Config& config, const OverlayParts& parts, const Place&)
      : ServedTopology(parts.server),
        streamed_(config.phases == "streamed"),
        groups_(config.groups) {}
  std::optional<Forest> forest(const Partition& grid, const GroupMembers& team) const override {
    const std::uint32_t server = team.place_of(team.server.value()).value();
    return Forest{{rack_tree(std::uint32_t(team.members.size()), groups_, server)},
                  std::vector<std::uint32_t>(grid.pieces(), 0)};
  }

  std::unique_ptr<Attempt> open(const ExchangeSpec& spec) const override {
    return std::make_unique<TreeAttempt>(spec, streamed_);
  }

 private:
  const bool streamed_;
  const std::uint32_t groups_;
};

}  // namespace longhaul::overlay
