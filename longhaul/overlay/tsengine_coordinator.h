#pragma once
// The coordinator of one group of tsengine: decides each transfer when the nodes for it are free.
// Stands beside the server; all nodes have the object, that of the server's node is asked. Outlives
// attempts: what was learned of links, the count of random draws, and the slots, which all
// exchanges share.
//
// Inputs return orders for agents, of whatever exchange may go on now. An Error: only a broken peer
// says that; nothing has changed. No clock: agents measure, and keep the deadlines that it gives.
#include "longhaul/core/overlay.h"
#include "longhaul/overlay/plan.h"
#include "longhaul/overlay/tsengine_gather.h"
#include "longhaul/overlay/tsengine_messages.h"
#include "longhaul/overlay/tsengine_spread.h"
#include "longhaul/overlay/tsengine_throughput.h"

namespace longhaul::overlay::tsengine {

struct CoordinatorConfig {
  double greed = 0.9;
  Round expire = 5;
  double ema = 0.5;
  Time least = std::chrono::seconds(5);     // that a transfer is given
  Time unknown = std::chrono::seconds(60);  // over a link of which nothing is known
};

struct Order {
  VectorId about;
  Rank to = 0;
  AttemptMessage note;
};
struct Orders {
  std::vector<Order> list;
  std::string give_up;  // why the run cannot go on; "": it can
};

class Coordinator {
 public:
  Coordinator(const CoordinatorConfig& config, std::uint64_t seed) : config_(config), seed_(seed) {}

  // Ends all exchanges. What was learned stays where the server stays.
  void new_team(const GroupMembers&);
  // Begins an exchange of buckets of so many bytes (of fp32), if it has not begun.
  void open(const VectorId&, const std::vector<std::uint64_t>& bytes);
  void close(const VectorId&);  // gives it up
  bool runs(const VectorId& key) const { return boards_.contains(key); }

  // This worker's part is ready to be sent, in all buckets. Once each.
  void ready(const VectorId&, Rank, Orders&);
  // The server has the mean of this bucket. Once each.
  void committed(const VectorId&, std::uint32_t bucket, Orders&);
  Status hear(const VectorId&, Rank from, const Offer&, Orders&);
  Status hear(const VectorId&, Rank from, const Ready&, Orders&);
  Status hear(const VectorId&, Rank from, const Fenced&, Orders&);

  // Is the server to take this part from `from`?
  bool expects(const VectorId&, std::uint32_t bucket, Xfer, Rank from) const;
  // Bytes/s from one node to another as this kind of exchange knows it.
  std::optional<double> rate(const VectorId&, Rank from, Rank to) const;
  // Whose answer to a fence is missing.
  std::vector<Rank> fenced(const VectorId&) const;
  void state(Archive&);

 private:
  struct Bucket {
    std::uint64_t bytes = 0;
    std::uint32_t failures = 0;
    Gather gather;
    Spread spread;
    void state(auto& ar) { ar(bytes, failures, gather, spread); }
  };
  using Board = std::vector<Bucket>;  // of one exchange
  struct Transfer {
    VectorId key;
    std::uint32_t bucket = 0;
    bool mean = false;  // else: a sum on its way
    Rank from = 0, to = 0;
    bool received = false;  // a mean: its receiver said so before its sender
    bool fenced = false;    // a sum: its sender gave up, and its receiver is asked
    void state(auto& ar) { ar(key, bucket, mean, from, to, received, fenced); }
  };
  struct Parked {
    VectorId key;
    std::uint32_t bucket = 0;
    Rank holder = 0;
    void state(auto& ar) { ar(key, bucket, holder); }
  };

  Bucket* find(const VectorId&, std::uint32_t bucket);
  Transfer* find(Xfer, const VectorId&, std::uint32_t bucket, bool mean);
  Throughput& learned(const VectorId&);
  Rate rate_of(const VectorId&);
  void park(const VectorId&, std::uint32_t bucket, Rank holder);
  void count_failure(Xfer, Bucket&, Orders&);
  void end(Xfer);
  void advance(Orders&);
  void spread(Orders&);
  void gather(Orders&);
  Xfer begin(const VectorId&, std::uint32_t bucket, bool mean, Pair);
  std::int64_t allowed(const Bucket&, std::optional<double> rate) const;

  const CoordinatorConfig config_;
  const std::uint64_t seed_;
  Rank server_ = 0;
  std::vector<Rank> receivers_;       // all members but the server
  std::map<VectorId, Board> boards_;  // older rounds first
  // Holders that are free to send, those of older rounds first, then in order.
  std::map<std::pair<Round, std::uint64_t>, Parked> lot_;
  std::map<Xfer, Transfer> transfers_;  // under way
  Slots slots_;
  std::map<std::uint32_t, Throughput> learned_;  // by range
  Xfer next_ = 1;
  std::uint64_t tickets_ = 0;
  Round draws_ = 0;
};

}  // namespace longhaul::overlay::tsengine
