#pragma once
// The tables of a job file that belong to the run itself, beside those of the network. Each key's
// meaning, range and default stands here and nowhere else: the reader, `longhaul explain`,
// docs/job-file.md and the tests of bad input are made from these fields().
#include <cstdint>
#include <numbers>
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

struct JobTable {
  std::string name;
  std::uint64_t seed = 1;
  std::uint64_t checkpoint_every = 50;
  std::uint32_t keep_checkpoints = 2;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(
        name, .doc = "names the run's folder; letters, digits, - and _ (default: the file's name)",
        .max = 64, .local = true);
    LONGHAUL_FIELD(seed, .doc = "all randomness follows from it", .max = 0x1p53);
    LONGHAUL_FIELD(checkpoint_every, .doc = "rounds between checkpoints; 0: only when interrupted",
                   .max = 0x1p53, .local = true);
    LONGHAUL_FIELD(keep_checkpoints, .doc = "so many of the newest are kept", .min = 2, .max = 1e6,
                   .local = true);
  }
};

struct StopTable {
  std::optional<double> target_accuracy, target_bits_per_byte;
  std::uint64_t max_rounds = 500;
  std::optional<double> max_hours;
  double max_epochs = 0;

  // What the mean loss over bytes is at target_bits_per_byte: in nats.
  std::optional<double> target_loss() const {
    if (!target_bits_per_byte) return std::nullopt;
    return *target_bits_per_byte * std::numbers::ln2;
  }

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(target_accuracy,
                   .doc = "ends the run when the test set is classified as well as this", .min = 0,
                   .max = 1, .positive = true);
    LONGHAUL_FIELD(target_bits_per_byte,
                   .doc = "data of kind text: ends the run when the test set is predicted as well",
                   .max = 8, .positive = true);
    LONGHAUL_FIELD(max_rounds, .doc = "ends the run", .min = 1, .max = 0x1p53);
    LONGHAUL_FIELD(max_hours, .doc = "of virtual time (simulated) or real time (sockets)",
                   .max = 1e6, .unit = "h", .positive = true);
    LONGHAUL_FIELD(max_epochs,
                   .doc = "samples used by all sites together, in training sets; 0: no limit",
                   .min = 0, .max = 1e9);
  }
};

struct ReportTable {
  std::optional<std::uint64_t> every_rounds;
  std::uint64_t every_samples = 20000;
  std::uint64_t lag = 1;
  bool tensorboard = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(every_rounds,
                   .doc = "rounds between two scorings of the model; wins over every_samples",
                   .min = 1, .max = 0x1p53);
    LONGHAUL_FIELD(every_samples,
                   .doc = "samples (of all sites together) between two scorings, rounded to rounds",
                   .min = 1, .max = 0x1p53);
    LONGHAUL_FIELD(lag, .doc = "a verdict on round r ends the run after round r + lag", .min = 1,
                   .max = 64);
    LONGHAUL_FIELD(tensorboard, .doc = "writes all figures for TensorBoard, too: RUN/tensorboard",
                   .local = true);
  }
};

// Who takes part in the run, and what it does when few workers do.
struct RunTable {
  std::vector<std::string> without;
  double min_participation = 0;
  std::uint64_t participation_rounds = 20;
  std::string on_low_participation = "warn";
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(without,
                   .doc =
                       "sites that are left out, of a run that begins or resumes over sockets: "
                       "the others do not wait for them, and share dealt data among themselves");
    LONGHAUL_FIELD(min_participation,
                   .doc =
                       "least share of the live workers that a round's mean counts, averaged over "
                       "participation_rounds; 0: any (of strategies in rounds of all)",
                   .min = 0, .max = 1);
    LONGHAUL_FIELD(participation_rounds, .doc = "the newest rounds that count for it", .min = 1,
                   .max = 1e6);
    LONGHAUL_FIELD(on_low_participation,
                   .doc = "what happens below it: a warning, or the end of the run (exit code 1)",
                   .choices = {"warn", "end"});
  }
};

// A fault of the simulated or emulated network, or of a site there.
struct FaultTable {
  std::string kind = "cut", site, to;
  double at_s = 0;
  std::optional<double> for_s, restart_s;
  bool one_way = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(kind,
                   .doc =
                       "crash: the site's nodes stop; pause: they stand still; cut: "
                       "nothing passes between the site and others, and nothing is lost",
                   .choices = {"cut", "pause", "crash"});
    LONGHAUL_FIELD(site, .doc = "the site that it befalls", .max = 64);
    LONGHAUL_FIELD(to, .doc = "cut: the other site (default: all others)", .max = 64);
    LONGHAUL_FIELD(at_s, .doc = "time of the run when it begins", .min = 0, .max = 1e9,
                   .unit = "s");
    LONGHAUL_FIELD(for_s, .doc = "pause, cut: how long (absent: a cut lasts for good)", .max = 1e9,
                   .unit = "s", .positive = true);
    LONGHAUL_FIELD(restart_s,
                   .doc =
                       "so long after its beginning the site's nodes are started again if they are "
                       "lost by then, and rejoin (absent: never); such a run has no checkpoints",
                   .max = 1e9, .unit = "s", .positive = true);
    LONGHAUL_FIELD(one_way, .doc = "cut: only from the site to the other");
  }
};

struct RolesTable {
  std::optional<std::string> server;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(server,
                   .doc =
                       "site whose server serves, or that gets one of its own (default: the "
                       "overlay chooses a worker)",
                   .max = 64);
  }
};

// Of the server that some strategies talk to by themselves; with the others it has no keys.
struct ServerTable {
  std::string down_codec = "fp32";
  std::uint32_t standby_every = 0;
  std::uint32_t standbys = 1;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(down_codec,
                   .doc = "how the server writes its model: fp32, or same: in the job's codec",
                   .choices = {"fp32", "same"});
    LONGHAUL_FIELD(
        standby_every,
        .doc =
            "commits between two copies of the server's state to the worker that goes on "
            "in its place when it is lost; 0: none, and the run ends with its server",
        .max = 1e9, .unit = "commits");
    LONGHAUL_FIELD(standbys,
                   .doc =
                       "with standby_every: so many workers get the copies; the run goes on if "
                       "the server and all but one of them are lost at once",
                   .min = 1, .max = 64);
  }
};

// What a run costs, for `longhaul compare`; nothing else reads it.
struct CostTable {
  std::optional<double> wan_gb, node_hour;
  std::optional<std::string> currency;
  bool has_prices() const { return wan_gb || node_hour; }
  // Of a run that sent so much between sites and kept so many nodes for that time.
  double of(double wan_bytes, double node_seconds) const {
    return wan_gb.value_or(0) * wan_bytes / 1e9 + node_hour.value_or(0) * node_seconds / 3600;
  }
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(wan_gb, .doc = "price of 1e9 bytes sent from site to site", .min = 0, .max = 1e9,
                   .local = true);
    LONGHAUL_FIELD(node_hour, .doc = "price of one node for an hour", .min = 0, .max = 1e9,
                   .local = true);
    LONGHAUL_FIELD(currency, .doc = "stands behind amounts: USD", .max = 16, .local = true);
  }
};

struct NetTable {  // sockets only
  std::uint32_t streams = 1;
  std::string congestion = "bbr";
  bool dscp = true;
  bool datagrams = true;
  double meet_s = 60;
  double silence_s = 10;
  double majority_wait_s = 600;
  std::string continue_with;
  double stop_within_s = 5;
  bool pace = false;
  std::string keys = "keys";
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(
        streams, .doc = "parallel TCP connections to each peer (more for long, fast, lossy links)",
        .min = 1, .max = 16);
    LONGHAUL_FIELD(congestion,
                   .doc = "congestion control of TCP between machines, where the kernel offers it",
                   .choices = {"bbr", "cubic", "system"}, .local = true);
    LONGHAUL_FIELD(dscp,
                   .doc = "marks the packets of control messages as class selector 5, to go first",
                   .local = true);
    LONGHAUL_FIELD(datagrams,
                   .doc =
                       "best-effort messages (transfer dgt) go as UDP datagrams, where those reach "
                       "the peer; else over the connection",
                   .local = true);
    LONGHAUL_FIELD(meet_s, .doc = "all nodes must be connected within this, or the run fails",
                   .max = 1e6, .unit = "s", .positive = true, .local = true);
    LONGHAUL_FIELD(silence_s,
                   .doc = "without a byte from it for so long, a node counts as unreachable",
                   .max = 1e6, .unit = "s", .positive = true, .local = true);
    LONGHAUL_FIELD(majority_wait_s,
                   .doc =
                       "for so long a site keeps its state and waits when less than a majority "
                       "of the sites is in reach; then it ends",
                   .max = 1e9, .unit = "s", .positive = true, .local = true);
    LONGHAUL_FIELD(continue_with,
                   .doc =
                       "a site's name: after a loss, or a cut of the network, the part that holds "
                       "this site continues, whatever its number, and a majority without it "
                       "waits; empty: a majority continues",
                   .max = 256);
    LONGHAUL_FIELD(stop_within_s,
                   .doc =
                       "a node that must stop waits this long for the other nodes' checkpoint "
                       "(more if its own disk is busy); launch kills it 5 s later",
                   .max = 1e6, .unit = "s", .positive = true, .local = true);
    LONGHAUL_FIELD(
        pace, .doc =
                  "steps take what the simulator has them take ([[site]] step_ms, jitter, drift, "
                  "step_trace): early ones wait, late ones are counted");
    LONGHAUL_FIELD(keys,
                   .doc =
                       "folder with ca.crt and SITE.pem (longhaul keys), by which sites prove "
                       "who they are; launch makes keys of its own",
                   .max = 4096, .local = true);
  }
};

// Keys of [transfer] that hold for every kind.
struct TransferCommon {
  std::uint32_t chunk_kib = 256;
  std::uint32_t chunk_run = 1;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(chunk_kib, .doc = "most of a vector that one message carries", .min = 1,
                   .max = 65536, .unit = "KiB");
    LONGHAUL_FIELD(
        chunk_run,
        .doc = "chunks that a phantom model sends as one event: quicker, nearly equal times",
        .min = 1, .max = 65536);
  }
};

}  // namespace longhaul::run
