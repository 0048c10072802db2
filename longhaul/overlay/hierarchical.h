#pragma once
// Inside each site over its LAN first, then between the sites, one node leading each; and back.
// docs/overlay/hierarchical.md
#include <memory>

#include "longhaul/overlay/sites.h"
#include "longhaul/overlay/tree_attempt.h"

namespace longhaul::overlay {

struct HierarchicalConfig {
  std::string phases = "streamed";
  std::string between = "hub";
  std::uint32_t pieces = 400;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "phases",
                .doc = "streamed: a piece goes on when it is mixed, or its mean is there; "
                       "sequential: when all of its tree is",
                .choices = {"streamed", "sequential"}},
          self.phases);
    visit(Field{.name = "between",
                .doc = "which way sites' means go between the sites: as the vectors of workers "
                       "do over the overlay of that name",
                .choices = {"hub", "rack", "binary", "ring", "forest"}},
          self.between);
    visit(Field{.name = "pieces",
                .doc = "into which a vector is cut, or more; none shorter than 4,096 values or "
                       "longer than a chunk. A site's nodes lead it for a piece each in turn",
                .min = 1,
                .max = 1 << 20},
          self.pieces);
  }
};

// The trees between sites, by the name of the overlay: hub, rack and binary have one, with the site
// `root` as its root; ring has one for each owner, which passes its part of the vector round.
std::vector<SiteTree> trees_between(std::string_view overlay, const SiteGroups&,
                                    std::uint32_t root);

class Hierarchical final : public Topology {
 public:
  // `server`: [roles] server; its site is the root of hub, rack and binary, or while it is absent
  // or lost that of the lowest live worker. `network`: as of forest.
  Hierarchical(const HierarchicalConfig& config, std::optional<Rank> server,
               std::shared_ptr<const flow::Wan> network, const Place& place);

  Partition cut(std::uint64_t length, std::uint32_t, std::uint64_t chunk) const override {
    return {length, 1, piece_length(length, config_.pieces, chunk)};
  }
  std::optional<Rank> server(const std::vector<Rank>&, const View& view) const override {
    return server_ && view.has(*server_) ? server_ : std::nullopt;
  }
  std::optional<Forest> forest(const Partition&, const GroupMembers&) const override;
  std::unique_ptr<Attempt> open(const ExchangeSpec& spec) const override {
    return std::make_unique<TreeAttempt>(spec, config_.phases == "streamed", true);
  }

 private:
  const HierarchicalConfig config_;
  const std::optional<Rank> server_;  // of hub, rack and binary
  const std::shared_ptr<const flow::Wan> network_;
  const std::vector<std::uint32_t> site_of_;  // by rank
};

}  // namespace longhaul::overlay
