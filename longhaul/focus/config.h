#pragma once
// Settings of [focus]: the index of growing data that a job configures (docs/focus.md). Source of
// the method: Hsieh et al., "Focus: Querying Large Video Datasets with Low Latency and Low Cost",
// OSDI 2018. All defaults are our own.
#include <optional>
#include <string>
#include <vector>

#include "longhaul/base/fields.h"

namespace longhaul::focus {

struct Config {
  std::string stream = "tracks";
  std::string images = "test";
  std::string gt = "";
  std::uint32_t K = 4;
  std::optional<double> T;
  std::uint32_t M = 100;
  std::optional<std::uint32_t> Ls;
  std::string vote = "mean";
  std::string baseline = "none";
  double recall = 0.95;
  double precision = 0.95;
  double margin = 1.64;
  std::string policy = "balance";
  std::uint32_t sample = 2000;
  double drift = 0;
  std::string gt_place = "site";
  std::optional<std::string> hub;
  std::uint32_t gt_batch = 32;
  std::uint32_t gt_version = 1;
  double thumb_kb = 12;
  std::uint32_t queue_items = 10000;
  double interval_gap_s = 1;
  double answer_timeout_s = 30;
  double trial_s = 20, trial_mb = 0;
  double rate = 10;
  std::optional<std::uint64_t> objects;
  double cheap_ms = 0.4;
  double gt_ms = 20;
  std::optional<double> duration_s;

  static void fields(auto& self, auto&& visit) {
    model_fields(self, visit);
    index_fields(self, visit);
    LONGHAUL_KEY(recall, "target on the sample, where T is chosen", .min = 0, .max = 1);
    LONGHAUL_KEY(precision, "target on the sample, where T is chosen", .min = 0, .max = 1);
    LONGHAUL_KEY(margin,
                 "standard errors by which what is reached on the sample must exceed both targets, "
                 "so that later objects reach them; 1.64: 95 % sure",
                 .min = 0, .max = 10);
    LONGHAUL_KEY(policy, "which of the parameters that reach both targets are taken",
                 .choices = {"balance", "opt_ingest", "opt_query"});
    LONGHAUL_KEY(sample, "labelled objects of each site from which T is chosen", .min = 1,
                 .max = 100000);
    LONGHAUL_KEY(
        drift,
        "with T chosen: difference of the cheap model's classes to the sample's (total variation; "
        "0.2 is usual) at which cheap model, K and T are chosen again; 0: never",
        .min = 0, .max = 1);
    LONGHAUL_KEY(gt_place,
                 "where the accurate model runs: at the site of the object, at the site that was "
                 "asked, or at one site for all objects",
                 .choices = {"site", "querier", "hub"});
    LONGHAUL_KEY(hub, "the site of gt_place = \"hub\" (default: the first)", .max = 64);
    LONGHAUL_KEY(gt_batch, "most objects of one run of the accurate model", .min = 1, .max = 4096);
    LONGHAUL_KEY(gt_version, "verdicts of another version are not used", .min = 1);
    LONGHAUL_KEY(thumb_kb, "bytes of one object sent to another site", .max = 128, .unit = "kB",
                 .positive = true);
    LONGHAUL_KEY(queue_items,
                 "objects that wait for the cheap model; beyond it the oldest are dropped and "
                 "reported as a gap",
                 .min = 1, .max = 1e7);
    LONGHAUL_KEY(interval_gap_s, "objects of a cluster no further apart are one interval", .min = 0,
                 .max = 1e6, .unit = "s");
    LONGHAUL_KEY(answer_timeout_s,
                 "a site that does not respond to a query for this long is missing in its answer",
                 .max = 1e6, .unit = "s", .positive = true);
    stream_fields(self, visit);
  }

 private:
  static void model_fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(stream,
                 "the objects: generated with models that err by a formula, or transformed copies "
                 "of the images of [data], with models from files",
                 .choices = {"tracks", "images"});
    LONGHAUL_KEY(images, "stream = \"images\": the part of [data] that it shows",
                 .choices = {"test", "train"});
    LONGHAUL_KEY(
        gt, "stream = \"images\": the accurate model, a TorchScript file; a run's model.pt is one",
        .local = true);
    LONGHAUL_KEY(trial_s,
                 "most time for the trial of a model's file on two objects, in its own process, "
                 "below answer_timeout_s; a file that takes longer is refused",
                 .max = 1e6, .unit = "s", .positive = true, .local = true);
    LONGHAUL_KEY(trial_mb, "most memory for that trial; 0: half of the machine's free memory",
                 .max = 1e9, .unit = "MB", .local = true);
  }
  static void index_fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(K, "classes under which a cluster is indexed: recall for accurate runs", .min = 1,
                 .max = 1000);
    LONGHAUL_KEY(T,
                 "feature distance beyond which an object begins a new cluster; 0: each object "
                 "does (default: chosen on a labelled sample, and K with it)",
                 .min = 0, .max = 1e12);
    LONGHAUL_KEY(M, "clusters that new objects may join", .min = 1, .max = 100000);
    LONGHAUL_KEY(Ls,
                 "classes that the cheap model tells apart, the first ones; the rest is OTHER "
                 "(default: all)",
                 .max = 1000);
    LONGHAUL_KEY(vote,
                 "classes of a cluster in the index: the best ones of the mean score of its "
                 "objects, or of its first object",
                 .choices = {"mean", "first"});
    LONGHAUL_KEY(baseline,
                 "instead of focus: the accurate model on all objects at ingest, at query time, or "
                 "at the queried site; or no clusters",
                 .choices = {"none", "ingest_all", "query_all", "ship_all", "no_cluster"});
  }
  static void stream_fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(rate, "objects of each site's generated stream in a second", .max = 1e6,
                 .unit = "1/s", .positive = true);
    LONGHAUL_KEY(objects, "length of each site's stream (default: it has no end)", .min = 1,
                 .max = 4e9);
    LONGHAUL_KEY(cheap_ms, "time of the cheap model for an object", .min = 0, .max = 1e6,
                 .unit = "ms");
    LONGHAUL_KEY(gt_ms, "time of the accurate model for an object", .min = 0, .max = 1e6,
                 .unit = "ms");
    LONGHAUL_KEY(duration_s,
                 "the sites end then (default: over sockets never; simulated with the stream and "
                 "the last query)",
                 .max = 1e9, .unit = "s", .positive = true);
  }
};

// A cheap model. If there are several, the best is chosen on the sample.
struct CheapConfig {
  std::string path = "";
  double ms = 0.4;
  std::uint32_t outputs = 0;
  double noise = 8;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(path, "stream = \"images\": a TorchScript file", .local = true);
    LONGHAUL_KEY(ms, "time for an object, in the simulator and with stream = \"tracks\"", .min = 0,
                 .max = 1e6, .unit = "ms");
    LONGHAUL_KEY(
        outputs,
        "classes that it tells apart, the first ones; the rest is OTHER; 0: those of [focus] Ls",
        .max = 1000);
    LONGHAUL_KEY(noise, "stream = \"tracks\": standard deviation of the error of its scores",
                 .min = 0, .max = 1e6);
  }
};

// A query that a job sends in the simulator.
struct QueryConfig {
  std::string site;
  double at_s = 0;
  std::uint32_t cls = 0;
  double from_s = 0;
  std::optional<double> to_s;
  std::uint32_t limit = 0;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(site, "that is asked (default: the first)", .max = 64);
    LONGHAUL_KEY(at_s, "when", .min = 0, .max = 1e9, .unit = "s");
    visit(Field{.name = "class", .doc = "the class looked for", .max = 1000}, self.cls);
    LONGHAUL_KEY(from_s, "objects not before", .min = 0, .max = 1e9, .unit = "s");
    LONGHAUL_KEY(to_s, "objects not after (default: no limit)", .min = 0, .max = 1e9, .unit = "s");
    LONGHAUL_KEY(limit, "clusters that are enough; 0: all");
  }
};

// A cheap model that one site receives for all sites, while a job runs in the simulator.
struct ModelConfig {
  std::string site;
  double at_s = 0;
  std::string path = "";
  double noise = 8;
  std::vector<double> classes;
  double ms = 0.4;
  std::uint32_t K = 0;
  std::optional<double> T;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(site, "that is given it first (default: the first)", .max = 64);
    LONGHAUL_KEY(at_s, "when", .min = 0, .max = 1e9, .unit = "s");
    LONGHAUL_KEY(path, "stream = \"images\": a TorchScript file", .local = true);
    LONGHAUL_KEY(noise, "stream = \"tracks\": standard deviation of the error of its scores",
                 .min = 0, .max = 1e6);
    LONGHAUL_KEY(classes,
                 "that it tells apart, in the order of its scores; the rest is OTHER (empty: all)",
                 .min = 0, .max = 1000);
    LONGHAUL_KEY(ms, "time for an object", .min = 0, .max = 1e6, .unit = "ms");
    LONGHAUL_KEY(K, "as [focus] K, from then on; 0: as before", .max = 1000);
    LONGHAUL_KEY(T,
                 "as [focus] T, from then on (default: as before; chosen on the next objects where "
                 "[focus] leaves it out)",
                 .min = 0, .max = 1e12);
  }
};

}  // namespace longhaul::focus
