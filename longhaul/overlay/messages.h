#pragma once
// The messages of overlays, besides pieces of vectors: small, without bodies.
#include <cstdint>
#include <vector>

#include "longhaul/core/codec.h"
#include "longhaul/core/message.h"
#include "longhaul/core/types.h"

namespace longhaul::overlay {

// Above this weight, weight times value could leave the range of double.
inline constexpr double kMostWeight = 1e200;
// That of one contribution: the sum over all members, 2^20 at most, is below kMostWeight.
inline constexpr double kMostOwnWeight = 1e190;

enum class Phase : std::uint8_t {
  part = 0,    // a contribution, or a mean of the contributions so far
  mean = 1,    // the mean
  repair = 2,  // the mean, for a node whose attempt was cut off by a loss
};

// A node's announcement that it takes part in this attempt, with its weight. Sent before its
// pieces, with the same service, so it arrives first.
struct Announcement {
  LONGHAUL_MESSAGE(1, "announcement");
  Epoch epoch = 0;
  CodecKey vector;           // origin: the sender
  std::uint64_t length = 0;  // length of the vector
  bool exact = false;
  double weight = 0;                       // 0: no contribution, no pieces follow
  std::vector<std::uint8_t> members = {};  // members of the group; empty: all workers
  LONGHAUL_FIELDS(epoch, vector, (length, .min = 1, .max = 0x1p40), exact,
                  (weight, .min = 0, .max = kMostOwnWeight),
                  (members, .doc = "bits by rank", .max = 1 << 17))
};

// The contributors to a mean, from the node that knows all weights.
struct Contributors {
  LONGHAUL_MESSAGE(2, "contributors");
  Epoch epoch = 0;
  CodecKey vector;                    // origin: the sender
  double weight = 0;                  // sum over the contributors
  std::vector<std::uint8_t> counted;  // bit r % 8 of byte r / 8: rank r
  Epoch formed = 0;                   // epoch of the attempt; before `epoch` in a repair
  LONGHAUL_FIELDS(epoch, vector, (weight, .min = 0, .max = kMostWeight),
                  (counted, .doc = "bits by rank", .max = 1 << 17), formed)
};

// The number of rounds whose mean the sender has, to all live members of a group in a new epoch.
struct Report {
  LONGHAUL_MESSAGE(3, "report");
  struct Standing {
    std::uint32_t range = 0;
    Round rounds = 0;
    LONGHAUL_FIELDS(range, rounds)
  };
  Epoch epoch = 0;
  std::uint32_t group = 0;
  std::vector<std::uint8_t> members;  // members of the group; empty: all workers
  std::vector<Standing> standings;    // ranges left out: 0 rounds
  LONGHAUL_FIELDS(epoch, group, (members, .doc = "bits by rank", .max = 1 << 17),
                  (standings, .max = 64))
};

// A request for the mean of this round, to a node that reported to have it.
struct Fetch {
  LONGHAUL_MESSAGE(4, "fetch");
  Epoch epoch = 0;
  VectorId vector;
  LONGHAUL_FIELDS(epoch, vector)
};

// A message between the attempts of one topology, encoded by that topology.
struct AttemptMessage {
  LONGHAUL_MESSAGE(5, "attempt_message");
  Epoch epoch = 0;
  CodecKey vector;                  // origin: the sender
  std::uint16_t kind = 0;           // one of the topology's messages
  std::vector<std::uint8_t> words;  // fields in the format of base/wire.h
  LONGHAUL_FIELDS(epoch, vector, kind, (words, .doc = "fields of that kind", .max = 1 << 17))
};

// A message between the topologies of one team, outside of any exchange.
struct TopologyMessage {
  LONGHAUL_MESSAGE(6, "topology_message");
  Epoch epoch = 0;
  std::uint16_t kind = 0;           // one of the topology's messages
  std::vector<std::uint8_t> words;  // fields in the format of base/wire.h
  LONGHAUL_FIELDS(epoch, kind, (words, .doc = "fields of that kind", .max = 1 << 18))
};

// A notice to all other members, and to a server that is none: this node has closed the group, and
// sends nothing more of it.
struct Closed {
  LONGHAUL_MESSAGE(7, "closed");
  std::uint32_t group = 0;
  LONGHAUL_FIELDS(group)
};

using Messages =
    MessageList<Announcement, Contributors, Report, Fetch, AttemptMessage, TopologyMessage, Closed>;

// Returns a topology's message as an AttemptMessage or TopologyMessage carries it.
template <class Cover, MessageStruct M>
Cover wrap(const M& fields) {
  Cover cover;
  cover.kind = M::kKind;
  for (const std::byte byte : to_wire(fields)) cover.words.push_back(std::uint8_t(byte));
  return cover;
}

// Decodes the message in an AttemptMessage or TopologyMessage, which is one of `list`, and passes
// it to `handle`.
template <class List, class Cover, class Handle>
Status unwrap(List list, const Cover& cover, Handle&& handle) {
  Buffer words(cover.words.size());
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = std::byte(cover.words[i]);
  Message message;
  message.kind = cover.kind;
  message.head = Payload(share(std::move(words)));
  return dispatch(list, message, std::forward<Handle>(handle));
}

// A set of ranks in a message: bit r % 8 of byte r / 8 is rank r.

// Returns the shortest form.
inline std::vector<std::uint8_t> to_bits(const std::vector<Rank>& ranks) {
  std::vector<std::uint8_t> bits;
  for (const Rank rank : ranks) {
    if (bits.size() <= rank / 8) bits.resize(rank / 8 + 1);
    bits[rank / 8] = std::uint8_t(bits[rank / 8] | 1u << rank % 8);
  }
  return bits;
}

// Returns the ranks, ascending.
inline std::vector<Rank> from_bits(const std::vector<std::uint8_t>& bits) {
  std::vector<Rank> ranks;
  for (std::size_t bit = 0; bit < bits.size() * 8; ++bit)
    if (bits[bit / 8] >> bit % 8 & 1) ranks.push_back(Rank(bit));
  return ranks;
}

}  // namespace longhaul::overlay
