#pragma once
// Puts a World together from parts by name, without job file and libtorch: quadratic learners with
// unequal targets, or phantoms, at sites with unequal links and speeds.
#include <map>
#include <memory>
#include <vector>

#include "longhaul/base/testing/effort.h"
#include "longhaul/core/testing/quadratic.h"
#include "longhaul/sim/fifo_network.h"
#include "longhaul/sim/world.h"
#include "tests/combinations.h"

namespace longhaul::conformance {

using longhaul::testing::cases;
using longhaul::testing::kGate;
using longhaul::testing::kStride;

// The truth that the simulator alone knows. No part built below reads it.
struct Tables {
  sim::FifoConfig network;
  std::vector<sim::JitteredSteps::Speed> speeds;  // by rank
};
Tables unequal_tables(const Members&);
// Sites that are alike, each with a node whose steps all take as long.
Tables equal_tables(std::uint32_t sites, double mbps, Time delay, Time step);
// Tables in which fast sites are slow, and slow ones fast.
Tables false_tables(const Members&);

// Threads of a pool would only wait for these small steps.
inline sim::WorldConfig without_threads() {
  sim::WorldConfig config;
  config.threads = 0;
  return config;
}

struct JobSpec {
  Combination parts;
  std::uint32_t workers = 3;   // one a site, but of five the last two share one
  bool one_site_each = false;  // of five too
  std::uint32_t nodes = 1;     // > 1: workers at each site, of which there are workers / nodes
  bool server_apart = false;   // one more site, with a node that only serves
  bool witness = false;        // one more site, with a node that only votes
  // 17 short chunks, in the gate 5: the tests look at chunks, not at numbers.
  std::uint64_t size = (kGate ? 4 : 16) * 128 + 69;
  std::uint64_t buffers = 5;
  std::uint32_t chunk_bytes = 512;
  bool equal_samples = true;
  float momentum = 0.3f;             // of the local optimiser
  std::optional<float> target = {};  // all pull to it; absent: each to its own
  Round rounds = 4;
  std::uint32_t steps = 2;  // where a strategy has them
  std::uint64_t seed = 1;
  bool phantom = false;
  std::uint32_t chunk_run = 1;
  std::uint32_t standby_every = 0;  // [server] standby_every
  std::uint32_t standbys = 1;       // [server] standbys
  StopConfig stop = {};             // max_rounds and snapshots are filled in
  sim::WorldConfig world = without_threads();
  std::vector<sim::Fault> faults = {};
  std::optional<Tables> tables = {};  // absent: unequal_tables
  // Wraps each learner, also that of a restarted node, for tests that look at its steps.
  std::function<std::unique_ptr<Learner>(std::unique_ptr<Learner>, Rank)> watch = {};
  // Between World and its network, if the test wants to meddle.
  std::function<std::unique_ptr<sim::Network>(std::unique_ptr<sim::Network>)> wrap = {};
};

Members members_of(const JobSpec&);
// Steps, links and delays up to these milliseconds and Mbit/s.
Tables random_tables(const JobSpec&, Random&, std::uint64_t step_ms, std::uint64_t mbps,
                     std::uint64_t delay_ms);

// Hashes all that nodes do, and counts what they send.
class Witness final : public sim::Watcher {
 public:
  void acted(Time, Rank, const Action&) override;
  void state(Archive& ar) override { ar(hash_, bytes_, largest_body_); }
  std::uint64_t hash() const { return hash_; }
  std::uint64_t bytes(Rank from, Rank to) const;  // frames
  std::uint64_t bytes_from(Rank from) const;
  std::uint64_t bytes_to(Rank to) const;
  std::uint64_t largest_body() const { return largest_body_; }

 private:
  void mix(std::span<const std::byte>);
  template <class Number>
  void mix(Number number) {
    mix(std::as_bytes(std::span(&number, 1)));
  }
  std::uint64_t hash_ = 14695981039346656037u;
  std::uint64_t largest_body_ = 0;
  std::map<std::pair<Rank, Rank>, std::uint64_t> bytes_;
};

// The parts of one node. Job puts them together; a test with another host does the same.
std::unique_ptr<Strategy> make_strategy(const JobSpec&, const Place&);
// An overlay by itself, over the reliable transfer, in fp32.
std::unique_ptr<Overlay> plain_overlay(std::string_view kind, std::vector<Setting>, const Place&,
                                       std::shared_ptr<const flow::Wan> network = nullptr);
std::unique_ptr<Learner> make_learner(const JobSpec&, Rank);
Result<Evaluation> score_of(std::span<const float> model);

class Job {
 public:
  explicit Job(const JobSpec&);

  sim::World& world() { return *world_; }
  const Witness& witness() const { return witness_; }
  Status run();
  // One event; false: the run has ended, or failed.
  bool step();
  const std::optional<Error>& failure() const { return failure_; }
  // Dies so many events from now.
  void kill(Rank, std::uint64_t events = 1);
  // It is dead, and in no living node's view.
  bool declared_lost(Rank) const;
  std::uint32_t living() const;
  const JobSpec& spec() const { return spec_; }
  // Restarts a crashed node without its state; `forgets`: and without what it had kept.
  void restart(Rank, bool forgets = false);
  std::vector<float> params(Rank) const;
  // From the parameters to the optimum: where the mean of the targets pulls to.
  double distance() const;
  double start_distance() const { return start_distance_; }
  // Is the way gone one towards it? The cosine of the angle.
  double direction() const;
  // True if all live workers hold equal bits.
  bool all_equal() const;
  // Bytes that the largest node would write into a checkpoint, without its learner.
  std::size_t largest_node_state() const;
  Buffer save();
  void load(const Buffer&);

  std::vector<std::string> bad_messages;

 private:
  void add_node(const JobSpec&, const Place&);
  std::unique_ptr<Learner> new_learner(Rank) const;
  std::vector<double> optimum() const;

  const JobSpec spec_;
  Witness witness_;
  std::vector<std::unique_ptr<Learner>> learners_;  // of workers, by rank
  std::unique_ptr<sim::World> world_;
  double start_distance_ = 0;
  std::optional<Error> failure_;
};

inline sim::Fault crash(Rank rank, std::uint64_t event) {
  return {.kind = sim::Fault::Kind::crash, .rank = rank, .at_event = event};
}

// The number of events in the run of this spec, which has to succeed.
std::uint64_t events_of(const JobSpec&);
// The spec's run on one node that pulls to where the mean of all targets is.
JobSpec alone(JobSpec);

}  // namespace longhaul::conformance
