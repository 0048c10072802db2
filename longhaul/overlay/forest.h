#pragma once
// Simultaneous trees, planned to use all links of the network. docs/overlay/forest.md
#include <memory>

#include "longhaul/overlay/belief.h"
#include "longhaul/overlay/replanner.h"
#include "longhaul/overlay/sites.h"
#include "longhaul/overlay/tree_attempt.h"

namespace longhaul::overlay {

class PlannedForest final : public Topology, private ReplanningTopology {
 public:
  struct Config {
    std::string phases = "streamed";
    std::uint32_t pieces = 1600;
    std::string rates = "configured";
    double drift = 0.2;
    double ema = 0.5;
    std::uint32_t probe_rounds = 20;
    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(phases,
                   "streamed: a piece is forwarded once it is mixed, or its mean has arrived; "
                   "sequential: once all of its tree is",
                   .choices = {"streamed", "sequential"});
      LONGHAUL_KEY(pieces,
                   "into which a vector is cut, or more; none shorter than 4,096 values or longer "
                   "than a chunk. More of them fill and drain the trees faster",
                   .min = 1, .max = 1 << 20);
      LONGHAUL_KEY(rates,
                   "configured: trees are planned from the job's network; learned: later plans "
                   "follow the rates that traffic reaches",
                   .choices = {"configured", "learned"});
      LONGHAUL_KEY(drift, "learned: change of a rate at which a new plan is tried", .max = 10,
                   .unit = "share", .positive = true);
      LONGHAUL_KEY(ema, "learned: weight of a new figure that differs by less than `drift`",
                   .max = 1, .positive = true);
      LONGHAUL_KEY(probe_rounds,
                   "learned: rounds without a new plan after which an unused pair is tried with a "
                   "small part of the vector; 0: never",
                   .max = 1e9, .unit = "rounds");
    }
  };

  // Uses the sites and rates of the job's network; without a network all links are equal.
  PlannedForest(const Config& config, const OverlayParts& parts, const Place& place)
      : config_(config),
        parameters_(place.layout ? place.layout->parameters().length : 0),
        longest_piece_(place.longest_piece()),
        shortest_piece_(place.standing_for(kShortestPiece)),
        replanner_(replanner_of(config, parts.network, place)) {}

  Partition cut(std::uint64_t length, std::uint32_t, std::uint64_t chunk) const override {
    return {length, 1, piece_length(length, config_.pieces, chunk, shortest_piece_)};
  }
  // Returns the first trees. A site's members take turns, from tree to tree, in leading it.
  std::optional<Forest> forest(const Partition& grid, const GroupMembers& team) const override {
    return replanner_.first_forest(team, grid);
  }

  std::unique_ptr<Attempt> open(const ExchangeSpec& spec) const override {
    return std::make_unique<TreeAttempt>(spec, config_.phases == "streamed", true);
  }

  void on_team(std::uint32_t group, const GroupMembers* team) override {
    if (team && group == 0) replanner_.new_team(*team);
  }

  void state(Archive& ar) override { replanner_.state(ar); }

  ReplanningTopology* replanning() override { return this; }

  const forest::Replanner& replanner() const { return replanner_; }

 private:
  // Returns true if all workers exchange the vector, and in planned_anew() if it is the parameters.
  static bool of_all(const VectorId& key) { return key.group == 0; }
  static bool planned_anew(const VectorId& key) { return of_all(key) && key.range == 0; }

  static forest::Replanner replanner_of(const Config& config,
                                        const std::shared_ptr<const flow::Wan>& network,
                                        const Place& place) {
    return {{config.rates == "learned", config.ema, {config.drift, config.probe_rounds}},
            network,
            network ? sites_of(*network, place) : number_sites(place)};
  }

  // ReplanningTopology
  // Exchanges of all workers other than the parameters wait for the first plan only. Groups of some
  // workers do not use the plan.
  Standing standing(const VectorId& key) const override {
    if (!of_all(key)) return {};
    if (!planned_anew(key)) return {0, replanner_.hold_of_first()};
    return {replanner_.since(key.round), replanner_.hold(key.round)};
  }

  Forest forest_since(Round since, const Partition& grid) const override {
    return replanner_.forest_since(since, grid);
  }

  // Plans for vectors like the parameters at first, whichever vector is exchanged first.
  void on_ready(const VectorId& key, const Partition& grid, TopologyOutput& output) override {
    if (!of_all(key)) return;
    const bool own = planned_anew(key) || parameters_ == 0;
    replanner_.on_ready(own ? grid : cut(parameters_, 1, longest_piece_), output);
  }

  void on_contributed(const VectorId& key, Time now) override {
    if (planned_anew(key)) replanner_.on_contributed(key.round, now);
  }

  void on_mean_ready(const VectorId& key, const Partition& grid, Time now,
                     TopologyOutput& output) override {
    if (planned_anew(key)) replanner_.on_mean_ready(key.round, grid, now, output);
  }

  void on_moved(const Moved& moved, Time now) override {
    if (moved.sent) return replanner_.on_sent(moved.peer, moved.bytes, moved.waited, now);
    replanner_.on_received(moved.peer, moved.bytes, now);
  }

  Status take(Rank from, const TopologyMessage& notice, TopologyOutput& output) override {
    return replanner_.take(from, notice, output);
  }

  const Config config_;
  const std::uint64_t parameters_;  // length of the job's parameters; 0: no model
  const std::uint64_t longest_piece_, shortest_piece_;
  forest::Replanner replanner_;
};

}  // namespace longhaul::overlay
