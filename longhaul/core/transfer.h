#pragma once
// A Transfer moves vectors over single links. It owns the send queue of each peer, cuts ranges into
// messages of at most a chunk, and feeds the host as on_writable allows.
#include <optional>

#include "longhaul/core/coder.h"
#include "longhaul/core/machine.h"

namespace longhaul {

struct TransferKey {
  Epoch epoch = 0;         // epoch of the attempt; see overlay/agreed
  CodecKey vector;         // origin: the contributor; for a sum or mean: its author
  std::uint8_t phase = 0;  // defined by the overlay: part, mean ...
  Coding coding = Coding::exact;
  friend auto operator<=>(const TransferKey&, const TransferKey&) = default;
  LONGHAUL_FIELDS(epoch, vector, (phase, .max = 15), (coding, .max = 2))
};

// The owner's interface for a transfer: source and destination of numbers. The transfer pulls
// values when the link has room, so a queued vector costs no memory beyond the owner's copy.
class VectorPort {
 public:
  virtual ~VectorPort() = default;
  // Returns the bytes of one piece, or a phantom of their size. Called only for keys the owner
  // began.
  virtual Payload encoded(const TransferKey&, Range) = 0;
  // Returns an Error if `from` must not send this piece now. Called before any allocation for it.
  virtual Status admit(Rank from, const TransferKey&, Range) = 0;
  // Decodes bytes to numbers; returns an empty vector for a phantom payload.
  virtual Result<std::vector<float>> decode(const TransferKey&, Range, const Payload&) = 0;
  // For a transfer that depends on the values. Overlays that allow one (TransferTraits::lossless)
  // must override both functions; the part is this node's own, Coding::up. part_values() returns
  // the values in a piece (empty in a phantom job), which count as sent from then on. encode_part()
  // returns the bytes of values that replace them, for any range of a piece.
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
  std::vector<Range> ranges;  // each is one message if it fits a chunk, else several
  double weight = 0;          // sent with every message
  Service service;
};

struct Arrival {
  Rank from = 0;
  TransferKey key;
  Range range;
  std::vector<float> values;  // range.length values, 0 for lost ones; none in a phantom job
  double weight = 0;
  void state(auto& archive) { archive(from, key, range, values, weight); }
};

struct Sent {
  TransferKey key;
  Rank to = 0;
  bool ok = false;  // the host has all of it (reliable), or it is accounted for
  std::uint64_t bytes = 0;
  Time elapsed{0};
  void state(auto& archive) { archive(key, to, ok, bytes, elapsed); }
};

class Transfer : public Machine {
 public:
  virtual void attach(VectorPort& port) = 0;  // called once, before anything else
  virtual void begin(Outgoing, Turn&) = 0;
  // Drops queued values of `key` for `to`, or for all receivers. No Sent follows.
  virtual void cancel(const TransferKey&, std::optional<Rank> to) = 0;
  virtual std::uint64_t remaining(const TransferKey&, Rank to) const = 0;  // values still queued
  // Return received and sent items. The owner must drain both in on_progress.
  virtual std::optional<Arrival> arrived() = 0;
  virtual std::optional<Sent> sent() = 0;
  // Sets the mean training loss of the newest local step, for transfers that adapt to it.
  virtual void training_loss(double) {}
  // Changes the service of the queued values of `key` for `to`.
  virtual void reprioritise(const TransferKey& key, Rank to, Service, Turn&) = 0;
};

}  // namespace longhaul
