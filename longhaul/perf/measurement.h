#pragma once
// Measurement is the strategy of `longhaul perf`: nothing is trained, one exchange of one vector is
// repeated, lap after lap, begun by all at one moment. Values are such that every node knows what
// must come out, and looks; a phantom's are not there and are not looked at. A lost node ends it: a
// time that lacks somebody is worth nothing.
#include <functional>
#include <memory>
#include <optional>

#include "longhaul/core/overlay.h"
#include "longhaul/core/strategy.h"
#include "longhaul/perf/lap_coordinator.h"

namespace longhaul::perf {

struct Exchange {
  std::uint64_t length = 1;  // of the vector, in values of four bytes: they travel as fp32
  Round laps = 1;
  // Gives the vector to all; absent: all give theirs and get the mean.
  std::optional<Rank> root = {};
};

// What worker number `index` gives to a lap, and what comes out of it.
float value_of(std::uint64_t place, Round lap, std::uint64_t index);
double expected_of(const Exchange&, std::uint64_t place, Round lap, std::uint64_t workers);

class Measurement final : public Strategy {
 public:
  // Bytes that this node has sent to other sites so far; asked between laps.
  using Sent = std::function<std::uint64_t()>;
  Measurement(const Exchange&, std::unique_ptr<Overlay>, const Place&, Sent);

  void on_view(const View& before, Turn&) override;
  void on_progress(Turn&) override;
  void state(Archive&) override;
  Round rounds_done() const override;
  std::string waiting_for() const override;

  // At rank 0, when the run has ended.
  const std::vector<Lap>& laps() const { return coordinator_.laps(); }

 private:
  bool advance(Turn&);
  Status prepare(Turn&);
  Status begin(Turn&);
  Status check(const Outcome&, Round lap, const Turn&) const;

  const Exchange exchange_;
  const bool worker_;
  std::vector<Rank> contributors_;
  std::uint64_t index_ = 0, workers_ = 0;  // among the workers
  std::unique_ptr<Overlay> overlay_;
  LapCoordinator coordinator_;
  const Sent sent_;

  std::vector<float> values_;       // to be given to the lap
  std::optional<Outcome> outcome_;  // of the last one, not looked at yet
  bool begun_ = false, ended_ = false;
};

}  // namespace longhaul::perf
