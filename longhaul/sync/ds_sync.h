#pragma once
// DS-Sync (divide and shuffle): after every few local steps the workers average their models inside
// small groups, and the groups change from round to round, so that what each worker has learned
// reaches all others within a few rounds, although nobody ever waits for all.
//   Wang et al., "DS-Sync: Addressing network bottlenecks with divide-and-shuffle synchronization
//   for distributed DNN training", arXiv 2007.03298 (INFOCOM 2022).
//
// In round k, with G the group of worker i (shuffle/schedule.h) and x'_i its model after its local
// steps:
//   x_i <- sum over j in G of x'_j / |G|
//
// With `sense`, sites whose links have become slow keep out of most exchanges between sites:
// shuffle/site_rates.h finds them, shuffle/schedule_switch.h makes all agree from which round on.
//
// A worker that comes back (ds_sync_returning.cpp) is sent the model of the senior worker as it
// stands, and takes part from the first round on that the others name it in. Models differ, so it
// need not be of that round.
#include "longhaul/core/registry.h"
#include "longhaul/sync/shuffle/conclusion.h"
#include "longhaul/sync/shuffle/group_mean.h"
#include "longhaul/sync/shuffle/schedule.h"
#include "longhaul/sync/shuffle/schedule_switch.h"
#include "longhaul/sync/shuffle/site_rates.h"
#include "longhaul/sync/state_transfer.h"
#include "longhaul/sync/synchronous.h"

namespace longhaul::sync {

class DsSync final : public Strategy {
 public:
  static SyncEntry entry();
  struct Config {
    std::string schedule = "published";
    std::uint32_t group_size = 0;
    std::uint32_t steps = 1;
    std::uint32_t cross_every = 0;
    bool sense = false;
    bool average_buffers = true;
    bool sync_state = false;
    bool correction = true;
    std::string final = "mean";
    double swa_fraction = 0;
    std::uint32_t min_sites = 1;

    bool senses() const { return sense && schedule == "topology"; }  // others know of no sites
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(schedule,
                     .doc =
                         "how workers are grouped; published: the pattern of the authors' code "
                         "for four workers, of other numbers the grid",
                     .choices = {"published", "grid", "radix", "random", "topology"});
      LONGHAUL_FIELD(group_size,
                     .doc =
                         "workers in a group of grid and random (b); 0: round(sqrt(n)), at "
                         "least 2");
      LONGHAUL_FIELD(steps, .doc = "local steps in a round", .min = 1);
      LONGHAUL_FIELD(cross_every,
                     .doc =
                         "topology: one round in so many averages across sites; 0: 1, or 2 if "
                         "some site has one or two workers and some has several");
      LONGHAUL_FIELD(sense,
                     .doc =
                         "topology: a site whose exchanges with others have become half as quick "
                         "as they were keeps out of four in five of them until they are quicker");
      LONGHAUL_FIELD(average_buffers,
                     .doc = "running statistics are averaged, too; false: at the end alone");
      LONGHAUL_FIELD(sync_state,
                     .doc =
                         "momentum and moments of the local optimiser are averaged, too (sgd, "
                         "adam, adamw)");
      LONGHAUL_FIELD(correction,
                     .doc =
                         "codecs that lose: each keeps what the codec lost of its own model, and "
                         "means are written as fp32, so that no average is lost; false: all take "
                         "the mean as the codec writes it");
      LONGHAUL_FIELD(swa_fraction,
                     .doc =
                         "of the rounds up to [stop] max_rounds the last share whose models are "
                         "averaged over time into the final one (SWA); 0: none",
                     .min = 0, .max = 1);
      LONGHAUL_FIELD(final,
                     .doc =
                         "the model that all end with: the mean of all, or that of the lowest "
                         "rank",
                     .choices = {"mean", "rank0"});
      visit_min_sites(visit, self.min_sites);
    }
  };
  // To the senior worker, from one that has come back too late for the run's last exchanges: it
  // needs the model that the run ends with.
  struct FinalAsked {
    static constexpr std::uint16_t kKind = 1;
    static constexpr std::string_view kName = "final_asked";
    Epoch epoch = 0;  // in which it came back
    LONGHAUL_FIELDS(epoch)
  };
  using Messages = MessageList<FinalAsked>;

  DsSync(const Config&, SyncParts, const Place&);
  static Status check(const Config&, const Place&);

  void on_start(Turn&) override;
  void on_view(const View& before, Turn&) override;
  void on_step(const StepResult&, Turn&) override;
  void on_computed(const Computed&, Turn&) override;
  void on_progress(Turn&) override;
  Status on_message(Rank from, const Message&, Turn&) override;
  bool lets_return() const override { return true; }
  Round rounds_done() const override { return done_; }
  std::string waiting_for() const override;
  Explanation explain() const override;
  void state(Archive&) override;

 private:
  enum class Phase : std::uint8_t {
    unstarted,
    ready,
    computing,
    reading_state,  // of the optimiser
    grouping,       // waits to know whose groups the round has
    averaging,      // in its group
    writing_state,  // of the optimiser
    deciding,       // waits for a verdict
    settling,       // waits to know whose groups the exchange after the last round has
    concluding,
    ended,
    // of a worker that has come back
    awaiting_state,
    entering  // waits to know which round it takes part in first, and whether there is one
  };

  // Of the exchanges, which go on without training when the rounds are done.
  Round exchange() const { return done_ + settled_; }
  bool advance(Turn&);
  void join_group(Turn&);
  void end_exchange(Turn&);
  void end_round(Turn&);
  shuffle::Partition groups_of(const std::vector<Rank>& workers, Epoch, Round,
                               const shuffle::SlowSites& = {}) const;
  void note_cross(Turn&);
  void sense(Turn&);
  void settle(Turn&);
  void use_average_over_time(Turn&);
  void conclude(bool compare, Turn&);
  shuffle::Conclusion::Model final_model() const;

  // ds_sync_returning.cpp
  void follow_returned(const View& before, Turn&);
  void hand_over(Turn&);
  void archive_for_returned(Archive&, Round& done, Turn&);
  bool take_state(Turn&);
  enum class End : std::uint8_t { unknown, later, before };
  End end_before(Round entry, Round& end);
  bool enter_run(Turn&);
  Result<bool> follow_conclusion(Turn&);
  void fail(const Error&, Turn&);

  const Config config_;
  const Place place_;
  const Round swa_from_;  // rounds done, from which on models are averaged over time
  const bool corrects_;
  const StopConfig stop_config_;
  const shuffle::Schedule schedule_;
  const std::unique_ptr<Overlay> overlay_;
  shuffle::GroupMean mean_;
  shuffle::Conclusion conclusion_;
  shuffle::ScheduleSwitch switch_;
  shuffle::SiteRates site_rates_;
  StopRule stop_;
  StateTransfer state_transfer_;

  Phase phase_ = Phase::unstarted;
  Round done_ = 0;               // also the round that runs
  Round settled_ = 0;            // exchanges after the last round
  std::uint32_t to_settle_ = 0;  // are left of them
  double samples_ = 0;  // used by a worker in the mean: averaged as models are, if they count
  Time asked_{0};       // since when the mean is awaited
  Time given_{0};       // when this worker's model was given to it
  std::optional<Rank> partner_;         // of another site, in the mean that runs
  std::vector<float> optimizer_state_;  // with sync_state
  // Mean over time of the model after each round from swa_from_ on. The mean over the workers of
  // these is that of the mean model, which rounds keep.
  std::vector<double> swa_;
  std::uint64_t swa_count_ = 0;
  // Live workers that have come back, until they say that they have a model; those of them to whom
  // this node has sent one; who has asked for the model that the run ends with.
  std::map<Rank, Epoch> returned_;
  std::set<Rank> was_sent_, asks_final_;
  std::optional<Rank> asked_final_of_;  // at one that has come back
};

}  // namespace longhaul::sync
