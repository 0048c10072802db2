#pragma once
// The bytes that a round moves between the sites of a job by the plan of its overlay
// (Overlay::planned), and how much of the network they use. `longhaul explain JOB` shows them.
// docs/cli.md defines `used`.
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
    // Time of its bytes / time of the busiest link, 0 to 1; absent: no link on its path has a rate.
    std::optional<double> used = {};
    std::uint64_t bytes() const { return load.reduce + load.spread; }
  };
  struct Site {
    std::string name;
    std::uint64_t out = 0, in = 0;                       // bytes, to and from other sites
    std::optional<double> up_used = {}, down_used = {};  // own links; absent: no rate
  };
  struct Tree {
    std::string root;  // "tokyo", "tokyo/1"
    double share = 0;
    std::uint32_t up = 0, down = 0;  // links between nodes, on the longest path
  };

  std::string name = {}, overlay = {};  // those of the job
  double mbytes = 0;                    // size of the vector: 4 bytes a value, for any codec
  std::string sync = {};
  bool planned = false;  // false: the overlay decides at run time; pairs and trees are empty
  // The strategy itself sends. The overlay only carries one mean of the models, at the run's end.
  bool at_end = false;
  std::uint64_t vector = 0;      // bytes of a vector in the job's codec
  std::uint64_t within = 0;      // bytes between nodes of one site
  std::vector<Site> sites = {};  // in job order
  std::vector<Pair> pairs = {};  // those with bytes, the most used first
  std::vector<Tree> trees = {};  // the largest share first
  double busy_s = 0;             // time of the busiest link, in IP packets; 0: none has a rate
  bool measured = false;         // bytes that a run has sent in total, not those of a round
  std::string busiest = {};      // "the uplink of tokyo"; "": none
  // Lower bound for every overlay (flow/bound.h), for encoded vectors. Absent: there is no limit,
  // or not all sites have a worker.
  std::optional<double> bound_s = {};
};

// Larger plans have too many pairs to read.
inline constexpr std::size_t kMaxPlanNodes = 256;

// Returns the plan for a vector of `mbytes` megabytes. Returns an Error if there are too many
// nodes, or if a part cannot be created.
Result<SitePlan> plan_of(const Job&, double mbytes);

// The bytes that a run of the job has sent from site to site in total. plan_of_sent() makes a plan
// with `measured` and without trees from them, and skips sites that the job does not have.
struct SentBytes {
  std::string from, to;  // sites
  std::uint64_t bytes = 0;
};
SitePlan plan_of_sent(const Job&, const std::vector<SentBytes>&);

nlohmann::ordered_json to_json(const SitePlan&);
// Returns "The busiest link, the uplink of tokyo, takes 2.4 s; no overlay takes less than 2.2 s."
// Both times exclude delays.
std::string busiest_text(const SitePlan&);
// Returns a share as "63 %"; a positive one below 1 % as "<1 %"; "-": none.
std::string percent_text(std::optional<double> share);

}  // namespace longhaul::run
