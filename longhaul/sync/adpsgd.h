#pragma once
// Asynchronous decentralised parallel SGD: each worker takes local steps at its own pace, and
// meanwhile averages its model with that of one random partner at a time. Nobody waits.
//   Lian et al., "Asynchronous decentralized parallel stochastic gradient descent", ICML 2018,
//   algorithm 1, with the bipartite graph of section 4.
//
// Half of the workers are active and ask, the others are passive and answer at once, also while
// their learner computes. With a for the model that the active i sends and b for the one that the
// passive j answers with, both as the other reads them:
//   x_j <- x_j + (a - b) / 2      when j answers
//   x_i <- x_i + (b - a) / 2      when i has the answer
// Both add the same difference, so the sum of the two models stays as it is but for rounding, with
// any codec and whatever i has computed between. Local steps move the model that has been mixed
// meanwhile by what they moved the one that they began with.
//
// A worker that has returned takes the model of the senior worker. Until it is there it asks nobody
// and refuses who asks.
#include "longhaul/core/registry.h"
#include "longhaul/core/vector_channel.h"
#include "longhaul/sync/gossip/final_return.h"
#include "longhaul/sync/gossip/newcomers.h"
#include "longhaul/sync/gossip/step_count.h"

namespace longhaul::sync {

struct AdpsgdHeader {
  static constexpr std::uint16_t kKind = 0;  // not a message by itself: it is in one
  static constexpr std::string_view kName = "header";
  enum class Kind : std::uint8_t {
    request,  // of an active worker, with its model
    answer,   // of a passive one, with its own
    refusal   // without a vector: its model is in the mean that the run ends with, or it has none
  };
  Kind kind = Kind::request;
  std::uint64_t exchange = 0;  // the active worker's number of it, from 1
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "kind", .max = 2}, self.kind);
    visit(Field{.name = "exchange", .max = 0x1p32}, self.exchange);
  }
};

class Adpsgd final : public Strategy {
 public:
  static SyncEntry entry();
  struct Config {
    std::string graph = "complete";
    std::uint32_t steps = 1;

    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      visit(Field{.name = "graph",
                  .doc = "whom an active worker may choose: any passive one, or those beside it in "
                         "the order of ranks",
                  .choices = {"complete", "ring"}},
            self.graph);
      visit(Field{.name = "steps",
                  .doc = "local steps between two boundaries, at which an active worker that waits "
                         "for no answer asks the next",
                  .min = 1},
            self.steps);
    }
  };
  Adpsgd(const Config&, SyncParts, const Place&);

  void on_start(Turn&) override;
  void on_view(const View& before, Turn&) override;
  void on_computed(const Computed&, Turn&) override;
  void on_progress(Turn&) override;
  Round rounds_done() const override { return count_.rounds(); }
  bool lets_return() const override { return true; }
  std::string waiting_for() const override;
  Explanation explain() const override;
  void state(Archive&) override;

 private:
  using Channel = VectorChannel<AdpsgdHeader>;
  enum class Phase : std::uint8_t {
    unstarted,
    outside,  // has returned, and has no model yet
    ready,
    computing,
    waiting,    // has taken as many steps as the whole run has
    closing,    // the run is over: waits for the answer to its last request
    averaging,  // takes part in the mean that the run ends with
    ended
  };
  struct Exchange {
    Rank partner = 0;
    Snapshot sent;  // as the partner reads it
    Time since{0};
    void state(Archive& ar) {
      ar(partner, since);
      archive_snapshot(ar, sent);
    }
  };

  Result<bool> admit(Rank from, const AdpsgdHeader&, const ContentShape&) const;
  std::vector<Rank> partners(const Turn&) const;
  void ask(Turn&);
  void receive(Turn&);
  void answer(Rank from, const AdpsgdHeader&, const Snapshot& model, Turn&);
  void take_answer(const Snapshot& model, Turn&);
  Snapshot send(Rank to, const AdpsgdHeader&, Turn&);
  void approach(const Snapshot& theirs, const Snapshot& mine, const Turn&);
  void begin_steps(Turn&);
  void fold_steps(Turn&);
  bool advance(Turn&);
  void hand_over(Turn&);
  void take_state(Turn&);
  void average(Turn&);
  bool take_final(Turn&);
  void fail(const Error&, Turn&);

  const Config config_;
  const std::uint64_t size_;  // of the layout
  const SharedMembers members_;
  gossip::FinalMean final_;
  std::unique_ptr<Channel> channel_;
  gossip::StepCount count_;
  StateTransfer state_transfer_;
  gossip::FinalReturn final_return_;
  gossip::Newcomers newcomers_;

  Phase phase_ = Phase::unstarted;
  bool has_model_ = false;
  std::vector<float> model_;  // without the steps that are being computed
  std::vector<float> start_;  // params() when they began
  double kept_ = 1;           // share of start_'s buffers in those of model_
  std::uint64_t exchanges_ = 0;
  std::optional<Exchange> open_;
  std::set<Rank> answers_;  // to whom one is not wholly with the host
};

}  // namespace longhaul::sync
