#pragma once
// Groups of workers, each with one that aggregates, below one server. docs/overlay/rack.md
#include "longhaul/overlay/tree_attempt.h"

namespace longhaul::overlay {

struct RackConfig {
  std::string phases = "streamed";
  std::uint32_t groups = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "phases",
                .doc = "streamed: a piece goes on when it is mixed, or its mean is there; "
                       "sequential: when the whole vector is",
                .choices = {"streamed", "sequential"}},
          self.phases);
    visit(Field{.name = "groups",
                .doc = "into how many groups the workers are cut, in the order of their ranks; 0: "
                       "the square root of their number, rounded",
                .max = 1 << 20},
          self.groups);
  }
};

// With the server at its root; `members`: by place, ascending in rank.
Tree rack_tree(std::uint32_t members, std::uint32_t groups, std::uint32_t server);

class Rack final : public Topology {
 public:
  // `server`: as of hub.
  Rack(const RackConfig& config, std::optional<Rank> server)
      : streamed_(config.phases == "streamed"), groups_(config.groups), server_(server) {}
  Partition cut(std::uint64_t length, std::uint32_t, std::uint64_t chunk) const override {
    return {length, 1, chunk};
  }
  std::optional<Rank> server(const std::vector<Rank>& members, const View& view) const override {
    return serving(server_, members, view);
  }
  std::optional<Forest> forest(const Partition&, const GroupMembers&) const override;
  std::unique_ptr<Attempt> open(const ExchangeSpec& spec) const override {
    return std::make_unique<TreeAttempt>(spec, streamed_);
  }

 private:
  const bool streamed_;
  const std::uint32_t groups_;
  const std::optional<Rank> server_;
};

}  // namespace longhaul::overlay
