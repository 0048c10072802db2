#pragma once
// RateMeter measures the rates of a worker's port and of its paths to other workers, from the
// vectors that it sends and receives: rates = "measured" of selmcast. A rate is the highest of the
// last measurements, because traffic of others on a path makes it look slower. Not from the paper.
#include <deque>
#include <map>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/base/fields.h"
#include "longhaul/core/types.h"
#include "longhaul/flow/multicast.h"

namespace longhaul::sync::selmcast {

// Rates in bytes per second; 0: not known.
struct MeasuredRates {
  std::uint64_t up = 0, down = 0;
  std::vector<std::uint64_t> pairs = {};  // by rank of the receiver; empty: none is known
  bool operator==(const MeasuredRates&) const = default;
  LONGHAUL_FIELDS((up, .doc = "measured at its port", .max = 1e15, .unit = "bytes/s"),
                  (down, .doc = "the same", .max = 1e15, .unit = "bytes/s"),
                  (pairs, .doc = "by rank of the receiver; 0: not known", .max = 4096,
                   .unit = "bytes/s"))
};

// Returns the network of the workers `live`, whose rates are `measured`, in their order. An unknown
// rate counts as the slowest known rate of its kind, or as 1 if there is none.
flow::MulticastNetwork network_of(const std::vector<const MeasuredRates*>& measured,
                                  const std::vector<Rank>& live);

class RateMeter {
 public:
  // Called when the host has taken the whole vector of `bytes`, `took` after it was sent.
  void sent(Rank to, std::uint64_t bytes, Time took);
  void received(std::uint64_t bytes) { in_bytes_ += bytes; }
  // Called at the end of an exchange whose first byte could be sent `took` ago.
  void end_round(Time took);
  MeasuredRates rates(std::uint32_t nodes) const;
  void state(Archive& ar) { ar(up_, down_, pairs_, out_bytes_, in_bytes_, out_took_); }

 private:
  using Window = std::deque<double>;  // bytes/s
  static void note(Window&, std::uint64_t bytes, Time took);

  Window up_, down_;
  std::map<Rank, Window> pairs_;
  std::uint64_t out_bytes_ = 0, in_bytes_ = 0;  // bytes of this round
  Time out_took_{0};
};

}  // namespace longhaul::sync::selmcast
