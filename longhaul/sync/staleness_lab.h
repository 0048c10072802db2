#pragma once
// The staleness lab: all workers step together and every update is delivered, but an update is
// applied late, by a number of iterations that a law says. What delays cost is so measured apart
// from what a network costs.
//   Dai et al., "Toward understanding the impact of staleness in distributed machine learning",
//   ICLR 2019 (arXiv 1810.03264): the experiment. Ours: mean scaling, running over a network,
//   replay of recorded delays, the mitigations.
//
// In iteration t, worker i of P, with u_j^t for the update that worker j computes in it:
//   x_i <- x_i + scale sum of the held updates that are due by t    in double, rounded once
//   u_i^t = update of the gradient at x_i, from i's own optimiser;  to all others
//   u_j^t of all workers are here: u_j^t is due in t + 1 + r(j, i, t);  t <- t + 1
// At the end all held updates are applied, and the workers average their models.
#include <set>

#include "longhaul/core/registry.h"
#include "longhaul/core/vector_channel.h"
#include "longhaul/sync/gossip/final_mean.h"
#include "longhaul/sync/staleness/coherence.h"
#include "longhaul/sync/staleness/config.h"
#include "longhaul/sync/staleness/held_updates.h"

namespace longhaul::sync {

struct StalenessHeader {
  static constexpr std::uint16_t kKind = 0;  // not a message by itself: it is in one
  static constexpr std::string_view kName = "header";
  Round iteration = 0;
  bool is_finite = true;  // else there is no vector: the worker's loss or update has no bounds
  double loss = 0;        // of the batch
  std::uint64_t samples = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(iteration, .max = 0x1p50);
    LONGHAUL_FIELD(is_finite);
    LONGHAUL_FIELD(loss, .min = -1e300, .max = 1e300);
    LONGHAUL_FIELD(samples, .max = 0x1p32);
  }
};

class StalenessLab final : public Strategy {
 public:
  static SyncEntry entry();
  using Config = staleness::LabConfig;
  StalenessLab(const Config&, SyncParts, const Place&);
  static Status check(const Config& config, const Place&) { return staleness::check(config); }

  void on_start(Turn&) override { phase_ = Phase::ready; }
  void on_view(const View& before, Turn&) override;
  void on_computed(const Computed&, Turn&) override;
  void on_progress(Turn&) override;
  Round rounds_done() const override { return iteration_; }
  std::string diverged() const override { return diverged_; }
  std::string waiting_for() const override;
  void state(Archive&) override;

 private:
  using Channel = VectorChannel<StalenessHeader>;
  enum class Phase : std::uint8_t {
    not_started,
    ready,
    probing,    // takes the gradient that coherence is of
    computing,  // takes the gradient of its batch
    gathering,  // sends its update and waits for the others'
    deciding,   // waits for a verdict
    averaging,  // takes part in the mean that the run ends with
    ended
  };
  struct Update {  // of one worker, in this iteration or the next
    StalenessHeader header;
    Snapshot values;
    void state(Archive& ar);
  };
  using Key = std::pair<Round, Rank>;  // iteration, origin

  bool probes(const Turn& turn) const {
    return config_.coherence_every > 0 && turn.self() == workers_.front() && !turn.place().phantom;
  }
  Result<bool> admit(Rank from, const StalenessHeader&, const ContentShape&);
  void receive(Turn&);
  bool advance(Turn&);
  void note_coherence(Turn&);
  void send_update(const Computed&, Turn&);
  Snapshot as_read(const std::vector<float>& update, const std::vector<Rank>& to, Turn&);
  std::vector<Key> missing() const;
  bool note_losses();
  void hold_all(Turn&);
  void hold(Rank origin, Update, Turn&);
  void end_iteration(Turn&);
  void finish_run(Turn&);
  double rate() const;
  void fail(const Error&, Turn&);

  const Config config_;
  const Place place_;
  const Range range_;                // of the parameters
  const std::vector<Rank> workers_;  // of the job
  const double rate_;
  const std::function<double(std::uint64_t)> rate_share_;  // null: 1
  const staleness::DelayLaw law_;
  gossip::FinalMean final_;
  std::unique_ptr<Channel> channel_;
  StopRule stop_;
  staleness::UpdateRule rule_;
  staleness::HeldUpdates held_;
  staleness::Coherence coherence_;

  Phase phase_ = Phase::not_started;
  Round iteration_ = 0;             // that runs; also the number of those that are done
  std::uint64_t samples_ = 0;       // used by all workers
  double first_loss_ = 0;           // mean of iteration 0
  std::set<Key> admitted_;          // here or on their way
  std::map<Key, Update> updates_;   // here
  std::map<Rank, Round> last_due_;  // in_order: of the newest update of a sender
  std::set<Rank> sending_;          // receivers for which the host does not have all yet
  std::uint64_t duplicates_ = 0, dropped_ = 0;  // since the iteration began
  Time asked_{0};                               // since when the others' updates are awaited
  std::string diverged_;
};

}  // namespace longhaul::sync
