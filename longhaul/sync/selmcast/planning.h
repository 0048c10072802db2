#pragma once
// Planning agrees on who sends to whom in a round of selective multicast (flow/multicast.h). Every
// worker owns one. When its local steps of a round are done, it sends its standing to the manager,
// which is the senior worker; when all live workers are ready for the same round, the manager sends
// each its receivers and the senders that it is to expect.
//
// After a loss all workers send their standing again. If the manager died while it sent a plan,
// some workers have the plan of the round and some do not: the new manager says who is left out.
// These send and expect nothing in that round, and the others do not expect them.
//
// A worker that has come back tells the manager that it is outside. It is in no plan; when the next
// plan is made, the manager lets it in from the round after that on (sync/selmcast.h), and waits
// for its standing as for those of all others.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "longhaul/core/machine.h"
#include "longhaul/flow/multicast.h"
#include "longhaul/sync/selmcast/rate_meter.h"

namespace longhaul::sync::selmcast {

// What a plan is made from. `network`: of all ranks, by number; empty ports: all alike.
struct PlanConfig {
  enum class Receivers : std::uint8_t { selected, random, all, optimal };
  Receivers receivers = Receivers::selected;
  double share = 0.3;               // of the other workers: the least that each sends to
  std::uint32_t overdue_after = 4;  // rounds, after which a pair must be served (k); 0: never
  bool is_measured = false;         // by what workers have measured, not by `network`
  flow::MulticastNetwork network = {};
};

inline Rank manager_of(const Turn& turn) { return senior_worker(turn.place(), turn.view()); }
// Different workers of the job, ascending?
bool are_workers(const std::vector<Rank>&, const Place&);
// The least that each of n workers sends to.
std::uint32_t at_least(const PlanConfig&, std::uint32_t n);
// Rounds since a receiver had something of a sender that is in `round`; `served` as in Standing.
inline Round age_of(Round served, Round round) { return round + 1 - std::min(served, round + 1); }
inline bool is_overdue(const PlanConfig& config, Round age) {
  return config.overdue_after > 0 && age > config.overdue_after;
}
// Of these ranks alone, in this order.
flow::MulticastNetwork network_of(const PlanConfig&, const std::vector<Rank>&);

// As PlanConfig::receivers says.
flow::MulticastPlan choose_receivers(const PlanConfig&, const flow::MulticastNetwork&,
                                     const flow::MulticastRound&, Random&);

class Planning final : public Machine {
 public:
  enum class Stage : std::uint8_t {
    computing,
    ready,       // waits for the plan of the round
    exchanging,  // has it
    outside      // has come back, and has no model
  };
  struct Standing {  // to the manager
    static constexpr std::uint16_t kKind = 1;
    static constexpr std::string_view kName = "standing";
    Epoch epoch = 0;
    Round round = 0;
    Stage stage = Stage::computing;
    std::uint64_t samples = 0;  // that the sender has used since the run began
    std::vector<Round>
        served;  // by rank: the round after the last in which it got a model; 0: none
    MeasuredRates rates = {};
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(epoch);
      LONGHAUL_FIELD(round, .max = 0x1p50);
      LONGHAUL_FIELD(stage, .max = 3);
      LONGHAUL_FIELD(samples, .max = 0x1p50);
      LONGHAUL_FIELD(served,
                     .doc = "by rank: the round after the last in which it got a model; 0: none");
      LONGHAUL_FIELD(rates, .doc = "empty unless plans are made by them");
    }
  };
  struct Plan {  // from the manager
    static constexpr std::uint16_t kKind = 2;
    static constexpr std::string_view kName = "plan";
    Epoch epoch = 0;
    Round round = 0;
    std::uint64_t samples = 0;  // that all have used
    std::vector<Rank> receivers = {}, expected = {};
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(epoch);
      LONGHAUL_FIELD(round, .max = 0x1p50);
      LONGHAUL_FIELD(samples, .max = 0x1p60);
      LONGHAUL_FIELD(receivers, .doc = "of the model of the node that gets this");
      LONGHAUL_FIELD(expected, .doc = "whose models it gets");
    }
  };
  struct LeftOut {  // from a new manager: these have no plan of the round, and get none
    static constexpr std::uint16_t kKind = 3;
    static constexpr std::string_view kName = "left_out";
    Epoch epoch = 0;
    Round round = 0;
    std::vector<Rank> ranks;
    LONGHAUL_FIELDS(epoch, round, ranks)
  };
  using Messages = MessageList<Standing, Plan, LeftOut>;

  explicit Planning(PlanConfig config) : config_(std::move(config)) {}

  // This node is at the beginning of `round`; `samples` as Standing.
  void begin(Round round, Turn&);
  // Its steps are done: asks for the plan.
  void ready(std::uint64_t samples, Turn&);
  // What this node has measured by now; sent when it is ready next.
  void measured(MeasuredRates rates) { own_.rates = std::move(rates); }
  // The plan of this round, once.
  std::optional<Plan> take_plan();
  void served(const std::vector<Rank>& receivers);  // in this round
  // Of those that the plan expected: no model comes from them in this round.
  bool is_left_out(Rank rank) const { return left_out_.contains(rank); }
  // At the manager, once: those outside who begin in the round after the one just planned ...
  std::set<Rank> take_entering() { return std::exchange(entering_, {}); }
  // ... or, no further plan being made, all that are outside.
  std::set<Rank> take_outside();
  std::string waiting_for(const Place&) const;

  Status on_message(Rank from, const Message&, Turn&) override;
  void on_view(const View& before, Turn&) override;
  void state(Archive&) override;

 private:
  Status take(Rank from, const Standing&, Turn&);
  Status take(Rank from, const Plan&, Turn&);
  Status take(Rank from, const LeftOut&, Turn&);
  bool is_from_manager(Rank from, Epoch, const Turn&) const;
  void send_standing(Turn&);
  void resolve(Turn&);
  void make_plans(Turn&);
  flow::MulticastPlan choose(const std::vector<Rank>& workers, Turn&) const;

  const PlanConfig config_;
  Standing own_;
  std::optional<Plan> plan_;
  std::set<Rank> left_out_;  // of this round
  // At the manager: of this epoch, by rank; whether all have reported since it began.
  std::map<Rank, Standing> standings_;
  bool is_resolved_ = true;
  std::set<Rank> entering_;
};

}  // namespace longhaul::sync::selmcast
