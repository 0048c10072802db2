#pragma once
// The sending end of differential transfers: cuts vectors into blocks, ranks them, and queues each
// on its channel. Channel 0 is reliable and in the class of service that the owner asked for; of
// the others each has a lower priority than the one before, best effort. To one peer nothing goes
// on a channel while something waits on one before it.
//
// A vector is encoded when it is pushed, since its owner may forget it once its reliable blocks are
// out: memory is the vector as encoded, until it is sent or has expired. With late = "return" what
// goes best effort is kept as fp32, too, until the receipt.
// Owned by Dgt.
#include <deque>
#include <map>
#include <optional>

#include "longhaul/transfer/dgt/config.h"
#include "longhaul/transfer/dgt/ranking.h"
#include "longhaul/transfer/dgt/residuals.h"

namespace longhaul::transfer::dgt {

class Sender {
 public:
  Sender(const Config&, const Place&);
  void attach(VectorPort& port) { port_ = &port; }

  // False for the first vector of a stream: it is to go as a whole.
  bool knows(const Outgoing&) const;
  void note_first(const Outgoing&);
  void begin(Outgoing&&, double k, Turn&);
  // Hands over what the host has room for; best effort only if `best_effort`.
  void pump(Rank to, bool best_effort, Turn&);
  std::vector<Rank> receivers() const;  // for whom something is queued
  // A push whose end is out stays: its other blocks are late at most.
  void cancel(const TransferKey&, std::optional<Rank> to);
  std::uint64_t remaining(const TransferKey&, Rank to) const;  // values not with the host
  void reprioritise(const TransferKey&, Rank to, const Service&);
  Status take(Rank from, const Receipt&);
  void lose(Rank to);

  std::deque<Sent> sent;  // reliable blocks and end are with the host; to be drained by the owner
  const Residuals& residuals() const { return residuals_; }
  void state(Archive&);

 private:
  struct Waiting {  // a block
    std::uint32_t number = 0;
    std::uint32_t values = 0;
    Payload bytes;
    void state(auto& ar) { ar(number, values, bytes); }
  };
  struct Push {
    End end;
    Service service;
    bool ended = false;  // the end is out
    std::vector<std::deque<Waiting>> channels;
    std::uint64_t bytes = 0;
    Time since{0};
    bool empty() const;
    void state(auto& ar) {
      ar(end, service.delivery, service.priority, service.order, ended, channels, bytes, since);
    }
  };
  struct Peer {
    std::map<StreamId, std::uint64_t> streams;  // their next push
    std::deque<Push> pushes;                    // in order of begin()
    void state(auto& ar) { ar(streams, pushes); }
  };

  static StreamId stream_of(const Outgoing&);
  std::vector<float> weigh(const Outgoing&, const std::vector<Block>&,
                           std::vector<std::vector<float>>& values, PushRecord&);
  Ranking channels_of(const Outgoing&, const std::vector<Block>&, const std::vector<float>& c,
                      double k, Turn&) const;
  void fill(Push&, const std::vector<Block>&, const Ranking&,
            const std::vector<std::vector<float>>& values, PushRecord&);
  void undo_repeated(const Outgoing&);
  void forget(Rank to, const StreamId&, std::uint64_t push);
  void expire(Peer&, const StreamId&, std::uint64_t below, Rank to, Turn&);
  void drop(const Push&, Rank to, Turn&);
  std::uint64_t oldest(const Peer&, const StreamId&, std::uint64_t push) const;
  bool pump_reliable(Rank to, Peer&, Turn&);
  bool pump_channel(Rank to, Push&, std::size_t channel, Turn&);
  void send_blocks(Rank to, Push&, std::size_t channel, const Service&, Turn&);
  static Service service_of(const Push&, std::size_t channel);

  const Config config_;
  const std::shared_ptr<const Layout> layout_;
  const bool phantom_;
  const std::uint64_t block_;  // values
  const std::uint64_t chunk_bytes_;
  VectorPort* port_ = nullptr;
  Contributions contributions_;
  Residuals residuals_;
  std::map<Rank, Peer> peers_;
  std::deque<PushRecord> records_;  // late = "return"
};

}  // namespace longhaul::transfer::dgt
