#pragma once
// The bytes that a round moves between the sites of a job by the plan of its overlay, and how much
// of the network they use: what `longhaul explain JOB` shows. The plan is the overlay's own
// (Overlay::planned); docs/cli.md defines `used`.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "longhaul/core/traffic.h"
#include "longhaul/run/job/job.h"

namespace longhaul::run {

struct SitePlan {
  struct Pair {  // sites by index
    std::uint32_t from = 0, to = 0;
    Traffic::Load load = {};  // bytes
    // Time of its bytes / time of the busiest link, 0 to 1; absent: nothing on its path has a rate.
    std::optional<double> used = {};
    std::uint64_t bytes() const { return load.reduce + load.spread; }
  };
  struct Site {
    std::string name;
    std::uint64_t out = 0, in = 0;                       // bytes, to and from other sites
    std::optional<double> up_used = {}, down_used = {};  // of its own links; absent: no rate
  };
  struct Tree {
    std::string root;  // "tokyo", "tokyo/1"
    double share = 0;
    std::uint32_t up = 0, down = 0;  // links between nodes, on the longest way
  };

  std::string name = {}, overlay = {};  // of the job
  double mbytes = 0;                    // of the vector: 4 bytes a value, whatever the codec
  std::string sync = {};
  bool planned = false;  // false: the overlay decides at run time; pairs and trees are empty
  // The strategy sends by itself; over the overlay goes one mean of the models, when the run ends.
  bool at_end = false;
  std::uint64_t vector = 0;      // bytes of a vector as the job's codec writes it
  std::uint64_t within = 0;      // bytes between nodes of one site
  std::vector<Site> sites = {};  // the job's, in its order
  std::vector<Pair> pairs = {};  // that carry something, the most used first
  std::vector<Tree> trees = {};  // the largest share first
  double busy_s = 0;             // of the busiest link, in IP packets; 0: none has a rate
  bool measured = false;         // what a run has sent in all, not what a round would
  std::string busiest = {};      // "the uplink of tokyo"; "": none
  // What no overlay can beat (flow/bound.h), for vectors as encoded. Absent: nothing limits it, or
  // not all sites have a worker.
  std::optional<double> bound_s = {};
};

// Larger plans have too many pairs to read.
inline constexpr std::size_t kMaxPlanNodes = 256;

// For a vector of that many megabytes. Error: too many nodes, or a part cannot be created.
Result<SitePlan> plan_of(const Job&, double mbytes);

// What a run of the job has sent from site to site, all in all: a plan with `measured` and without
// trees. Sites that the job does not have are passed over.
struct SentBytes {
  std::string from, to;  // sites
  std::uint64_t bytes = 0;
};
SitePlan plan_of_sent(const Job&, const std::vector<SentBytes>&);

nlohmann::ordered_json to_json(const SitePlan&);
// "The busiest link, the uplink of tokyo, takes 2.4 s; no overlay takes less than 2.2 s." Delays
// are left out of both.
std::string busiest_text(const SitePlan&);
// A share as "63 %"; a positive one below 1 % as "<1 %"; "-": none.
std::string percent_text(std::optional<double> share);

}  // namespace longhaul::run
