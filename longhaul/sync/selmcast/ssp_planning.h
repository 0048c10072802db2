#pragma once
// SspPlanning chooses the receivers of each multicast when its sender is ready (algorithm 2,
// flow::replan_multicast). Every worker owns one. A worker tells the manager, which is the senior
// worker, its progress: at the beginning of a round, when its steps are done, and, while it sends,
// what each receiver does not have yet. The manager answers who is ready with its receivers, takes
// receivers from multicasts under way that hold others up, and tells all which round the slowest
// worker is in. A receiver tells the sender when it has all of a model.
//
// A Progress says all that a manager needs of its sender. After a loss all send theirs again, and
// a new manager goes on from them; plans and cancellations of the epoch before are void.
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "longhaul/core/machine.h"
#include "longhaul/sync/selmcast/planning.h"

namespace longhaul::sync::selmcast {

struct SspConfig {
  std::uint32_t staleness = 4;  // rounds that a worker may be ahead of the slowest
  double keep_below = 0.75;     // eta
  PlanConfig plan = {};
};

class SspPlanning final : public Machine {
 public:
  enum class Stage : std::uint8_t {
    computing,
    ready,   // waits for its receivers
    sending  // has them
  };
  struct Left {  // of the model that is sent
    Rank to = 0;
    std::uint64_t values = 0;
    LONGHAUL_FIELDS(to, values)
  };
  struct Progress {  // to the manager
    static constexpr std::uint16_t kKind = 1;
    static constexpr std::string_view kName = "progress";
    Epoch epoch = 0;
    Round round = 0;
    Stage stage = Stage::computing;
    std::vector<Left> left = {};
    std::vector<Round> served = {};
    MeasuredRates rates = {};
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(epoch);
      LONGHAUL_FIELD(round, .max = 0x1p50);
      LONGHAUL_FIELD(stage, .max = 2);
      LONGHAUL_FIELD(left, .doc = "while it sends: its receivers, and what they do not have yet");
      LONGHAUL_FIELD(served, .doc = "by rank: the round after the last that it has got; 0: none");
      LONGHAUL_FIELD(rates, .doc = "empty unless plans are made by them");
    }
  };
  struct Receivers {  // from the manager: of the model of this round
    static constexpr std::uint16_t kKind = 2;
    static constexpr std::string_view kName = "receivers";
    Epoch epoch = 0;
    Round round = 0;
    std::vector<Rank> ranks = {};
    LONGHAUL_FIELDS(epoch, round, ranks)
  };
  struct Withdraw {  // from the manager: these do not get the model of this round
    static constexpr std::uint16_t kKind = 3;
    static constexpr std::string_view kName = "withdraw";
    Epoch epoch = 0;
    Round round = 0;
    std::vector<Rank> ranks = {};
    LONGHAUL_FIELDS(epoch, round, ranks)
  };
  struct Slowest {  // from the manager
    static constexpr std::uint16_t kKind = 4;
    static constexpr std::string_view kName = "slowest";
    Epoch epoch = 0;
    Round round = 0;
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(epoch);
      LONGHAUL_FIELD(round, .doc = "that the slowest worker is in", .max = 0x1p50);
    }
  };
  struct Got {  // to the sender of a model: all of it is here
    static constexpr std::uint16_t kKind = 5;
    static constexpr std::string_view kName = "got";
    Round round = 0;
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(round, .doc = "of the sender", .max = 0x1p50);
    }
  };
  using Messages = MessageList<Progress, Receivers, Withdraw, Slowest, Got>;

  explicit SspPlanning(SspConfig config) : config_(std::move(config)) {}

  // This node is at the beginning of `round`.
  void begin(Round round, Turn&);
  bool may_compute() const { return own_.round <= slowest_ + config_.staleness; }
  // Its steps are done: asks for receivers.
  void ready(Turn&);
  // What this node has measured by now; sent with its next progress.
  void measured(MeasuredRates rates) { own_.rates = std::move(rates); }
  // The receivers of this round, once.
  std::optional<std::vector<Rank>> take_receivers();
  // Those that do not get the model of this round after all, each once.
  std::vector<Rank> take_withdrawn();
  // Tells a sender that this node has all of its model of that round.
  void received(Rank sender, Round, Turn&);
  // Who has said that it has all of this node's model of this round, each once.
  std::set<Rank> take_got() { return std::exchange(got_, {}); }
  // While it sends: what the receivers do not have yet. One with nothing left has been served.
  void sending(std::vector<Left> left, Turn&);
  std::string waiting_for(const Place&) const;

  Status on_message(Rank from, const Message&, Turn&) override;
  void on_view(const View& before, Turn&) override;
  void state(Archive&) override;

 private:
  // What the manager knows of a worker.
  struct Worker {
    Progress progress;
    Time round_since{0};                  // when it began this round
    std::deque<Time> rounds;              // what its last rounds took
    std::optional<Round> planned;         // the round that it was given receivers of
    std::set<Rank> receivers, withdrawn;  // of that round
    void state(Archive& ar) { ar(progress, round_since, rounds, planned, receivers, withdrawn); }
  };
  using Workers = std::map<Rank, Worker>;

  Status take(Rank from, const Progress&, Turn&);
  Status take(Rank from, const Receivers&, Turn&);
  Status take(Rank from, const Withdraw&, Turn&);
  Status take(Rank from, const Slowest&, Turn&);
  Status take(Rank from, const Got&, Turn&);
  Status check(Rank from, const Progress&, const Turn&) const;
  void send_progress(Turn&);
  void note(Worker&, const Progress&, const Turn&) const;
  void tell_slowest(Turn&);
  void plan(Rank ready, Turn&);
  flow::MulticastUpdate choose(const std::vector<Rank>& live, std::uint32_t ready, Turn&) const;
  double blocked_s(const Worker&, const Turn&) const;

  const SspConfig config_;
  Progress own_;
  std::optional<std::vector<Rank>> receivers_;  // that have come and are not taken
  std::vector<Rank> withdrawn_;                 // the same
  std::set<Rank> got_;                          // the same
  Round slowest_ = 0;
  Workers workers_;            // at the manager: of this epoch
  std::optional<Round> told_;  // the slowest round, to all of this epoch
};

}  // namespace longhaul::sync::selmcast
