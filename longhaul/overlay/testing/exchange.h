#pragma once
// A job that does nothing but average, for testing overlays on a MachineNet: every worker brings a
// vector a round, and keeps what it gets.
#include <map>
#include <optional>

#include "longhaul/base/testing/effort.h"
#include "longhaul/core/testing/machine_net.h"
#include "longhaul/overlay/agreed.h"
#include "longhaul/overlay/belief.h"
#include "longhaul/overlay/hub.h"

namespace longhaul::overlay::testing {

using longhaul::testing::MachineNet;

struct ExchangeConfig {
  // direct, hub, ring, rack, binary, halving_doubling, forest, hierarchical, tsengine
  std::string kind = "direct";
  std::string phases = "streamed";
  std::string down_codec = "fp32";                                 // hub
  std::uint32_t window = 0;                                        // hub
  RateBelief by_rate = {};                                         // ring: its order is by these
  std::uint32_t groups = 0;                                        // rack
  std::shared_ptr<const flow::Wan> network = {};                   // forest
  std::map<Rank, std::shared_ptr<const flow::Wan>> believed = {};  // forest: by one, instead
  bool learned = false;         // forest: rates are, at every chance
  std::string between = "hub";  // hierarchical
  bool seeded = false;          // binary: in an order that is drawn
  std::uint32_t workers = 3;
  std::uint32_t nodes = 1;    // workers at a site; the last site has what is left
  bool hasty = false;         // tsengine: deadlines that pass
  std::uint32_t buckets = 8;  // tsengine
  // hub, rack, binary, hierarchical, tsengine: the last rank is a server and no worker
  bool server = false;
  std::uint64_t length = longhaul::testing::kGate ? 1250 : 5000;
  std::uint64_t buffers = 0;  // > 0: a second vector, exact, beside each first
  Round rounds = 2;
  bool lossy = false;   // a codec that loses bits and has a memory
  bool equal = false;   // all bring the same
  bool sparse = false;  // most of what each brings is 0, and means are of those that sent a value
  bool phantom = false;
  std::uint64_t seed = 1;   // of the numbers
  std::uint64_t order = 1;  // of events
  std::uint32_t chunk_bytes = longhaul::testing::kGate ? 1024 : 4096;
  std::function<bool(Rank, Round)> contributes = [](Rank, Round) { return true; };
  // In which group a rank spends a round, if not with all.
  struct Grouping {
    std::uint32_t group = 0;
    std::vector<Rank> members = {};  // empty: all
    Round round = 0;                 // of the group
    bool last = false;               // it is closed behind
  };
  std::function<Grouping(Rank, Round)> grouping = [](Rank, Round round) {
    return Grouping{0, {}, round, false};
  };
};

double weight_of(Rank);
// What a rank brings to a round; `range` 0 or 1.
std::vector<float> vector_of(const ExchangeConfig&, Rank, Round, std::uint32_t range);
// The mean over `counted` as R-2 has it.
std::vector<float> mean_of(const ExchangeConfig&, const std::vector<Rank>& counted, Round,
                           std::uint32_t range);
// Means are rounded more than once.
bool sums_on_the_way(const ExchangeConfig&);
std::unique_ptr<Overlay> make_overlay(const ExchangeConfig&, const Place&);

class Averager final : public Machine {
 public:
  Averager(const ExchangeConfig& config, const Place& place);

  void start(Turn& turn) { started_ = true, on_progress(turn); }
  void on_progress(Turn&) override;
  void state(Archive& ar) override { ar(started_, begun_, outcomes_, extras_); }

  Overlay& overlay() { return *overlay_; }
  // Groups that its overlay keeps, that of all workers counted.
  std::size_t groups() const { return static_cast<const AgreedMean&>(*overlay_).groups(); }
  const std::vector<Outcome>& outcomes() const { return outcomes_; }
  const std::vector<Outcome>& extras() const { return extras_; }
  bool done() const { return outcomes_.size() == config_.rounds; }

 private:
  bool advance(Turn&);

  const ExchangeConfig config_;
  const bool worker_;
  std::unique_ptr<Overlay> overlay_;
  bool started_ = false;
  bool begun_ = false;
  std::vector<Outcome> outcomes_;
  std::vector<Outcome> extras_;  // of the second vector
};

// A running job. Every rank starts at an event of its own.
class Exchange {
 public:
  explicit Exchange(const ExchangeConfig& config);

  MachineNet& net() { return *net_; }
  Averager& at(Rank rank) { return static_cast<Averager&>(net_->machine(rank)); }
  const ExchangeConfig& config() const { return config_; }
  std::vector<Rank> live_workers();
  std::vector<Rank> live_members(Rank, Round);  // of the group in which it spends the round
  bool step();                                  // one event; false: nothing left to happen
  void run();                                   // until idle
  // "" if all live workers hold the same outcome of every round, which is the mean of those
  // counted; else what is wrong.
  std::string disagreement();

 private:
  std::string compare(Rank, Round, const Outcome&, const Outcome& first, std::uint32_t range);

  const ExchangeConfig config_;
  std::unique_ptr<MachineNet> net_;
  std::vector<Rank> to_start_;
  Random random_;
};

}  // namespace longhaul::overlay::testing
