#pragma once
// Measurement is the strategy of `longhaul perf`. It trains nothing and repeats one exchange of one
// vector; all nodes begin each lap at the same time. Every node knows the expected result and
// checks it (phantoms have no values). A lost node ends the measurement.
#include <functional>
#include <memory>
#include <optional>

#include "longhaul/core/overlay.h"
#include "longhaul/core/strategy.h"
#include "longhaul/perf/lap_coordinator.h"

namespace longhaul::perf {

struct Exchange {
  std::uint64_t length = 1;  // length of the vector, in values of four bytes (sent as fp32)
  Round laps = 1;
  // The rank that broadcasts its vector; nullopt: an all-reduce (mean).
  std::optional<Rank> root = {};
};

// The values that worker number `index` contributes to a lap, and the expected result.
float value_of(std::uint64_t place, Round lap, std::uint64_t index);
double expected_of(const Exchange&, std::uint64_t place, Round lap, std::uint64_t workers);

class Measurement final : public Strategy {
 public:
  // Returns the bytes that this node has sent to other sites; called between laps.
  using Sent = std::function<std::uint64_t()>;
  Measurement(const Exchange&, std::unique_ptr<Overlay>, const Place&, Sent);

  void on_view(const View& before, Turn&) override;
  void on_progress(Turn&) override;
  void state(Archive&) override;
  Round rounds_done() const override;
  std::string waiting_for() const override;

  // Returns the laps. Call it at rank 0 after the run.
  const std::vector<Lap>& laps() const { return coordinator_.laps(); }

 private:
  bool advance(Turn&);
  Status prepare(Turn&);
  Status begin(Turn&);
  Status check(const Outcome&, Round lap, const Turn&) const;

  const Exchange exchange_;
  const bool worker_;
  std::vector<Rank> contributors_;
  std::uint64_t index_ = 0, workers_ = 0;  // own index among the workers, and their number
  std::unique_ptr<Overlay> overlay_;
  LapCoordinator coordinator_;
  const Sent sent_;

  std::vector<float> values_;       // contribution to the lap
  std::optional<Outcome> outcome_;  // outcome of the last lap, until it is checked
  bool begun_ = false, ended_ = false;
};

}  // namespace longhaul::perf
