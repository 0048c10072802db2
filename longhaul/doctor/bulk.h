#pragma once
// Bulk data that measures the rate of one direction.
#include "longhaul/doctor/channel.h"
#include "longhaul/doctor/measure.h"

namespace longhaul::doctor {

inline constexpr Time kStallTimeout =
    std::chrono::seconds(10);  // without a byte: the transfer has failed

// Sends for plan.seconds or plan.mbytes, whichever ends first, then bulk_end. The bytes do not
// compress.
Status send_bulk(const Channel&, const MeasurementPlan&, const Deadline&);

struct Bulk {
  BulkResult received;
  PathInfo sent;  // the sender's view of the path
};
// Receives until bulk_end. Keeps a few thousand samples only. Error: the transfer stalls.
Result<Bulk> receive_bulk(const Channel&, const Deadline&);

// Samples of bytes received over time, a few thousand at most; times ascend.
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
