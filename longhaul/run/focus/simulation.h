#pragma once
// A job with [focus] in virtual time: streams, indexes, and the queries of [[focus.query]].
#include <nlohmann/json_fwd.hpp>

#include "longhaul/run/job/job.h"

namespace longhaul::run {

struct FocusQueryResult {
  std::string site;
  std::uint32_t cls = 0;
  double asked_s = 0;
  std::optional<double> first_s, latency_s;  // after it was asked: the first cluster, the end
  std::uint64_t clusters = 0, objects = 0;
  std::uint64_t checked = 0, cached = 0;  // clusters, by all sites
  std::uint64_t asof = 0;                 // objects indexed by all sites
  std::vector<std::string> missing = {};
  LONGHAUL_FIELDS(asked_s, first_s, latency_s, clusters, objects, checked, cached, asof, missing)
};
struct FocusModelResult {  // of a [[focus.model]]
  std::string site;
  double given_s = 0;
  std::uint64_t version = 0;             // 0: it was refused
  std::optional<double> latency_s = {};  // after it was given: all sites have it, or are missing
  std::vector<std::string> taken = {}, missing = {};
  std::string why = {};  // it was refused
  LONGHAUL_FIELDS(site, given_s, version, latency_s, taken, missing, why)
};
struct FocusSiteResult {
  std::string site;
  std::uint64_t objects = 0, clusters = 0, cheap_objects = 0, accurate_objects = 0, dropped = 0;
  double computing_s = 0;
  std::uint32_t cheap_model = 0;  // with which it indexes at the end
  std::uint64_t samples = 0;      // drawn again because classes drifted, or for a given model
  std::uint64_t model = 0;        // version with which it indexes at the end; 0: the job's
  LONGHAUL_FIELDS(site, objects, clusters, cheap_objects, accurate_objects, dropped, computing_s,
                  cheap_model, samples, model)
};
struct FocusResult {
  std::string name, baseline;
  double time_s = 0;
  std::uint64_t wan_bytes = 0;
  std::vector<FocusQueryResult> queries;
  std::vector<FocusModelResult> models;
  std::vector<FocusSiteResult> sites;
};
nlohmann::ordered_json to_json(const FocusResult&);

// Error: the job cannot run, or was interrupted.
Result<FocusResult> simulate_focus(const Job&);

}  // namespace longhaul::run
