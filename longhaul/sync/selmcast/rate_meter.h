#pragma once
// RateMeter measures what a worker's port and its paths to others carry, from the vectors that it
// sends and receives: rates = "measured" of selmcast. A rate is the highest of the last
// measurements, because others that share a path make it look slower than it is. Ours.
#include <deque>
#include <map>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/base/fields.h"
#include "longhaul/core/types.h"
#include "longhaul/flow/multicast.h"

namespace longhaul::sync::selmcast {

// Bytes per second; 0: not known.
struct MeasuredRates {
  std::uint64_t up = 0, down = 0;
  std::vector<std::uint64_t> pairs = {};  // by rank of the receiver; empty: none is known
  bool operator==(const MeasuredRates&) const = default;
  LONGHAUL_FIELDS((up, .doc = "measured at its port", .max = 1e15, .unit = "bytes/s"),
                  (down, .doc = "the same", .max = 1e15, .unit = "bytes/s"),
                  (pairs, .doc = "by rank of the receiver; 0: not known", .max = 4096,
                   .unit = "bytes/s"))
};

// What is known of the workers `live`, whose rates are `measured`, in their order. What is not
// known counts as the slowest of its kind that is; 1 if none is.
flow::MulticastNetwork network_of(const std::vector<const MeasuredRates*>& measured,
                                  const std::vector<Rank>& live);

class RateMeter {
 public:
  // All of a vector of so many bytes is with the host, `took` after it was sent.
  void sent(Rank to, std::uint64_t bytes, Time took);
  void received(std::uint64_t bytes) { in_bytes_ += bytes; }
  // An exchange is over, whose first byte could be sent `took` ago.
  void end_round(Time took);
  MeasuredRates rates(std::uint32_t nodes) const;
  void state(Archive& ar) { ar(up_, down_, pairs_, out_bytes_, in_bytes_, out_took_); }

 private:
  using Window = std::deque<double>;  // bytes/s
  static void note(Window&, std::uint64_t bytes, Time took);

  Window up_, down_;
  std::map<Rank, Window> pairs_;
  std::uint64_t out_bytes_ = 0, in_bytes_ = 0;  // of this round
  Time out_took_{0};
};

}  // namespace longhaul::sync::selmcast
