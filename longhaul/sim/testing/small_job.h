#pragma once
// A small job in a World, with all checkers on it: what the simulator's tests run.
#include <memory>
#include <vector>

#include "longhaul/core/testing/quadratic.h"
#include "longhaul/sim/testing/checker.h"
#include "longhaul/sim/testing/exchange.h"
#include "longhaul/sim/testing/networks.h"
#include "longhaul/sim/world.h"

namespace longhaul::sim::testing {

struct SmallJob {
  std::uint32_t ranks = 3;
  std::uint32_t per_site = 1;
  std::uint64_t size = 64;  // of the model
  Exchange::Config exchange = {};
  Rate up = flow::bytes_per_second(1), down = flow::bytes_per_second(1),
       lan = flow::bytes_per_second(10);
  Time delay = std::chrono::milliseconds(5);
  JitteredSteps::Speed speed = {std::chrono::milliseconds(10), JitteredSteps::Jitter::uniform, .5};
  bool phantom = false;
  bool fair = false;  // connections share links, lose packets, and start slowly
  std::uint64_t seed = 7;
  std::vector<Fault> faults = {};
  WorldConfig world = {};
};

// Owns a fresh world of the job and what it needs.
class RunningJob {
 public:
  // `make` gives rank's strategy; by default an Exchange.
  using Make = std::function<std::unique_ptr<Strategy>(const Place&)>;
  explicit RunningJob(const SmallJob& job, Make make = {});

  World& world() { return *world_; }
  std::uint64_t hash() const { return trace_->value(); }
  std::vector<float> params(Rank rank) const;
  std::vector<Evaluation> scores;  // in order of their events
  std::vector<std::string> lost;   // "rank 2: crashed"
  std::uint64_t bad_messages = 0;

 private:
  std::vector<std::unique_ptr<Learner>> learners_;
  std::unique_ptr<TraceHash> trace_ = std::make_unique<TraceHash>();
  std::unique_ptr<OrderChecker> in_order_ = std::make_unique<OrderChecker>();
  std::unique_ptr<EpochChecker> epochs_ = std::make_unique<EpochChecker>();
  std::unique_ptr<World> world_;
};

}  // namespace longhaul::sim::testing
