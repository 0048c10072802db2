#pragma once
// Bytes that mean nothing, as many as the way takes for a while.
#include "longhaul/doctor/channel.h"
#include "longhaul/doctor/measure.h"

namespace longhaul::doctor {

inline constexpr Time kStallTimeout =
    std::chrono::seconds(10);  // without a byte: the way is not good

// For `seconds`, or until `mbytes` have gone, whichever is first; then bulk_end. What it sends does
// not compress.
Status send_bulk(const Channel&, const MeasurementPlan&, const Deadline&);

struct Bulk {
  BulkResult received;
  PathInfo sent;  // what the sender says of the way
};
// All of it, until bulk_end. Nothing but a few thousand samples is kept. Errors: it stalls.
Result<Bulk> receive_bulk(const Channel&, const Deadline&);

// Samples of what came, a few thousand at most however much it is: times rise.
class RateMeter {
 public:
  void add(double at, double bytes);
  BulkResult received() const;
  std::size_t kept() const { return samples_.size(); }

 private:
  static constexpr std::size_t kMaxSamples = 4096;
  std::vector<Sample> samples_;
  double every_ = 1e-3;  // between two samples, at least; doubles when there are too many
};

}  // namespace longhaul::doctor
