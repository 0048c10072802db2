#pragma once
// A job over sockets within one process: every node in a thread of its own with an event loop of
// its own, over TCP on the loopback.
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/net/event_loop.h"
#include "tests/job_builder.h"

namespace longhaul::conformance {

struct Ended {
  std::vector<std::vector<float>> params;  // of workers, by rank
  std::vector<std::string> errors;         // by rank; "" where all went well
  std::vector<std::string> notes;
  std::vector<net::EventLoop::Counters> counters;  // by rank
};

// What the nodes of a run have on their disks: by rank and number.
struct Disks {
  std::mutex mutex;
  std::vector<std::map<std::uint64_t, Buffer>> of;
  std::uint32_t members = 0;  // nodes of the run that wrote them last
};

// Steps of a learner: the `first`, and every `every`th after it; 0: it alone.
struct Steps {
  int first = 0, every = 0;
  bool has(int step) const {
    return step == first || (every > 0 && step > first && (step - first) % every == 0);
  }
};

// What befalls a run.
struct Fate {
  // Runs in the test's thread while the nodes run in theirs: from the beginning, when they may not
  // have met; or within these steps of rank 0's learner, which are done no sooner.
  std::function<void(std::span<net::EventLoop* const>)> disturb = {};
  Steps disturb_in_step = {};
  std::optional<Rank> lost = {};  // its learner fails after a few steps; then it says nothing more,
  bool closes = true;             // and its sockets are closed, as a kill does, or stay, as a stop
  bool returns = false;           // and then it begins anew
  Time step{0};                   // that each step of rank 0's learner takes at least
  Time pace{0};                   // that steps are to take; 0: what they take
  std::string slow_until = {};    // steps take 100 ms until a note has this in it
  Time silence = std::chrono::seconds(10);
  std::uint32_t streams = 1;
  bool tls = false;
  Disks* disks = nullptr;  // checkpoints go there, and the run goes on from there
  Round every = 0;         // rounds between checkpoints
  Round stop_after = 0;    // rounds; the run is stopped by its users then
};

Ended over_sockets(const JobSpec&, const Fate& = {});
// All went well, and to the bits of the simulator; where these follow a schedule, to the same ones
// at all nodes.
void expect_equal_bits(const JobSpec&, const Ended&);

}  // namespace longhaul::conformance
