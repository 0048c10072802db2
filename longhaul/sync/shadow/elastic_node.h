#pragma once
// ElasticNode is a node of ShadowSync with elastic averaging: a trainer if it has a learner, and
// the server of those shards of the centre (shard.h) that are its. Exchanges (elastic.h) go on
// beside the training, back to back; at each step boundary the trainer asks for the next step in
// the same turn. In the foreground each lane (lanes.h) has exchanges of its own, for which it alone
// stands still.
//   Zheng et al., "ShadowSync: performing synchronization in the background for highly scalable
//   distributed training", arXiv 2003.03477.
//
// The first server is the node of [roles] server, else the lowest with the role, else rank 0. Who
// follows a lost one asks the senior worker for values to begin with. What only the lost shard
// held is gone; an open push has no effect on either side.
//
// A node that comes back (elastic_returning.cpp) is told by the servers whom to ask; a trainer
// begins with the centre.
//
// A round is as many exchanges as there were workers at the start. The run ends by [stop], or when
// every live worker has told the first shard's server that it is done with its data; then all
// workers average their parameters once.
#include "longhaul/core/vector_channel.h"
#include "longhaul/sync/gossip/final_return.h"
#include "longhaul/sync/gossip/step_count.h"
#include "longhaul/sync/shadow/config.h"
#include "longhaul/sync/shadow/elastic.h"
#include "longhaul/sync/shadow/lanes.h"
#include "longhaul/sync/shadow/pace.h"
#include "longhaul/sync/shadow/shard.h"

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
    end,       // all workers are done
    // to a node that has come back: the sender serves the shard
    serving
  };
  Kind kind = Kind::pull;
  std::uint32_t server_epoch = 0;
  std::uint32_t shard = 0;
  std::uint32_t exchanger = 0;  // of the trainer's
  std::uint64_t seq = 0;        // of the exchange

  bool is_for_server() const { return kind < Kind::data; }
  bool carries() const { return kind == Kind::push || kind == Kind::seed || kind == Kind::data; }
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(kind, .max = 9);
    LONGHAUL_FIELD(server_epoch);
    LONGHAUL_FIELD(shard, .max = 63);
    LONGHAUL_FIELD(exchanger, .max = 255);
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
  bool lets_return() const override { return true; }
  Round rounds_done() const override { return count_.rounds(); }
  std::string waiting_for() const override;
  void state(Archive&) override;

 private:
  using Channel = VectorChannel<ElasticHeader>;
  using Kind = ElasticHeader::Kind;
  enum class Phase : std::uint8_t {
    unstarted,
    training,
    closing,
    averaging,
    ended,
    entering  // has come back: waits for the servers' names and the centre
  };

  Result<bool> admit(Rank from, const ElasticHeader&, const ContentShape&) const;
  void send(Rank to, ElasticHeader, Turn&, Snapshot = nullptr);
  bool receive(Turn&);  // has anything come?
  bool receive(Channel&, Turn&);
  void fail(const Error&, Turn&);

  // the server
  bool serves(std::uint32_t shard) const {
    return shards_[shard].is_known && shards_[shard].server == place_.self;
  }
  void serve(Rank from, const ElasticHeader&, const Snapshot&, Turn&);
  void take_push(Rank from, const ElasticHeader&, std::span<const float> d, Turn&);
  void follow_workers(Turn&);
  void follow_workers(std::uint32_t shard, const std::vector<Rank>& live, Turn&);
  void answer_pulls(std::uint32_t shard, Turn&);

  // the trainer
  void take(const ElasticHeader&, const Snapshot&);
  void train(Turn&);
  bool advance(Turn&);
  bool close_exchanges(Turn&);
  void exchange(std::uint32_t exchanger, Turn&);
  bool may_ask(std::uint32_t exchanger, Turn&);
  void push(std::uint32_t exchanger, std::uint32_t shard, Turn&);
  void complete(std::uint32_t exchanger, Turn&);
  void next_steps(Turn&);

  // elastic_returning.cpp
  void begin_outside();
  void follow_returned(const std::set<std::uint32_t>& moved, Turn&);
  void tell_returned(Turn&);
  void learn_server(Rank from, const ElasticHeader&);
  void send_seeds(Turn&);
  bool enter(Turn&);
  Result<bool> take_final(Turn&);
  // Of the shard, of all values and of the parameters alone.
  std::span<float> part(std::uint32_t shard, Turn&) const;
  std::uint32_t group_of(Rank to, std::uint32_t shard, std::uint32_t exchanger) const;
  std::size_t parameters_in(std::uint32_t shard) const;
  Snapshot copy_of(std::uint32_t shard, Turn&) const;
  bool is_idle() const;
  bool takes_steps() const { return pace_.may_step() && !count_.has_taken_all(); }

  const ShadowConfig config_;
  const Place place_;
  const std::vector<Rank> workers_;  // at the start
  const double alpha_;
  gossip::FinalMean final_;
  gossip::FinalReturn final_return_;
  // What carries no vector does not wait behind those of other exchanges.
  std::unique_ptr<Channel> vectors_, requests_;
  gossip::StepCount count_;  // of exchanges

  std::vector<Shard> shards_;
  std::set<Rank> done_;  // workers; at the first shard's server
  // At a trainer.
  Phase phase_ = Phase::unstarted;
  // A round of exchanges, one with each shard, that begin together.
  struct Exchanger {
    std::vector<ElasticExchange> shards;
    bool is_open = false;
    bool has_moved = false;     // one of them has had its effect
    std::uint32_t steps = 0;    // since the round before began; foreground: of the lane
    Computed computed;          // of the trainer, between the starts of two rounds
    std::optional<Time> began;  // the last one
    void state(Archive& ar) { ar(shards, is_open, has_moved, steps, computed, began); }
  };
  Pace pace_;
  Lanes lanes_;
  std::vector<Exchanger> exchangers_;  // foreground: one a lane; else one
  std::optional<Time> paused_;         // since when it computes nothing
  bool computing_ = false;
  std::set<std::uint32_t> owed_seeds_;  // shards
  bool said_done_ = false;
  bool all_done_ = false;
  bool told_end_ = false;  // at the first shard's server
  // At a server: of which shards it is, for whom has come back.
  std::set<std::pair<std::uint32_t, Rank>> owed_names_;
  // At a trainer that has come back: shards whose values it has; whether it has had all.
  std::set<std::uint32_t> has_values_;
  bool has_model_ = true;
};

}  // namespace longhaul::sync::shadow
