#pragma once
// When a synchronous run ends, so that all nodes end with the same round in every host.
//
// Every `report_every` rounds the reporter (the senior worker) has the model scored and tells
// all what follows from it. A verdict on round r takes effect at the end of round r + lag and is
// awaited by all: who waits is told nothing by the clock. Whoever follows a dead reporter asks the
// survivors first, so that a verdict which anybody acted on stands.
#include <map>

#include "longhaul/core/machine.h"

namespace longhaul {

struct StopConfig {
  std::optional<double> target_accuracy = {};
  std::optional<double> target_loss = {};
  Round max_rounds = 100;
  std::optional<double> max_hours = {};
  std::uint64_t max_samples = 0;  // 0: no limit; max_epochs times the samples of all sites
  Round report_every = 1;         // rounds
  Round lag = 1;                  // rounds from a verdict to its effect
  bool snapshots = true;          // false: phantom, nothing to score
  Round apart = 1;                // the most rounds that one node may be ahead of another
  // Nodes know different counts of the samples: the reporter's, at a round that it reports, counts.
  bool reporter_counts = false;

  // A target is given, and the model has come to it.
  bool reached(const Evaluation&) const;
};

class StopRule final : public Machine {
 public:
  enum class Reason : std::uint8_t { none, target, max_rounds, max_hours, max_samples };
  enum class Step { wait, go_on, stop };

  struct Verdict {
    static constexpr std::uint16_t kKind = 1;
    static constexpr std::string_view kName = "verdict";
    Round round = 0;
    Reason reason = Reason::none;
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(round);
      LONGHAUL_FIELD(reason, .max = 4);
    }
  };
  // To a new reporter: all verdicts this node knows and has not yet acted on.
  struct Known {
    static constexpr std::uint16_t kKind = 2;
    static constexpr std::string_view kName = "known";
    Epoch epoch = 0;
    std::vector<Verdict> verdicts;
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(epoch);
      LONGHAUL_FIELD(verdicts);
    }
  };
  using Messages = MessageList<Verdict, Known>;

  explicit StopRule(StopConfig config) : config_(config) {}

  // The model of `round` stands in `model`; `samples` were used by all nodes so far.
  void round_done(Round round, std::span<const float> model, std::uint64_t samples, Turn&);
  // May the node go on after this round? Asked in on_progress until it is not `wait`.
  Step after(Round round);
  Reason reason() const { return reason_; }
  std::string waiting_for() const;

  Status on_message(Rank from, const Message&, Turn&) override;
  void on_scored(Round, const Evaluation&, Turn&) override;
  void on_view(const View& before, Turn&) override;
  void state(Archive&) override;
  // What a node that comes back has to know. It keeps the verdicts that it has heard already.
  void hand_over(Archive&);

 private:
  bool reports(Round round) const { return (round + 1) % config_.report_every == 0; }
  bool is_reporter(const Turn&) const;
  bool uses_up(std::uint64_t samples) const {
    return config_.max_samples > 0 && samples >= config_.max_samples;
  }
  bool is_unknown(Round round) const;
  void settle_unknown(Turn&);
  void ask(Round round, Turn&);
  void decide(const Verdict&);
  void take_over(Turn&);

  StopConfig config_;
  Reason reason_ = Reason::none;
  std::optional<Round> newest_;  // the newest round_done
  std::uint64_t samples_ = 0;
  std::map<Round, std::vector<float>> open_;  // models without a verdict, at most lag + 1
  std::map<Round, std::uint64_t> counts_;     // of samples, by those rounds
  std::map<Round, Reason> verdicts_;          // of the last lag + 1 + apart reported rounds
  std::set<Rank> unheard_;                    // a new reporter: who has not sent Known
  // newest_ when the run was resumed. `report_every` may have changed: then no verdict comes on
  // rounds up to this one that were not reported.
  std::optional<Round> resumed_;
  bool settled_ = true;
};

}  // namespace longhaul
