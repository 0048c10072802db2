#pragma once
// Decentralised parallel SGD: no server and no mean of all. After every few local steps each worker
// mixes its model with those of its neighbours in a graph, and waits for nobody else.
//   Lian et al., "Can decentralized algorithms outperform centralized algorithms?", NIPS 2017,
//   algorithm 1; adapt_then_combine: Chen and Sayed, "Diffusion adaptation strategies", 2012,
//   equation 20; differences: Koloskova et al., "Decentralized stochastic optimization and gossip
//   algorithms with compressed communication" (CHOCO-SGD), ICML 2019, algorithm 2, with a
//   consensus step of 1.
//
// With y_i for what worker i sent in a round, x' for its model after its local steps, and the
// neighbours j in the order of their ranks, in double, rounded once:
//   x_i <- x'_i + sum_j W_ij (y_j - y_i)
// published: y is the model before the local steps, so that computing hides the sending.
// adapt_then_combine: y is x'. With differences y_i is the copy of x_i that all neighbours hold.
//
// A worker that has returned takes the model of the senior worker, as it stands between two
// computations. It begins in the latest round that its neighbours have told, of those who have been
// here longer; until it tells them, they mix nothing. So it is never behind all of its neighbours,
// and no worker is further ahead of another than after a loss.
#include "longhaul/core/registry.h"
#include "longhaul/core/vector_channel.h"
#include "longhaul/sync/gossip/final_return.h"
#include "longhaul/sync/gossip/neighbours.h"
#include "longhaul/sync/gossip/newcomers.h"

namespace longhaul::sync {

struct DpsgdHeader {
  static constexpr std::uint16_t kKind = 0;  // not a message by itself: it is in one
  static constexpr std::string_view kName = "header";
  enum class Kind : std::uint8_t {
    join,  // without a vector: the round in which the sender entered the view
    model  // what the sender mixes with in this round
  };
  Kind kind = Kind::model;
  bool is_whole = true;  // else the difference to the model before
  Epoch epoch = 0;       // of the view whose graph it is of
  Round round = 0;
  double samples = 0;  // the sender's estimate of what a worker has used in the mean
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "kind", .max = 1}, self.kind);
    visit(Field{.name = "is_whole"}, self.is_whole);
    visit(Field{.name = "epoch"}, self.epoch);
    visit(Field{.name = "round", .max = 0x1p50}, self.round);
    visit(Field{.name = "samples", .min = 0, .max = 0x1p60}, self.samples);
  }
};

class Dpsgd final : public Strategy {
 public:
  static SyncEntry entry();
  struct Config {
    std::string graph = "ring";
    std::uint32_t degree = 3;
    std::uint32_t steps = 1;
    std::string order = "published";
    std::string send = "model";

    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      visit(Field{.name = "graph",
                  .doc = "who mixes with whom; best_rate: the fastest tree and the fastest other "
                         "pairs by what [wan] says",
                  .choices = {"ring", "torus", "exponential", "complete", "best_rate"}},
            self.graph);
      visit(Field{.name = "degree", .doc = "most neighbours with best_rate", .min = 2},
            self.degree);
      visit(Field{.name = "steps", .doc = "local steps between mixings", .min = 1}, self.steps);
      visit(Field{.name = "order",
                  .doc = "published: the models before the local steps are mixed, and sent while "
                         "they run; adapt_then_combine: those after them",
                  .choices = {"published", "adapt_then_combine"}},
            self.order);
      visit(Field{.name = "send",
                  .doc = "models, or their differences to the copies that the neighbours hold",
                  .choices = {"model", "difference"}},
            self.send);
    }
  };
  Dpsgd(const Config&, SyncParts, const Place&);

  void on_start(Turn&) override;
  void on_view(const View& before, Turn&) override;
  void on_computed(const Computed&, Turn&) override;
  void on_progress(Turn&) override;
  Round rounds_done() const override { return done_; }
  bool lets_return() const override { return true; }
  std::string waiting_for() const override;
  void state(Archive&) override;

 private:
  using Channel = VectorChannel<DpsgdHeader>;
  enum class Phase : std::uint8_t {
    unstarted,
    outside,   // has returned, and has no model yet
    entering,  // has one; waits for the rounds of its neighbours
    ready,
    computing,
    mixing,     // waits for the neighbours' models
    deciding,   // waits for a verdict
    averaging,  // takes part in the mean that the run ends with
    ended
  };

  bool sends_differences() const { return config_.send == "difference"; }
  Result<bool> admit(Rank from, const DpsgdHeader&, const ContentShape&);
  void enter_view(Turn&);
  void receive(Turn&);
  bool advance(Turn&);
  bool decide(Turn&);
  // dpsgd_returning.cpp
  void hand_over(Turn&);
  void archive_for_returned(Archive&, Turn&);
  bool take_state(Turn&);
  bool enter_run(Turn&);
  std::vector<Rank> older_neighbours() const;
  bool take_final(Turn&);
  void join(Turn&);
  void begin_round(Turn&);
  void announce(Turn&);
  std::vector<float> difference(Turn&);
  void follow(const Snapshot& change, Rank holder, Turn&);
  static Snapshot moved(const Snapshot& copy, std::span<const float> change, const Turn&);
  SendOptions options(bool whole) const;
  void send(const std::vector<Rank>& to, bool whole, Snapshot values, Turn&);
  void mix(Turn&);
  Snapshot model_of(Rank, const gossip::NeighbourModel&, const Turn&);
  void end_round(Turn&);
  void fail(const Error&, Turn&);

  const Config config_;
  const Rank self_;
  const Round apart_;         // the most rounds that a worker is ahead of another
  const std::uint64_t size_;  // of the layout
  const std::function<double(Rank, Rank)> rates_;  // as the job's network has them; may be null
  gossip::FinalMean final_;
  std::unique_ptr<Channel> channel_;
  StopRule stop_;
  StateTransfer state_transfer_;
  gossip::FinalReturn final_return_;
  gossip::Newcomers newcomers_;

  Phase phase_ = Phase::unstarted;
  Round done_ = 0;                  // also the round that runs
  bool has_entered_ = false;        // its first view
  Epoch epoch_ = 0;                 // of the view whose graph it mixes in
  std::map<Rank, Epoch> returned_;  // of that view
  bool is_announced_ = false;       // y_i of this round is in own_
  Snapshot own_;                    // y_i
  gossip::Neighbours neighbours_;
  // Differences: who holds y_i, and y_j of those who have sent it; null while it is on its way.
  std::set<Rank> holders_;
  std::map<Rank, Snapshot> copies_;
  std::deque<std::pair<Round, VectorHandle>> sent_;  // of the last rounds
  // That a worker has used in the mean, an estimate that is mixed as models are; as announced.
  double samples_ = 0, own_samples_ = 0;
  Time asked_{0};  // since when the neighbours' models are awaited
};

}  // namespace longhaul::sync
