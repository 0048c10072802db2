#pragma once
// The attempt of tsengine: the agent of a node, which does what the coordinator says (tsengine.md).
// A bucket is a run of pieces. Its parts are added up on the way to the server, two nodes at a time
// (tsengine_sum.h); its mean is passed on by whoever has it, in the very bytes in which the server
// wrote it. Pieces of a sum are kept until all of the bucket are here, and then added at once: so a
// transfer that is given up has left no trace.
#include <map>

#include "longhaul/overlay/attempt.h"
#include "longhaul/overlay/tsengine_coordinator.h"
#include "longhaul/overlay/tsengine_sum.h"

namespace longhaul::overlay::tsengine {

class Agent final : public Attempt {
 public:
  // streamed: a bucket's mean goes out when it is formed; else when those of all buckets are. The
  // coordinator outlives it, and forgets the exchange when it ends.
  Agent(const ExchangeSpec&, std::uint32_t buckets, bool streamed, Coordinator&);
  ~Agent() override { coordinator_.close(spec_.key); }

  void contribute(std::uint64_t length, double weight, AttemptContext&) override;
  Status take_announcement(Rank from, const Announcement&, AttemptContext&) override;
  Result<bool> admit(Rank from, const TransferKey&, std::size_t piece) const override;
  Status take(Arrival&&, std::size_t piece, AttemptContext&) override;
  Status take_message(Rank from, const AttemptMessage&, AttemptContext&) override;
  void on_time(AttemptContext&) override;
  Payload encoded(const TransferKey&, std::size_t piece, AttemptContext&) override;
  Progress progress() const override;
  std::string waiting_for(const std::vector<bool>& mean_pieces) const override;
  void state(Archive&) override;

 private:
  struct Out {  // the transfer under way from here
    Xfer xfer = 0;
    bool mean = false;
    Rank to = 0;
    Time due{0};
    std::uint32_t left = 0;  // pieces that wait for room
    void state(auto& ar) { ar(xfer, mean, to, due, left); }
  };
  struct In {  // a sum that comes here
    Rank from = 0;
    Xfer xfer = 0;
    Time since{0};
    Sum sum;
    std::vector<bool> have;  // by place in the bucket
    std::size_t missing = 0;
    void state(auto& ar) { ar(from, xfer, since, sum, have, missing); }
  };
  struct Source {  // of a bucket of the mean
    Xfer xfer = 0;
    Time since{0};
    void state(auto& ar) { ar(xfer, since); }
  };
  struct Past {           // of the transfers of a sum from somebody
    Xfer xfer = 0;        // the last one
    bool taken = false;   // it was; else it never will be
    bool failed = false;  // one of them was not
    void state(auto& ar) { ar(xfer, taken, failed); }
  };
  struct Bucket {
    std::uint32_t first = 0, count = 0;  // pieces
    // The sum: at the server of all but itself; elsewhere nothing until somebody's was added.
    Sum sum;
    std::optional<In> in;
    std::map<Rank, Past> past;
    bool given = false;  // the own part was taken
    // The mean: its bytes, and from whom it comes.
    std::vector<Payload> bytes;
    std::size_t missing = 0;
    std::map<Rank, Source> sources;
    bool again = false;   // it was announced more than once
    bool let_go = false;  // nobody will ask for it
    // The last transfer that the coordinator asked for, and while it is under way.
    Xfer obeyed = 0;
    Rank target = 0;
    std::optional<Out> out;
    void state(auto& ar) {
      ar(sum, in, past, given, bytes, missing, sources, again, let_go, obeyed, target, out);
    }
  };

  // tsengine_attempt.cpp
  Rank server() const { return spec_.plan->root(); }
  bool serves() const { return server() == spec_.team->self; }
  bool takes_part(Rank rank) const { return spec_.team->index_of(rank).has_value(); }
  std::uint64_t offset(const Bucket&, std::size_t piece) const;
  std::uint64_t length(const Bucket&) const;
  Bucket& bucket_of(std::size_t piece);
  const Bucket& bucket_of(std::size_t piece) const;
  std::uint32_t number(const Bucket& bucket) const { return std::uint32_t(&bucket - &buckets_[0]); }
  TransferKey mean_key() const { return key(Phase::mean, Coding::down, server()); }
  TransferKey part_key(Rank from, std::size_t counted) const;
  bool late(Rank from, const TransferKey&, std::size_t piece) const;
  void set_due();
  void send(Bucket&, const Out&, Sending, AttemptContext&);
  Sum own_sum(const Bucket&, AttemptContext&) const;

  // The server's side.
  void enlist(std::uint32_t member, double weight, AttemptContext&);
  std::vector<Rank> missing(const Bucket&) const;
  void try_commit(Bucket&, AttemptContext&);
  void commit(Bucket&, AttemptContext&);

  // tsengine_notes.cpp: what agents and coordinator say
  Status hear(Rank from, const Assign&, AttemptContext&);
  Status hear(Rank from, const Merge&, AttemptContext&);
  Status hear(Rank from, const Fence&, AttemptContext&);
  Status hear(Rank from, const Sending&, AttemptContext&);
  Status hear(Rank from, const Got&, AttemptContext&);
  template <class M>
  Status hear(Rank from, const M& for_the_coordinator, AttemptContext&);
  Status hear_mean(Rank from, const Sending&, Bucket&, AttemptContext&);
  Status hear_part(Rank from, const Sending&, Bucket&, AttemptContext&);
  Status check_part(Rank from, const Sending&, const Bucket&,
                    const std::vector<Rank>& counted) const;
  void take_part(Bucket&, AttemptContext&);
  void take_mean(Bucket&, Rank from, AttemptContext&);
  void give(Bucket&, AttemptContext&);
  void stop(Bucket&, AttemptContext&);
  Bucket* find(std::uint32_t number);
  void say(Rank to, AttemptMessage, AttemptContext&, Service = kControl);
  template <class M>
  void report(const M&, AttemptContext&);
  void pass(Orders&&, AttemptContext&);

  const bool streamed_;
  Coordinator& coordinator_;
  std::vector<Bucket> buckets_;
  std::vector<double> weights_;  // by member; only at the server
  std::uint32_t unknown_ = 0;    // members the server has not heard of
  std::size_t to_reduce_ = 0;    // buckets; only at the server
};

}  // namespace longhaul::overlay::tsengine
