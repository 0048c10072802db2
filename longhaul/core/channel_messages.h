#pragma once
// Messages between two VectorChannels (core/vector_channel.h). The numbers of a vector travel as
// pieces of the Transfer; these messages have no body.
#include "longhaul/core/codec.h"
#include "longhaul/core/coder.h"
#include "longhaul/core/message.h"
#include "longhaul/core/vector_content.h"

namespace longhaul::channel {

inline constexpr std::uint32_t kMostHeaderBytes = 64 * 1024;

// The next vector of the stream. Each class of service that the pieces use gets a copy of this
// message before them; later copies are ignored.
struct Begin {
  LONGHAUL_MESSAGE(1, "begin");
  std::uint64_t seq = 0;     // number of the vector from this sender to this receiver, from 0
  std::uint64_t read = 0;    // receiver's vectors that the sender has read
  std::uint64_t handle = 0;  // sender's name of the vector; CodecKey::round of its pieces
  std::uint32_t group = 0;   // CodecKey::group of its pieces
  Coding coding = Coding::exact;
  ContentShape shape = {};
  std::vector<std::uint8_t> header = {};  // strategy's own struct, encoded by base/wire.h

  bool same_vector(const Begin& other) const {
    return seq == other.seq && handle == other.handle && group == other.group &&
           coding == other.coding && shape == other.shape && header == other.header;
  }
  // Returns the bytes that count against the receiver's limits.
  std::uint64_t footprint() const { return header.size() + shape.bytes(); }
  LONGHAUL_FIELDS((seq, .max = 0x1p50), (read, .max = 0x1p50), (handle, .max = 0x1p50), group,
                  (coding, .max = 2), shape, (header, .max = kMostHeaderBytes))
};

// Cancels the rest of the open vector. Each class that its pieces used gets a copy: after the last
// one no piece is in flight.
struct Cancel {
  LONGHAUL_MESSAGE(2, "cancel");
  std::uint64_t seq = 0;
  std::uint8_t copies = 1;
  LONGHAUL_FIELDS((seq, .max = 0x1p50), (copies, .min = 1, .max = 8))
};

// Number of the receiver's vectors that the sender of this message has read.
struct Credit {
  LONGHAUL_MESSAGE(3, "credit");
  std::uint64_t read = 0;
  static void fields(auto& self, auto&& visit) { LONGHAUL_FIELD(read, .max = 0x1p50); }
};

// Request for a Credit after each vector that is read, until `seq` are.
struct Ask {
  LONGHAUL_MESSAGE(4, "ask");
  std::uint64_t seq = 0;
  static void fields(auto& self, auto&& visit) { LONGHAUL_FIELD(seq, .max = 0x1p50); }
};

using Messages = MessageList<Begin, Cancel, Credit, Ask>;

}  // namespace longhaul::channel
