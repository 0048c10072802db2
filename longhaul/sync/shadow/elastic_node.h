#pragma once
// ElasticNode is a node of ShadowSync with elastic averaging: a trainer if it has a learner, and
// the server of the centre if it is the one. Exchanges (elastic.h) go on beside the training, back
// to back; at each step boundary the trainer asks for the next step in the same turn.
//   Zheng et al., "ShadowSync: performing synchronization in the background for highly scalable
//   distributed training", arXiv 2003.03477.
//
// The server is the node of [roles] server, else the lowest with the role, else rank 0. If it is
// lost, the next live node in the order of ranks follows, with the next server epoch, and asks the
// lowest live worker for values to begin with. What only the lost centre held is gone; an open push
// has no effect on either side.
//
// A round is as many exchanges as there were workers at the start. The run ends by [stop], or when
// every live worker has told the server that it is done with its data; then all workers average
// their parameters once.
#include "longhaul/core/vector_channel.h"
#include "longhaul/sync/gossip/final_mean.h"
#include "longhaul/sync/gossip/step_count.h"
#include "longhaul/sync/shadow/config.h"
#include "longhaul/sync/shadow/elastic.h"
#include "longhaul/sync/shadow/pace.h"

namespace longhaul::sync::shadow {

struct ElasticHeader {
  static constexpr std::uint16_t kKind = 0;  // not a message by itself: it is in one
  static constexpr std::string_view kName = "header";
  enum class Kind : std::uint8_t {
    // to the server
    pull,  // asks for the centre
    push,  // d, with a vector
    seed,  // values to begin with, with a vector
    done,  // the worker takes no more steps
    // to a worker
    data,      // the centre, with a vector
    ack,       // the push is in the centre
    nak,       // it is not and will not be
    ask_seed,  // the server needs values
    end        // all workers are done
  };
  Kind kind = Kind::pull;
  std::uint32_t server_epoch = 0;
  std::uint64_t seq = 0;  // of the exchange

  bool is_for_server() const { return kind < Kind::data; }
  bool carries() const { return kind == Kind::push || kind == Kind::seed || kind == Kind::data; }
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(kind, .max = 8);
    LONGHAUL_FIELD(server_epoch);
    LONGHAUL_FIELD(seq, .max = 0x1p50);
  }
};

class ElasticNode final : public Strategy {
 public:
  ElasticNode(const ShadowConfig&, SyncParts, const Place&);

  void on_start(Turn&) override;
  void on_view(const View& before, Turn&) override;
  void on_step(const StepResult&, Turn&) override;
  void on_computed(const Computed&, Turn&) override;
  void on_timer(TimerId, Turn&) override;
  void on_progress(Turn&) override;
  Round rounds_done() const override { return count_.rounds(); }
  std::string waiting_for() const override;
  void state(Archive&) override;

 private:
  using Channel = VectorChannel<ElasticHeader>;
  using Kind = ElasticHeader::Kind;
  enum class Phase : std::uint8_t { unstarted, training, closing, averaging, ended };

  Result<bool> admit(Rank from, const ElasticHeader&, const ContentShape&) const;
  void send(Rank to, Kind, std::uint64_t seq, Turn&, Snapshot = nullptr);
  bool receive(Turn&);  // has anything come?
  void fail(const Error&, Turn&);

  // the server
  bool is_server() const { return server_ == place_.self; }
  void serve(Rank from, const ElasticHeader&, const Snapshot&, Turn&);
  void follow_workers(Turn&);
  void answer_pulls(Turn&);

  // the trainer
  void take(const ElasticHeader&, const Snapshot&);
  void train(Turn&);
  bool advance(Turn&);
  void exchange(Turn&);
  void push(Turn&);
  void complete(Turn&);
  void next_steps(Turn&);
  bool takes_steps() const { return pace_.may_step() && !count_.has_taken_all(); }

  const ShadowConfig config_;
  const Place place_;
  const std::vector<Rank> workers_;  // at the start
  const double alpha_;
  gossip::FinalMean final_;
  std::unique_ptr<Channel> channel_;
  gossip::StepCount count_;  // of exchanges

  Rank server_;
  std::uint32_t server_epoch_ = 0;
  // At the server.
  Centre centre_;
  std::optional<Rank> asked_;            // for values to begin with
  std::map<Rank, std::uint64_t> pulls_;  // seq, of those that wait for the first values
  std::set<Rank> done_;                  // workers
  // At a trainer.
  Phase phase_ = Phase::unstarted;
  Pace pace_;
  ElasticExchange exchange_;
  Computed computed_;           // between the starts of the last two exchanges
  std::optional<Time> began_;   // the last exchange
  std::optional<Time> paused_;  // since when it computes nothing
  bool computing_ = false;
  bool owes_seed_ = false;
  bool said_done_ = false;
  bool all_done_ = false;
};

}  // namespace longhaul::sync::shadow
