#pragma once
// A Topology is a method to form a mean from parts: where a vector is cut, and the plan by which
// its pieces move (tree.h). One for each node, owned by its AgreedMean.
//
// The nodes of some topologies agree on other plans while rounds continue (forest). For these are
// the inputs from standing() on; the others ignore them.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/base/fields.h"
#include "longhaul/core/turn.h"
#include "longhaul/overlay/plan_attempt.h"

namespace longhaul::overlay {

// The setting `phases`, of a Config.
void visit_phases(auto& self, auto&& visit) {
  LONGHAUL_KEY(
      phases,
      "streamed: a piece is sent on when it is ready; sequential: when all of its share or "
      "tree is",
      .choices = {"streamed", "sequential"});
}

// Messages and figures of a topology, outside of any exchange.
struct TopologyOutput {
  std::vector<std::pair<Rank, TopologyMessage>> told;  // to other members, without their epoch
  std::vector<std::tuple<std::string, Round, double>> figures;  // of the run
  // First round of new trees of the parameters. No node has contributed to it: attempts at it, or
  // at later rounds, are a liar's.
  std::optional<Round> planned_from = {};
  void carry_out(Epoch epoch, Turn& turn) {
    for (auto& [to, notice] : told) {
      notice.epoch = epoch;
      turn.send(to, notice, {}, kControl);
    }
    for (const auto& [name, round, value] : figures) turn.record(name, round, value);
  }
};

class Topology {
 public:
  virtual ~Topology() = default;
  // Cuts a vector of `length` values for `workers` workers; no piece is longer than `chunk`.
  virtual Partition cut(std::uint64_t length, std::uint32_t workers, std::uint64_t chunk) const {
    (void)workers;
    return {length, 1, chunk};
  }
  // Returns the node that owns all pieces, if there is one.
  virtual std::optional<Rank> server(const std::vector<Rank>& members, const View&) const {
    (void)members;
    return std::nullopt;
  }
  // Returns the plan for a vector, the same at all nodes. Nothing: routes are decided while the
  // exchange runs; pieces have the owners of stars().
  virtual std::optional<ReducePlan> plan(const Partition&, const GroupMembers&) const {
    return std::nullopt;
  }
  // Returns false if plan() never returns a plan.
  virtual bool has_plans() const { return true; }
  virtual std::unique_ptr<Attempt> open(const ExchangeSpec& spec) const {
    return std::make_unique<PlanAttempt>(spec);
  }
  // Called when a group has a new team, after all its attempts have ended; null: the group has
  // ended.
  virtual void on_team(std::uint32_t group, const GroupMembers*) { (void)group; }
  virtual void state(Archive&) {}

  struct Standing {
    // First round of the plan of this exchange; 0: it is that of plan(). Other plans have another
    // first round.
    Round since = 0;
    // Reason why this node may not contribute yet; nothing: it may.
    std::optional<std::string> hold = {};
    // False: the plan has not arrived, and no node contributes before it has arrived everywhere.
    bool known = true;
  };
  virtual Standing standing(const VectorId&) const { return {}; }  // asked after each message
  virtual ReducePlan plan_since(Round, const Partition&) const { return {}; }
  // Called when this node has its contribution, which it sends unless standing() holds it.
  virtual void on_ready(const VectorId&, const Partition&, TopologyOutput&) {}
  virtual void on_contributed(const VectorId&, Time now) {
    (void)now;
  }  // this node contributes now
  virtual void on_mean_ready(const VectorId&, const Partition&, Time now, TopologyOutput&) {
    (void)now;
  }
  // A range of a vector that arrived from `peer`, or that the host has accepted for sending to it.
  struct Moved {
    Rank peer = 0;
    bool sent = false;
    std::uint64_t bytes = 0;
    Time waited{0};  // time since the transfer received it; of a sent range only
  };
  virtual void on_moved(const Moved&, Time now) { (void)now; }
  virtual Status take(Rank from, const TopologyMessage&, TopologyOutput&) {
    return malformed("notice of rank " + std::to_string(from) + ", which this overlay has none of");
  }
};

// A topology with a server: `server`, [roles] server, or the lowest live worker if that is absent
// or lost.
class ServedTopology : public Topology {
 public:
  explicit ServedTopology(std::optional<Rank> server) : server_(server) {}
  std::optional<Rank> server(const std::vector<Rank>& members, const View& view) const override {
    return server_ && view.has(*server_) ? *server_ : members.front();
  }

 private:
  const std::optional<Rank> server_;
};

}  // namespace longhaul::overlay
