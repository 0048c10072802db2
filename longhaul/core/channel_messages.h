#pragma once
// What a VectorChannel tells its like on another node (core/vector_channel.h). The numbers of a
// vector travel as pieces of the Transfer; these messages have no body.
#include "longhaul/core/codec.h"
#include "longhaul/core/coder.h"
#include "longhaul/core/message.h"
#include "longhaul/core/vector_content.h"

namespace longhaul::channel {

inline constexpr std::uint32_t kMostHeaderBytes = 64 * 1024;

// The next vector of the stream. In each class of service that its pieces use, a copy of this
// message comes before them; later copies are ignored.
struct Begin {
  LONGHAUL_MESSAGE(1, "begin");
  std::uint64_t seq = 0;     // of vectors from this sender to this receiver, from 0
  std::uint64_t read = 0;    // vectors of the receiver's that the sender has read
  std::uint64_t handle = 0;  // the sender's name of the vector; CodecKey::round of its pieces
  std::uint32_t group = 0;   // CodecKey::group of its pieces
  Coding coding = Coding::exact;
  ContentShape shape = {};
  std::vector<std::uint8_t> header = {};  // the strategy's own struct, as base/wire.h writes it

  bool same_vector(const Begin& other) const {
    return seq == other.seq && handle == other.handle && group == other.group &&
           coding == other.coding && shape == other.shape && header == other.header;
  }
  // What it takes of the receiver's memory, for the limits of the channel.
  std::uint64_t footprint() const { return header.size() + shape.bytes(); }
  LONGHAUL_FIELDS((seq, .max = 0x1p50), (read, .max = 0x1p50), (handle, .max = 0x1p50), group,
                  (coding, .max = 2), shape, (header, .max = kMostHeaderBytes))
};

// The rest of the vector that is open does not come. One copy in each class that its pieces used:
// after the last one nothing of it is on its way.
struct Cancel {
  LONGHAUL_MESSAGE(2, "cancel");
  std::uint64_t seq = 0;
  std::uint8_t copies = 1;
  LONGHAUL_FIELDS((seq, .max = 0x1p50), (copies, .min = 1, .max = 8))
};

// The sender of this message has read so many vectors of the receiver's.
struct Credit {
  LONGHAUL_MESSAGE(3, "credit");
  std::uint64_t read = 0;
  static void fields(auto& self, auto&& visit) { LONGHAUL_FIELD(read, .max = 0x1p50); }
};

// Asks for a Credit after each vector that is read, until `seq` are.
struct Ask {
  LONGHAUL_MESSAGE(4, "ask");
  std::uint64_t seq = 0;
  static void fields(auto& self, auto&& visit) { LONGHAUL_FIELD(seq, .max = 0x1p50); }
};

using Messages = MessageList<Begin, Cancel, Credit, Ask>;

}  // namespace longhaul::channel
