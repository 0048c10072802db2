#pragma once
// The tables of a job file that say what sites are like: [[site]], and [hetero] for how fast all of
// them are. As those of tables.h: each key's meaning, range and default stands here and nowhere
// else.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/base/fields.h"
#include "longhaul/run/job/wan_tables.h"

namespace longhaul::run {

inline constexpr double kMaxStep = 1e9;  // ms

// How step times drift; of a site, or of all that do not say so themselves.
struct DriftKeys {
  std::optional<double> drift, drift_every_s, drift_bound;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "drift",
                .doc = "standard deviation of a move of the step time's logarithm: a random walk, "
                       "all nodes of a site together (absent: none)",
                .min = 0,
                .max = 10},
          self.drift);
    visit(Field{.name = "drift_every_s",
                .doc = "time between two moves (absent: 60)",
                .min = 0.1,
                .max = 1e9,
                .unit = "s"},
          self.drift_every_s);
    visit(Field{.name = "drift_bound",
                .doc = "the walk turns back at step_ms times this and step_ms over this (absent: "
                       "4)",
                .min = 1,
                .max = 1e6},
          self.drift_bound);
  }
};

struct SiteTable : DriftKeys {
  std::string name;
  std::optional<double> up_mbps, down_mbps;
  std::uint32_t nodes = 1;
  double step_ms = 20;  // with a trace: its first value
  double jitter = 0;
  std::string jitter_kind = "lognormal";
  std::string step_trace;  // "" once it is read: see trace_file.h
  std::optional<std::vector<double>> step_at_s, step_values;
  std::vector<std::string> roles = {"worker"};
  std::string address, bind;
  bool dial_out = false;
  std::string data;
  std::optional<std::uint32_t> batch;  // instead of [data] batch
  std::optional<double> rate;          // instead of [optimizer] rate
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "name", .doc = "letters, digits, - and _; unique", .max = 64}, self.name);
    visit(Field{.name = "up_mbps",
                .doc = "uplink shared by the site's nodes (absent: as [wan] says, or unlimited)",
                .max = kMaxRate,
                .unit = "Mbit/s",
                .positive = true},
          self.up_mbps);
    visit(Field{.name = "down_mbps",
                .doc = "downlink shared by the site's nodes (absent: as [wan] says, or unlimited)",
                .max = kMaxRate,
                .unit = "Mbit/s",
                .positive = true},
          self.down_mbps);
    visit(Field{.name = "nodes", .doc = "nodes at this site", .min = 1, .max = 65536}, self.nodes);
    steps(self, visit);
    visit(Field{.name = "roles",
                .doc = "what its nodes do",
                .max = 64,
                .choices = {"worker", "server", "state_server", "witness"}},
          self.roles);
    visit(Field{.name = "address",
                .doc = "host:port that other sites connect to (sockets)",
                .max = 256,
                .local = true},
          self.address);
    visit(Field{.name = "dial_out",
                .doc = "behind NAT or a firewall: it dials all others, and none dials it; two such "
                       "sites reach each other through a third"},
          self.dial_out);
    visit(Field{.name = "bind",
                .doc = "host:port that it listens at alone, as 10.0.0.1:7000; absent: at all "
                       "addresses of its machine, at the port of address (sockets)",
                .max = 256,
                .local = true},
          self.bind);
    visit(Field{.name = "data",
                .doc = "path of this site's own samples, for [data] partition = \"local\"",
                .max = 4096,
                .local = true},
          self.data);
    visit(Field{.name = "batch",
                .doc = "samples of a step at this site (absent: as [data] batch says)",
                .min = 1,
                .max = 1e6},
          self.batch);
    visit(Field{.name = "rate",
                .doc = "learning rate at this site (absent: as [optimizer] rate says)",
                .max = 1e6,
                .positive = true},
          self.rate);
  }

 private:
  template <class Self, class Visit>
  static void steps(Self& self, Visit&& visit) {
    visit(Field{.name = "step_ms",
                .doc = "time of one step (one mini-batch) in the simulator, and with [net] pace",
                .max = kMaxStep,
                .unit = "ms",
                .positive = true},
          self.step_ms);
    visit(Field{.name = "jitter",
                .doc = "how much step times vary, as a share of step_ms; 0: not at all",
                .min = 0,
                .max = 10},
          self.jitter);
    visit(Field{.name = "jitter_kind",
                .doc = "how they are distributed: within +-jitter, around the mean, or a late tail",
                .choices = {"uniform", "lognormal", "exponential"}},
          self.jitter_kind);
    DriftKeys::fields(self, visit);
    visit(Field{.name = "step_trace",
                .doc = "a CSV file of step times, seconds,value, in ms, relative to the job file; "
                       "step_at_s and step_values are put in its place",
                .max = 4096,
                .local = true},
          self.step_trace);
    visit(Field{.name = "step_at_s",
                .doc = "when each of step_values begins; the first is 0",
                .min = 0,
                .max = 1e9,
                .unit = "s"},
          self.step_at_s);
    visit(Field{.name = "step_values",
                .doc = "step times instead of step_ms, one for each of step_at_s; the last stays",
                .max = kMaxStep,
                .unit = "ms",
                .positive = true},
          self.step_values);
  }
};

// Says the step times of all sites with workers; put in their place when the job is read.
struct HeteroTable : DriftKeys {
  std::optional<double> ratio;
  std::string spread = "geometric";
  std::optional<std::vector<double>> factors;
  std::string order = "listed";
  std::optional<double> step_ms;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "ratio",
                .doc = "geometric: the slowest site's step_ms over the fastest's",
                .min = 1,
                .max = 1e6},
          self.ratio);
    visit(Field{.name = "spread",
                .doc = "of step_ms over the sites: by equal factors from site to site, or as "
                       "factors say",
                .choices = {"geometric", "measured"}},
          self.spread);
    visit(Field{.name = "factors",
                .doc = "measured: step times of machines over that of the fastest, ascending from "
                       "1; stretched over the sites",
                .min = 1,
                .max = 1e6},
          self.factors);
    visit(Field{.name = "order",
                .doc = "the first site of the file is the fastest, the last the slowest; or dealt "
                       "by [job] seed",
                .choices = {"listed", "shuffled"}},
          self.order);
    visit(Field{.name = "step_ms",
                .doc = "that of the fastest site (absent: 20)",
                .max = kMaxStep,
                .unit = "ms",
                .positive = true},
          self.step_ms);
    DriftKeys::fields(self, visit);
  }
};

}  // namespace longhaul::run
