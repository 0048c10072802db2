#pragma once
// The tables of a job file that say what lies between sites: [wan] and those under it.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/base/fields.h"

namespace longhaul::run {

// Rates in Mbit/s (10^6 bits), times in ms.
inline constexpr double kMaxRate = 1e9;
inline constexpr double kMaxDelay = 1e6;
inline constexpr double kMaxLoss = 0.99;
inline constexpr double kUsualQueueMs = 100;

// The keys of [wan] that say where a network comes from: a preset or matrices, and what holds for
// all its sites and connections. Part of WanTable.
struct WanSource {
  std::string preset;
  std::string mbps_csv, rtt_ms_csv, matrices;
  std::optional<double> up_mbps, down_mbps;
  std::optional<double> window_mb, single_max_mbps;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "preset",
                .doc = "a network that comes with the program, by name: longhaul list",
                .max = 64},
          self.preset);
    visit(Field{.name = "mbps_csv",
                .doc = "file of a matrix of rates between sites in Mbit/s: docs/wan.md",
                .max = 4096,
                .local = true},
          self.mbps_csv);
    visit(Field{.name = "rtt_ms_csv",
                .doc = "file of a matrix of round trips in ms; a delay is half of one",
                .max = 4096,
                .local = true},
          self.rtt_ms_csv);
    visit(Field{.name = "matrices",
                .doc = "hash of what these files hold; filled in, and checked when a job goes on",
                .max = 16},
          self.matrices);
    visit(Field{.name = "up_mbps",
                .doc = "uplink of every site that does not say its own (absent: as the preset)",
                .max = kMaxRate,
                .unit = "Mbit/s",
                .positive = true},
          self.up_mbps);
    visit(Field{.name = "down_mbps",
                .doc = "downlink of every site that does not say its own (absent: as the preset)",
                .max = kMaxRate,
                .unit = "Mbit/s",
                .positive = true},
          self.down_mbps);
    visit(Field{.name = "window_mb",
                .doc = "a connection carries at most this for each round trip (absent: unlimited, "
                       "or 10.5 with a preset that has windows)",
                .max = 1e6,
                .unit = "MB",
                .positive = true},
          self.window_mb);
    visit(Field{.name = "single_max_mbps",
                .doc = "and never more than this (absent: 1140)",
                .max = kMaxRate,
                .unit = "Mbit/s",
                .positive = true},
          self.single_max_mbps);
  }
};

struct WanTable : WanSource {
  std::string model = "fifo";
  double rate_scale = 1;
  std::optional<double> mbps, delay_ms;
  double loss = 0;
  std::optional<double> loss_burst;
  double jitter_ms = 0;
  std::string queue = "per_flow";
  std::optional<double> queue_ms;
  std::string tcp = "bbr";
  double bbr_threshold = 0.2;
  bool slow_start = true;
  double wire_scale = 1;
  std::optional<double> lan_mbps;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    WanSource::fields(self, visit);
    visit(Field{.name = "model",
                .doc = "of the simulator's links: each serves what comes first, or connections "
                       "share it as TCP's do (loss, jitter, slow start, traces, headers)",
                .choices = {"fifo", "fair"}},
          self.model);
    visit(Field{.name = "rate_scale",
                .doc = "multiplies every rate of pairs and connections, not those of sites",
                .max = 1e6,
                .positive = true},
          self.rate_scale);
    visit(Field{.name = "mbps",
                .doc = "rate of every ordered pair of sites (absent: unlimited)",
                .max = kMaxRate,
                .unit = "Mbit/s",
                .positive = true},
          self.mbps);
    visit(Field{.name = "delay_ms",
                .doc = "one-way delay between sites (absent: as preset or rtt_ms_csv say, or 20)",
                .min = 0,
                .max = kMaxDelay,
                .unit = "ms"},
          self.delay_ms);
    packet_fields(self, visit);
    visit(Field{.name = "wire_scale",
                .doc = "multiplies the bytes of vectors: a small model stands for a large one",
                .max = 1e6,
                .positive = true},
          self.wire_scale);
    visit(Field{.name = "lan_mbps",
                .doc = "rate between nodes of one site (absent: unlimited)",
                .max = kMaxRate,
                .unit = "Mbit/s",
                .positive = true},
          self.lan_mbps);
  }

 private:
  template <class Self, class Visit>
  static void packet_fields(Self& self, Visit&& visit) {
    visit(Field{.name = "loss",
                .doc = "share of packets lost between sites",
                .min = 0,
                .max = kMaxLoss},
          self.loss);
    visit(Field{.name = "loss_burst",
                .doc = "mean number of packets that are lost in a row (absent: each is lost by "
                       "itself)",
                .min = 1,
                .max = 1e6},
          self.loss_burst);
    visit(Field{.name = "jitter_ms",
                .doc = "standard deviation of the one-way delay",
                .min = 0,
                .max = kMaxDelay,
                .unit = "ms"},
          self.jitter_ms);
    visit(Field{.name = "queue",
                .doc = "at each port with a rate: each flow waits by itself, or all wait in one "
                       "queue a class, acknowledgements too",
                .choices = {"per_flow", "drop_tail"}},
          self.queue);
    visit(Field{.name = "queue_ms",
                .doc = "what a drop_tail queue holds, in time of its port; what does not fit is "
                       "dropped (absent: 100)",
                .max = kMaxDelay,
                .unit = "ms",
                .positive = true},
          self.queue_ms);
    visit(Field{.name = "tcp",
                .doc = "congestion control of reliable connections: what loss costs them",
                .choices = {"bbr", "cubic"}},
          self.tcp);
    visit(Field{.name = "bbr_threshold",
                .doc = "loss up to which bbr keeps its rate: 0.2 for version 1 (Linux), 0.02 for "
                       "2 and 3",
                .min = 0,
                .max = kMaxLoss},
          self.bbr_threshold);
    visit(
        Field{.name = "slow_start",
              .doc = "connections begin with 10 packets a round trip and double, and those of bbr "
                     "rest every 10 s; false: ideal ones"},
        self.slow_start);
  }
};

struct LinkTable {  // [[wan.link]]: what differs from [wan] for one pair
  std::string from, to;
  std::optional<double> mbps, delay_ms, jitter_ms, loss;
  bool both = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "from", .doc = "a site's name", .max = 64}, self.from);
    visit(Field{.name = "to", .doc = "a site's name", .max = 64}, self.to);
    visit(Field{.name = "mbps",
                .doc = "rate of this direction (absent: as [wan] says)",
                .max = kMaxRate,
                .unit = "Mbit/s",
                .positive = true},
          self.mbps);
    visit(Field{.name = "delay_ms",
                .doc = "one-way delay (absent: as [wan] says)",
                .min = 0,
                .max = kMaxDelay,
                .unit = "ms"},
          self.delay_ms);
    visit(Field{.name = "jitter_ms",
                .doc = "standard deviation of the delay (absent: as [wan] jitter_ms)",
                .min = 0,
                .max = kMaxDelay,
                .unit = "ms"},
          self.jitter_ms);
    visit(Field{.name = "loss",
                .doc = "share of packets lost (absent: as [wan] loss)",
                .min = 0,
                .max = kMaxLoss},
          self.loss);
    visit(Field{.name = "both", .doc = "holds for the other direction too"}, self.both);
  }
};

struct SharedTable {  // [[wan.shared]]: a backbone that several pairs of sites cross
  std::string name;
  std::optional<double> mbps;
  std::vector<std::string> from, to;
  bool both = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "name", .doc = "letters, digits, - and _; unique", .max = 64}, self.name);
    visit(Field{.name = "mbps",
                .doc = "rate that all pairs share; required",
                .max = kMaxRate,
                .unit = "Mbit/s",
                .positive = true},
          self.mbps);
    visit(Field{.name = "from", .doc = "sites; every pair of one of them ...", .max = 64},
          self.from);
    visit(Field{.name = "to", .doc = "... and one of these crosses the link", .max = 64}, self.to);
    visit(Field{.name = "both", .doc = "the other direction crosses it too"}, self.both);
  }
};

// [[wan.trace]]: a quantity that changes with time. Values in Mbit/s, ms or shares, as in the
// table where the quantity itself stands.
struct TraceTable {
  std::string what = "rate";
  std::string site, from, to, shared;
  std::string kind = "steps";
  std::string file;  // "" once it is read: see trace_file.h
  std::vector<double> at_s, values;
  double repeat_s = 0;
  double low = 0, high = 0;
  double every_s = 60;
  double low_s = 60, high_s = 60;
  double period_s = 86400, peak_s = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "what",
                .doc = "a site's uplink or downlink (Mbit/s); a pair's rate (Mbit/s), delay (ms) or"
                       " loss; the rate of a shared link (Mbit/s)",
                .choices = {"up", "down", "rate", "delay", "loss", "shared"}},
          self.what);
    visit(Field{.name = "site",
                .doc = "up, down: of this site (empty: of every site, each by itself)",
                .max = 64},
          self.site);
    visit(Field{.name = "from",
                .doc = "rate, delay, loss: of pairs from this site (empty: from every site)",
                .max = 64},
          self.from);
    visit(Field{.name = "to", .doc = "... to this site (empty: to every site)", .max = 64},
          self.to);
    visit(Field{.name = "shared", .doc = "shared: the name of the link", .max = 64}, self.shared);
    visit(Field{.name = "kind",
                .doc = "values at given times; uniform between low and high, drawn again every "
                       "every_s; two states of random length; a cosine over a day",
                .choices = {"steps", "redraw", "markov", "day"}},
          self.kind);
    steps(self, visit);
    visit(Field{.name = "low",
                .doc = "least value, or that of the lower state",
                .min = 0,
                .max = kMaxRate},
          self.low);
    visit(Field{.name = "high",
                .doc = "largest value, or that of the upper state",
                .min = 0,
                .max = kMaxRate},
          self.high);
    seconds(visit, "every_s", "redraw: between two draws; day: between two steps", self.every_s);
    seconds(visit, "low_s", "markov: mean time in the lower state", self.low_s);
    seconds(visit, "high_s", "markov: mean time in the upper state, which is the first",
            self.high_s);
    seconds(visit, "period_s", "day: its length", self.period_s);
    visit(
        Field{
            .name = "peak_s", .doc = "day: when it is highest", .min = 0, .max = 1e9, .unit = "s"},
        self.peak_s);
  }

 private:
  template <class Self, class Visit>
  static void steps(Self& self, Visit&& visit) {
    visit(Field{.name = "file",
                .doc = "steps: a CSV file of both, seconds,value (docs/wan.md), relative to the "
                       "job file; at_s and values are put in its place",
                .max = 4096,
                .local = true},
          self.file);
    visit(Field{.name = "at_s",
                .doc = "steps: when each of the values begins; the first is 0",
                .min = 0,
                .max = 1e9,
                .unit = "s"},
          self.at_s);
    visit(Field{.name = "values",
                .doc = "steps: one for each of at_s; 0: nothing passes",
                .min = 0,
                .max = kMaxRate},
          self.values);
    visit(Field{.name = "repeat_s",
                .doc = "steps: begin anew so often; 0: the last value stays",
                .min = 0,
                .max = 1e9,
                .unit = "s"},
          self.repeat_s);
  }
  template <class Visit>
  static void seconds(Visit& visit, std::string_view name, std::string_view doc, auto& member) {
    visit(Field{.name = name, .doc = doc, .max = 1e9, .unit = "s", .positive = true}, member);
  }
};

}  // namespace longhaul::run
