#pragma once
// The messages between the two ends of a differential transfer.
#include <vector>

#include "longhaul/core/message.h"
#include "longhaul/core/transfer.h"

namespace longhaul::transfer::dgt {

// A set of blocks in messages: bit s % 8 of byte s / 8 is block s.
using Bitmap = std::vector<std::uint8_t>;

inline Bitmap empty_bitmap(std::size_t blocks) { return Bitmap((blocks + 7) / 8); }
inline bool has(const Bitmap& set, std::size_t block) {
  return block / 8 < set.size() && (set[block / 8] >> block % 8 & 1) != 0;
}
inline void insert(Bitmap& set, std::size_t block) {
  set[block / 8] = std::uint8_t(set[block / 8] | 1u << block % 8);
}
inline std::uint32_t count(const Bitmap& set) {
  std::uint32_t sum = 0;
  for (std::size_t block = 0; block < 8 * set.size(); ++block) sum += has(set, block) ? 1 : 0;
  return sum;
}
// Returns true if the set is as long as `blocks` need, and has no other blocks.
inline bool is_of(const Bitmap& set, std::size_t blocks) {
  if (set.size() != (blocks + 7) / 8) return false;
  for (std::size_t block = blocks; block < 8 * set.size(); ++block)
    if (has(set, block)) return false;
  return true;
}
inline bool is_subset(const Bitmap& part, const Bitmap& whole) {
  for (std::size_t i = 0; i < part.size(); ++i)
    if (i >= whole.size() || (part[i] & ~whole[i]) != 0) return false;
  return true;
}

// The vectors of one exchange, one after the other, from one sender to one receiver: their group,
// range, and first offset in the vector. Each is a push; pushes count 0, 1, 2 ...
struct StreamId {
  std::uint32_t group = 0;
  std::uint32_t range = 0;
  std::uint64_t offset = 0;
  friend auto operator<=>(const StreamId&, const StreamId&) = default;
  LONGHAUL_FIELDS(group, range, (offset, .max = 0x1p40))
};

inline constexpr double kMostPushes = 0x1p50;
inline constexpr double kMostBitmap = 0x1p24;  // bytes
inline constexpr double kMostStretches = 0x1p20;

// Blocks of a push, one after the other in the body. Best effort: as many as fit a datagram.
struct Blocks {
  LONGHAUL_MESSAGE(1, "blocks");
  StreamId stream;
  std::uint64_t push = 0;
  std::vector<std::uint32_t> numbers;
  std::vector<std::uint32_t> sizes;  // bytes of each
  LONGHAUL_FIELDS(stream, (push, .max = kMostPushes), numbers, sizes)
};

// The end of a push, behind its reliable blocks: its vector, and which blocks are reliable.
struct End {
  LONGHAUL_MESSAGE(2, "end");
  StreamId stream;
  std::uint64_t push = 0;
  std::uint64_t oldest = 0;  // lower pushes without an end are given up
  TransferKey key;
  double weight = 0;
  std::vector<Range> ranges;  // ranges in which the vector is exchanged
  std::uint32_t blocks = 0;
  Bitmap offered;   // the others are 0
  Bitmap reliable;  // subset of `offered`
  LONGHAUL_FIELDS(stream, (push, .max = kMostPushes), (oldest, .max = kMostPushes), key,
                  (weight, .min = 0, .max = 1e200), (ranges, .max = kMostStretches),
                  (blocks, .max = 8 * kMostBitmap),
                  (offered, .doc = "bits by block", .max = kMostBitmap),
                  (reliable, .doc = "bits by block", .max = kMostBitmap))
};

// The blocks of a push that will not be sent.
struct Expired {
  LONGHAUL_MESSAGE(3, "expired");
  StreamId stream;
  std::uint64_t push = 0;
  Bitmap blocks;
  LONGHAUL_FIELDS(stream, (push, .max = kMostPushes),
                  (blocks, .doc = "bits by block", .max = kMostBitmap))
};

// The receiver's answer with late = "return": these blocks of the push count, and no others ever
// will.
struct Receipt {
  LONGHAUL_MESSAGE(4, "receipt");
  StreamId stream;
  std::uint64_t push = 0;
  Bitmap counted;
  LONGHAUL_FIELDS(stream, (push, .max = kMostPushes),
                  (counted, .doc = "bits by block", .max = kMostBitmap))
};

using Messages = MessageList<Blocks, End, Expired, Receipt>;

// The fate of the blocks of one push; `offered` is the sum of the others.
struct Account {
  Round round = 0;
  std::uint32_t offered = 0;
  std::uint32_t fresh = 0;     // in time
  std::uint32_t carried = 0;   // added to a later push
  std::uint32_t returned = 0;  // the sender adds them to a later one
  std::uint32_t late = 0;      // arrived too late, and dropped
  std::uint32_t expired = 0;   // not sent in time, and dropped by the sender
  std::uint32_t bad = 0;       // not valid in the codec
  std::uint32_t lost = 0;      // did not arrive
  std::uint32_t settled() const { return fresh + carried + returned + late + expired + bad + lost; }
  LONGHAUL_FIELDS(round, offered, fresh, carried, returned, late, expired, bad, lost)
};

}  // namespace longhaul::transfer::dgt
