#pragma once
// Gaia: approximate synchronous parallel. Each site trains a replica of the model and sends only
// those of its updates that are significant; the others add up until they are. A site that leads
// the slowest one by too many clocks waits.
//   Hsieh et al., "Gaia: Geo-Distributed Machine Learning Approaching LAN Speeds", NSDI 2017:
//   significance filter, mirror clock and selective barrier; the filter, the schedules of its
//   threshold and the hubs as in the released code (github.com/kevinhsieh/non_iid_dml).
//
// With b the sum of all updates of complete clocks, inbox the updates of later ones (gaia/base.h),
// acc what was computed here and is not sent yet, and DS the setting `staleness`, clock t + 1 of a
// site is:
//   wait until every site has sent clock t - DS
//   w <- b + inbox[.. t + DS] + acc
//   acc <- acc + scale * (what `steps` local steps move w by)
//   sent <- those values v of acc with |acc_v| > T |w_v|, as the receivers read them
//   acc <- acc - sent;  inbox[t + 1][self] <- sent
// The order of the sums, inbox[.. t + DS], the recovery of losses, returns and the end are ours.
#include "longhaul/core/registry.h"
#include "longhaul/core/vector_channel.h"
#include "longhaul/sync/gaia/base.h"
#include "longhaul/sync/gaia/blocked.h"
#include "longhaul/sync/gaia/config.h"
#include "longhaul/sync/gaia/cut.h"
#include "longhaul/sync/gaia/filter.h"
#include "longhaul/sync/gaia/headers.h"
#include "longhaul/sync/gaia/routes.h"
#include "longhaul/sync/gaia/send_rates.h"
#include "longhaul/sync/gaia/threshold.h"
#include "longhaul/sync/gossip/final_mean.h"
#include "longhaul/sync/tunable.h"

namespace longhaul::sync {

class Gaia final : public Strategy, public Tunable {
 public:
  static SyncEntry entry();
  using Config = gaia::Config;
  static Status check(const Config& config, const Place& place) {
    return Config::check(config, place);
  }
  Gaia(const Config&, SyncParts, const Place&);

  void on_start(Turn&) override;
  void on_step(const StepResult&, Turn&) override;
  void on_computed(const Computed&, Turn&) override;
  void on_progress(Turn&) override;
  Round rounds_done() const override { return done_; }
  bool lets_return() const override { return true; }
  std::string waiting_for() const override;
  Explanation explain() const override;
  void state(Archive&) override;
  // Tunable: the significance T0.
  void tune(double significance) override { threshold_.set_significance(significance); }
  bool needs_agreement() const override { return false; }
  double exchanges() const override;

  // For tests, from outside.
  const gaia::Base& base() const { return base_; }
  const std::vector<float>& unsent() const { return acc_; }
  Round told() const { return told_; }
  // Of this node's own, since its start or its return: those whose steps are in acc, or were.
  Round clocks_added() const { return done_ - joined_at_ + (phase_ == Phase::telling ? 1 : 0); }
  bool is_settled() const { return is_settled_; }

 private:
  using UpdateChannel = VectorChannel<gaia::UpdateHeader>;
  using CutChannel = VectorChannel<gaia::CutHeader>;
  using BarrierChannel = VectorChannel<gaia::BarrierHeader>;
  using Standing = gaia::CutHeader::Standing;
  enum class Phase : std::uint8_t {
    unstarted,
    outside,   // has come back, and waits for a base
    ready,     // waits until it may read the model
    deciding,  // has read it; waits for a verdict
    computing,
    telling,    // has computed; sends what is significant
    flushing,   // the run is over: sends all the rest, as one more clock
    draining,   // waits for the rest of the others
    averaging,  // takes part in the mean that the run ends with
    ended
  };
  struct OfferedBase {
    Rank from = 0;
    Round clock = 0;
    std::uint64_t samples = 0;
    Snapshot b;  // with buffers behind it: the model that the run has ended with
    void state(Archive& ar) {
      ar(from, clock, samples);
      archive_snapshot(ar, b);
    }
  };
  struct EncodedUpdate {  // of one range
    gaia::UpdateHeader header;
    VectorContent content;
    std::vector<std::uint32_t> indexes;  // empty: all
  };
  using Batch = std::vector<EncodedUpdate>;  // of one clock

  // --- gaia.cpp: the clocks of this site -------------------------------------------------------
  bool advance(Turn&);
  bool is_led_too_far() const { return base_.slowest() + config_.staleness < told_; }
  void read_model(Turn&);
  void begin_clock(Turn&);
  void accumulate(Turn&);
  void tell(Turn&);
  void flush(Turn&);
  bool end(Turn&);
  double scale(const Turn&) const;
  double sent_rate(const Turn&) const;
  void take_significant(std::uint32_t range, const gaia::Significance&, Coding, Batch&, Turn&);
  void close_clock(std::uint64_t samples, Turn&);
  void fail(const Error&, Turn&);

  // --- gaia_exchange.cpp: what is sent and received --------------------------------------------
  Result<bool> admit(Rank from, const gaia::UpdateHeader&, const ContentShape&) const;
  Result<bool> admit_cut(Rank from, const gaia::CutHeader&, const ContentShape&) const;
  Result<bool> admit_barrier(Rank from, const gaia::BarrierHeader&, const ContentShape&) const;
  gaia::Routes routes(const std::vector<Rank>& live, Rank of) const;
  void enter_view(Turn&);
  void receive_cut(Turn&);
  gaia::CutHeader report(Turn&);
  void try_settle(Turn&);
  void send_base(Turn&);
  void join(const OfferedBase&, Turn&);
  void settle(std::vector<float> b, Round clock, std::uint64_t samples, Turn&);
  void receive_updates(Turn&);
  Status take(Rank from, const gaia::UpdateHeader&, const VectorContent&);
  void deliver(Turn&);
  void send_sum(const gaia::Flow&, Round clock, Turn&);
  void send_batch(const gaia::Flow&, Batch, Turn&);
  bool has_barrier() const;
  void announce(const gaia::Flow&, const Batch&, Turn&);
  void receive_barriers(Turn&);
  Status take_barrier(const gaia::BarrierHeader&, const VectorContent&);
  void send_clock(const gaia::Flow&, Round clock, std::uint64_t samples, Turn&);

  // --- gaia_explain.cpp ------------------------------------------------------------------------
  void explain_flows(const std::vector<Rank>& workers, Explanation&) const;
  void explain_sizes(Explanation&) const;
  std::uint64_t length_of(std::uint32_t range) const { return ranges_.at(range).length; }

  const Config config_;
  const Place place_;
  const std::vector<Range> ranges_;  // of the parameters, one a layer
  const std::optional<gaia::Groups> groups_;
  gossip::FinalMean final_;
  std::unique_ptr<UpdateChannel> updates_;
  std::unique_ptr<CutChannel> cuts_;
  std::unique_ptr<BarrierChannel> barriers_;
  StopRule stop_;
  Coder coder_;
  gaia::Threshold threshold_;

  Phase phase_ = Phase::unstarted;
  Round done_ = 0;            // clocks computed
  Round joined_at_ = 0;       // of one that has come back: `done_` of its base
  Round told_ = 0;            // clocks sent: those, and the flush at the end
  std::vector<float> start_;  // w when the steps began
  std::vector<float> acc_;
  gaia::Base base_;
  std::uint64_t clock_samples_ = 0;  // of the last clock
  std::uint64_t start_samples_ = 0;  // of base_ when the steps began
  Round start_clock_ = 0;
  Time asked_{0}, told_at_{0};
  std::uint64_t sent_bytes_ = 0;  // of updates, since told_at_
  double exchanges_ = 0;          // sent since the start, in whole models to all others

  bool has_entered_ = false;  // its first view
  Epoch epoch_ = 0;
  std::vector<Rank> live_;   // workers of that view
  bool is_settled_ = false;  // all are at one base in this view, as far as this node knows
  gaia::Cut cut_;
  Round lost_clock_ = 0;  // the newest of a lost site that is here
  std::optional<OfferedBase> offered_;
  gaia::Routes routes_;             // of live_
  std::vector<Round> flow_clocks_;  // the clock that each flow sends next
  std::deque<std::pair<Round, VectorHandle>> sent_;
  std::vector<std::uint8_t> verdicts_;  // from the senior worker, until this node has a base

  bool looks_up_ = false;     // a step has said that it reads some parameters alone
  std::vector<Range> reads_;  // what the next clock reads; empty: every parameter
  gaia::Blocked blocked_;
  gaia::SendRates rates_;
};

}  // namespace longhaul::sync
