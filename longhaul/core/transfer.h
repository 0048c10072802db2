#pragma once
// A Transfer moves vectors over single links: it owns the queue of what is to go to each peer, cuts
// ranges into messages of at most a chunk, and feeds the host as on_writable allows.
#include <optional>

#include "longhaul/core/coder.h"
#include "longhaul/core/machine.h"

namespace longhaul {

struct TransferKey {
  Epoch epoch = 0;         // of the attempt; see overlay/agreed
  CodecKey vector;         // origin: whose contribution; a sum or mean: who made it
  std::uint8_t phase = 0;  // named by the overlay: part, mean ...
  Coding coding = Coding::exact;
  friend auto operator<=>(const TransferKey&, const TransferKey&) = default;
  LONGHAUL_FIELDS(epoch, vector, (phase, .max = 15), (coding, .max = 2))
};

// The owner's side of a transfer: where numbers come from and go to. Pulled when the link has room,
// so that a queued vector costs no memory beyond the owner's own copy.
class VectorPort {
 public:
  virtual ~VectorPort() = default;
  // The bytes of one piece, or a phantom of their size. Only for keys the owner began.
  virtual Payload encoded(const TransferKey&, Range) = 0;
  // May `from` give this piece now? Asked before anything is allocated for it.
  virtual Status admit(Rank from, const TransferKey&, Range) = 0;
  // Bytes to numbers; a phantom payload gives an empty vector.
  virtual Result<std::vector<float>> decode(const TransferKey&, Range, const Payload&) = 0;
  // For a transfer that treats values by what they are. Only overlays that may be combined with one
  // answer (TransferTraits::lossless), and only for a part of this node's own making, Coding::up:
  // its values in a piece (a phantom's: none), which count as sent from then on; and bytes for
  // values that go in their place, of any stretch of a piece.
  virtual std::span<const float> part_values(const TransferKey&, Range) {
    LH_CHECK(false);
    return {};
  }
  virtual Payload encode_part(const TransferKey&, Range, std::span<const float> values) {
    (void)values;
    LH_CHECK(false);
    return {};
  }
};

struct Outgoing {
  TransferKey key;
  Rank to = 0;
  std::vector<Range> ranges;  // each is sent as one message if it fits a chunk, else as several
  double weight = 0;          // travels with every message
  Service service;
};

struct Arrival {
  Rank from = 0;
  TransferKey key;
  Range range;
  std::vector<float> values;  // range.length of them; phantom: none. 0 where they were lost
  double weight = 0;
  void state(auto& archive) { archive(from, key, range, values, weight); }
};

struct Sent {
  TransferKey key;
  Rank to = 0;
  bool ok = false;  // all of it is with the host (reliable) or accounted for
  std::uint64_t bytes = 0;
  Time elapsed{0};
  void state(auto& archive) { archive(key, to, ok, bytes, elapsed); }
};

class Transfer : public Machine {
 public:
  virtual void attach(VectorPort& port) = 0;  // once, before anything else
  virtual void begin(Outgoing, Turn&) = 0;
  // Drops what of `key` is still queued here for `to`, or for all. No Sent follows.
  virtual void cancel(const TransferKey&, std::optional<Rank> to) = 0;
  virtual std::uint64_t remaining(const TransferKey&, Rank to) const = 0;  // values still queued
  // To be drained by the owner in on_progress.
  virtual std::optional<Arrival> arrived() = 0;
  virtual std::optional<Sent> sent() = 0;
  // Mean training loss of the newest local step; transfers that adapt to it listen.
  virtual void training_loss(double) {}
  // What of `key` is still queued here for `to` goes with this service from now on.
  virtual void reprioritise(const TransferKey& key, Rank to, Service, Turn&) = 0;
};

}  // namespace longhaul
