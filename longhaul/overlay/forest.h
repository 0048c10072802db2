#pragma once
// Many trees at once, planned so that all links of the network work. docs/overlay/forest.md
#include <memory>

#include "longhaul/overlay/sites.h"
#include "longhaul/overlay/tree_attempt.h"

namespace longhaul::overlay {

struct ForestConfig {
  std::string phases = "streamed";
  std::uint32_t pieces = 400;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "phases",
                .doc = "streamed: a piece goes on when it is mixed, or its mean is there; "
                       "sequential: when all of its tree is",
                .choices = {"streamed", "sequential"}},
          self.phases);
    visit(Field{.name = "pieces",
                .doc = "into which a vector is cut, or more; none shorter than 4,096 values or "
                       "longer than a chunk. More of them fill and drain the trees faster",
                .min = 1,
                .max = 1 << 20},
          self.pieces);
  }
};

class PlannedForest final : public Topology {
 public:
  // `network`: what the job says of it, which has the sites of all nodes. Null: all links are
  // alike.
  PlannedForest(const ForestConfig& config, std::shared_ptr<const flow::Wan> network,
                const Place& place);

  std::uint32_t shards(std::uint32_t) const override { return 1; }
  std::uint64_t longest(std::uint64_t length, std::uint64_t chunk) const override {
    return piece_length(length, config_.pieces, chunk);
  }
  std::optional<Forest> forest(const Grid&, const Team&) const override;
  std::unique_ptr<Attempt> open(const Terms& terms) const override {
    return std::make_unique<TreeAttempt>(terms, config_.phases == "streamed", true);
  }

 private:
  const ForestConfig config_;
  const std::shared_ptr<const flow::Wan> network_;
  const std::vector<std::uint32_t> site_of_;  // by rank
};

}  // namespace longhaul::overlay
