#pragma once
// The messages of tsengine besides pieces, sent as AttemptMessages (overlay/messages.h). Agents are
// all members and the server; the coordinator runs at the server. It gives each transfer a number
// `xfer` and uses no number twice.
#include <vector>

#include "longhaul/core/message.h"
#include "longhaul/overlay/messages.h"

namespace longhaul::overlay::tsengine {

using Xfer = std::uint64_t;

inline constexpr std::uint32_t kMostBuckets = 1024;
inline constexpr double kLongest = 1e18;  // ns

// An agent's message to the coordinator: it has this bucket of the mean, and is free to send it.
struct Offer {
  LONGHAUL_MESSAGE(1, "offer");
  enum class After : std::uint8_t { received = 0, served = 1, failed = 2 };
  std::uint32_t bucket = 0;
  Xfer xfer = 0;  // the transfer that brought it here, was served, or failed
  After after = After::received;
  std::int64_t elapsed = 0;  // served: ns from its first byte to its last, at the receiver; 0: none
  LONGHAUL_FIELDS((bucket, .max = kMostBuckets), xfer, (after, .max = 2),
                  (elapsed, .min = 0, .max = kLongest, .unit = "ns"))
};

// An agent's message to the coordinator. Its receiver has taken a part and is ready for the next;
// or its sender reports that it was not taken in time. An announcement makes all its buckets ready.
struct Ready {
  LONGHAUL_MESSAGE(2, "ready");
  std::uint32_t bucket = 0;
  Xfer xfer = 0;
  bool taken = false;
  std::int64_t elapsed = 0;  // taken: as above
  LONGHAUL_FIELDS((bucket, .max = kMostBuckets), xfer, taken,
                  (elapsed, .min = 0, .max = kLongest, .unit = "ns"))
};

// The coordinator's order to a holder: send the bucket of the mean to `to`; xfer 0: all have it.
struct Assign {
  LONGHAUL_MESSAGE(3, "assign");
  std::uint32_t bucket = 0;
  Rank to = 0;
  Xfer xfer = 0;
  std::int64_t allowed = 0;  // ns
  LONGHAUL_FIELDS((bucket, .max = kMostBuckets), to, xfer,
                  (allowed, .min = 0, .max = kLongest, .unit = "ns"))
};

// The coordinator's order to the sender of a pair: send its partial sum to `to`.
struct Merge {
  LONGHAUL_MESSAGE(4, "merge");
  std::uint32_t bucket = 0;
  Rank to = 0;
  Xfer xfer = 0;
  std::int64_t allowed = 0;  // ns
  LONGHAUL_FIELDS((bucket, .max = kMostBuckets), to, (xfer, .min = 1),
                  (allowed, .min = 0, .max = kLongest, .unit = "ns"))
};

// The coordinator's question to the receiver of a part whose sender gave up: was it taken? If not,
// it never will be.
struct Fence {
  LONGHAUL_MESSAGE(5, "fence");
  std::uint32_t bucket = 0;
  Rank from = 0;
  Xfer xfer = 0;
  LONGHAUL_FIELDS((bucket, .max = kMostBuckets), from, (xfer, .min = 1))
};

struct Fenced {
  LONGHAUL_MESSAGE(6, "fenced");
  std::uint32_t bucket = 0;
  Xfer xfer = 0;
  bool taken = false;
  LONGHAUL_FIELDS((bucket, .max = kMostBuckets), (xfer, .min = 1), taken)
};

// The sender's message to the receiver, with the service of the pieces and before them: a bucket of
// the mean, or of a partial sum.
struct Sending {
  LONGHAUL_MESSAGE(7, "sending");
  std::uint32_t bucket = 0;
  Xfer xfer = 0;
  bool mean = false;
  double weight = 0;                  // weight of a sum
  std::vector<std::uint8_t> counted;  // in a sum: bit r % 8 of byte r / 8: rank r
  LONGHAUL_FIELDS((bucket, .max = kMostBuckets), (xfer, .min = 1), mean,
                  (weight, .min = 0, .max = kMostWeight),
                  (counted, .doc = "bits by rank", .max = 1 << 16))
};

// The receiver's message to the sender: everything has arrived.
struct Got {
  LONGHAUL_MESSAGE(8, "got");
  std::uint32_t bucket = 0;
  Xfer xfer = 0;
  bool mean = false;         // else: a part, which was taken
  std::int64_t elapsed = 0;  // ns from its first byte to its last; 0: it came from another sender
  LONGHAUL_FIELDS((bucket, .max = kMostBuckets), (xfer, .min = 1), mean,
                  (elapsed, .min = 0, .max = kLongest, .unit = "ns"))
};

using Messages = MessageList<Offer, Ready, Assign, Merge, Fence, Fenced, Sending, Got>;

template <class Handle>
Status read(const AttemptMessage& note, Handle&& handle) {
  return unwrap(Messages{}, note, std::forward<Handle>(handle));
}
template <MessageStruct M>
AttemptMessage write(const M& fields) {
  return wrap<AttemptMessage>(fields);
}

}  // namespace longhaul::overlay::tsengine
