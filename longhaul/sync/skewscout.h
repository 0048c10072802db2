#pragma once
// SkewScout tunes how much another strategy communicates. Now and then the model of each site
// visits another one and is scored on that one's training data. Where it is worse there than at
// home, the replicas have drifted apart because their data differ: tighten; else loosen.
//   Hsieh, Phanishayee, Mutlu, Gibbons, "The non-IID data quagmire of decentralized machine
//   learning", ICML 2020. The objective follows summaries of the paper; the search, the protocol
//   and what a loss does are ours. Nothing of the tuner was released.
//
// The tuned strategy is a child. When one of its computations ends it is told so only after this
// node's travels begin and its visitors are scored: meanwhile it believes that it computes, and the
// parameters are nobody's. Scoring leaves the learner as it was.
#include <deque>

#include "longhaul/core/registry.h"
#include "longhaul/core/vector_channel.h"
#include "longhaul/sync/skewscout/headers.h"
#include "longhaul/sync/skewscout/search.h"
#include "longhaul/sync/skewscout/tally.h"
#include "longhaul/sync/tunable.h"

namespace longhaul::sync {

class SkewScout final : public Strategy {
 public:
  static SyncEntry entry();
  struct Config {
    std::string strategy = "gaia";
    std::vector<std::string> with = {};
    std::uint64_t travel_every = 500;
    double tolerance = 0.05;
    double loss_weight = 50;
    double cost_weight = 1;
    std::vector<double> grid = {};
    std::uint32_t start = 0;
    std::uint64_t forget = 10;
    std::uint64_t announce = 20;
    bool watch_home = false;

    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(strategy,
                     .doc = "what is tuned: the significance of gaia, the steps of fedavg",
                     .choices = {"gaia", "fedavg"});
      LONGHAUL_FIELD(with, .doc = "settings of the tuned strategy, each \"key = value\"");
      LONGHAUL_FIELD(travel_every, .doc = "models travel after so many local steps", .min = 1,
                     .max = 1e12, .unit = "steps");
      LONGHAUL_FIELD(tolerance, .doc = "loss of accuracy, 0 to 1, that is no reason to tighten",
                     .min = 0, .max = 1);
      LONGHAUL_FIELD(loss_weight, .doc = "weight of the loss of accuracy beyond it", .min = 0,
                     .max = 1e9);
      LONGHAUL_FIELD(cost_weight, .doc = "weight of what is sent, as a share of what bsp sends",
                     .min = 0, .max = 1e9);
      LONGHAUL_FIELD(grid, .doc = "values from tight to loose; empty: those of the strategy",
                     .min = 0);
      LONGHAUL_FIELD(start, .doc = "index into the grid to begin with, from 0", .max = 63);
      LONGHAUL_FIELD(forget, .doc = "a measurement counts for so many travels", .min = 1,
                     .max = 1e9, .unit = "travels");
      LONGHAUL_FIELD(announce, .doc = "from a travel to the step that its outcome acts from",
                     .min = 1, .max = 1e9, .unit = "steps");
      LONGHAUL_FIELD(watch_home,
                     .doc =
                         "add to the loss of accuracy what models have lost at home since their "
                         "best travel (not published)");
    }
  };
  static Result<std::unique_ptr<Strategy>> make(const Settings&, SyncParts, const Place&);

  // `tuned` is a Tunable at a worker.
  SkewScout(const Config&, std::vector<double> grid, std::unique_ptr<Strategy> tuned,
            std::unique_ptr<Transfer> for_travels, std::unique_ptr<Transfer> for_notes,
            const Place&);

  void on_step(const StepResult&, Turn&) override;
  void on_computed(const Computed&, Turn&) override;
  void on_progress(Turn&) override;
  Round rounds_done() const override { return tuned_->rounds_done(); }
  std::string waiting_for() const override;
  void state(Archive&) override;

  // For tests, from outside.
  std::uint32_t index() const { return index_; }
  std::uint64_t steps() const { return steps_; }  // of the tuned strategy, here
  Round travels_done() const { return answered_; }
  const Strategy& tuned() const { return *tuned_; }

 private:
  using TravelHeader = skewscout::TravelHeader;
  using NoteHeader = skewscout::NoteHeader;
  struct Probe {  // a model to score on the own data
    Rank of = 0;
    Epoch epoch = 0;
    Round travel = 0;
    Snapshot model;
    void state(Archive& ar) {
      ar(of, epoch, travel);
      archive_snapshot(ar, model);
    }
  };
  struct Theta {  // acts from that step on
    std::uint32_t index = 0;
    std::uint64_t from_step = 0;
    void state(Archive& ar) { ar(index, from_step); }
  };

  Result<bool> admit(Rank from, const TravelHeader&, const ContentShape&) const;
  Result<bool> admit(Rank from, const NoteHeader&, const ContentShape&) const;
  void enter_view(Turn&);
  void receive(Turn&);
  void take(Rank from, const NoteHeader&);
  void begin_travel(Turn&);
  void end_probe(Turn&);
  void close_travel(Turn&);
  void send_theta(NoteHeader::Kind, Turn&);
  void send_note(const std::vector<Rank>& to, NoteHeader, Turn&);
  void go_on(Turn&);
  void tune(std::uint32_t index, Turn&);
  bool is_scout() const { return !live_.empty() && live_.front() == place_.self; }
  bool is_open() const { return answered_ < started_; }
  // A paused site may have begun travels that the scout had not when the view changed: which one is
  // next it learns from the scout.
  bool is_over(Round travel) const { return !is_paused_ && travel < answered_; }
  bool must_wait() const;
  void drop_answered();

  const Config config_;
  const std::vector<double> grid_;
  const Place place_;
  const std::unique_ptr<Strategy> tuned_;
  Tunable* const tunable_;
  VectorChannel<TravelHeader> travels_;
  VectorChannel<NoteHeader> notes_;

  bool has_entered_ = false,
       is_paused_ = false;  // until the scout of a new view says how it goes on
  Epoch epoch_ = 0;
  std::vector<Rank> live_;  // workers of that view

  std::uint64_t steps_ = 0;           // computed here
  std::uint64_t next_at_ = 0;         // the step of the next travel
  std::uint64_t travel_step_ = 0;     // at which the last one began
  Round started_ = 0, answered_ = 0;  // travels: begun here; over, as far as this site knows
  std::uint64_t counted_steps_ = 0;   // at the last travel
  double counted_exchanges_ = 0;

  std::optional<Computed> held_;  // what the tuned strategy has not been told
  bool has_stepped_ = false;      // in this turn; the tuned strategy is to look at it
  bool travel_is_due_ = false;    // of this site's model, once the travel before is closed
  std::deque<Probe> probes_;      // of each site one at most
  std::optional<Probe> probing_;
  StepResult scored_;

  std::uint32_t index_ = 0;  // that the tuned strategy has
  std::optional<Theta> theta_;
  skewscout::Search search_;                   // at the scout; the others follow
  std::map<Round, skewscout::Tally> tallies_;  // at the scout: of two travels at most
  double best_home_ = 0;                       // accuracy at home, of all travels of this scout
};

}  // namespace longhaul::sync
