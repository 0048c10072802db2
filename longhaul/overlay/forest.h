#pragma once
// Many trees at once, planned so that all links of the network work. docs/overlay/forest.md
#include <memory>

#include "longhaul/overlay/replanner.h"
#include "longhaul/overlay/sites.h"
#include "longhaul/overlay/tree_attempt.h"

namespace longhaul::overlay {

struct ForestConfig {
  std::string phases = "streamed";
  std::uint32_t pieces = 1600;
  std::string rates = "configured";
  double drift = 0.2;
  double ema = 0.5;
  std::uint32_t probe_rounds = 20;
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
    visit(Field{.name = "rates",
                .doc = "configured: trees are planned by what the job says of its network; "
                       "learned: from that plan on by what its traffic reaches, and anew when that "
                       "changes",
                .choices = {"configured", "learned"}},
          self.rates);
    visit(Field{.name = "drift",
                .doc = "learned: by how much a rate has changed when planning anew is tried",
                .max = 10,
                .unit = "share",
                .positive = true},
          self.drift);
    visit(Field{.name = "ema",
                .doc = "learned: weight of a new figure against what was known, if they differ by "
                       "less than `drift`",
                .max = 1,
                .positive = true},
          self.ema);
    visit(Field{.name = "probe_rounds",
                .doc = "learned: after so many rounds without another plan a pair that none of "
                       "its trees uses is tried with a small part of the vector; 0: never",
                .max = 1e9,
                .unit = "rounds"},
          self.probe_rounds);
  }
};

class PlannedForest final : public Topology, private ReplanningTopology {
 public:
  // `network`: what the job says of it, which has the sites of all nodes. Null: all links are
  // alike.
  PlannedForest(const ForestConfig& config, std::shared_ptr<const flow::Wan> network,
                const Place& place);

  Partition cut(std::uint64_t length, std::uint32_t, std::uint64_t chunk) const override {
    return {length, 1, piece_length(length, config_.pieces, chunk)};
  }
  std::optional<Forest> forest(const Partition&, const GroupMembers&) const override;
  std::unique_ptr<Attempt> open(const ExchangeSpec& spec) const override {
    return std::make_unique<TreeAttempt>(spec, config_.phases == "streamed", true);
  }

  void on_team(std::uint32_t group, const GroupMembers*) override;
  void state(Archive&) override;
  ReplanningTopology* replanning() override { return this; }

  const forest::Replanner& replanner() const { return replanner_; }

 private:
  // ReplanningTopology
  Standing standing(const VectorId&) const override;
  Forest forest_since(Round, const Partition&) const override;
  void on_ready(const VectorId&, const Partition&, TopologyOutput&) override;
  void on_contributed(const VectorId&, Time now) override;
  void on_mean_ready(const VectorId&, const Partition&, Time now, TopologyOutput&) override;
  void on_moved(const Moved&, Time now) override;
  Status take(Rank from, const TopologyMessage&, TopologyOutput&) override;

  const ForestConfig config_;
  const std::uint64_t parameters_, longest_piece_;  // of the job; 0: without a model
  forest::Replanner replanner_;
};

}  // namespace longhaul::overlay
