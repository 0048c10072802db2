#pragma once
// The tables of a job file that configure the run itself; others configure the network. Each key's
// meaning, range and default is defined in fields() only: the reader, `longhaul explain`,
// docs/job-file.md and the tests of bad input use fields().
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

// The keys of [wan] that define the source of a network: a preset or matrices, and values for all
// its sites and connections. Part of WanTable.
struct WanSource {
  std::string preset;
  std::string mbps_csv, rtt_ms_csv, matrices;
  std::optional<double> up_mbps, down_mbps;
  std::optional<double> window_mb, single_max_mbps;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(preset, "a network that comes with the program, by name: longhaul list",
                 .max = 64);
    LONGHAUL_KEY(mbps_csv, "file of a matrix of rates between sites in Mbit/s: docs/wan.md",
                 .max = 4096, .local = true);
    LONGHAUL_KEY(rtt_ms_csv, "file of a matrix of round trips in ms; a delay is half of one",
                 .max = 4096, .local = true);
    LONGHAUL_KEY(matrices,
                 "hash of the contents of these files; filled in, and checked when a job resumes",
                 .max = 16);
    LONGHAUL_KEY(up_mbps, "uplink of every site that does not say its own (absent: as the preset)",
                 .max = kMaxRate, .unit = "Mbit/s", .positive = true);
    LONGHAUL_KEY(down_mbps,
                 "downlink of every site that does not say its own (absent: as the preset)",
                 .max = kMaxRate, .unit = "Mbit/s", .positive = true);
    LONGHAUL_KEY(window_mb,
                 "a connection carries at most this for each round trip (absent: unlimited, or "
                 "10.5 with a preset that has windows)",
                 .max = 1e6, .unit = "MB", .positive = true);
    LONGHAUL_KEY(single_max_mbps, "and never more than this (absent: 1140)", .max = kMaxRate,
                 .unit = "Mbit/s", .positive = true);
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
  static void fields(auto& self, auto&& visit) {
    WanSource::fields(self, visit);
    LONGHAUL_KEY(model,
                 "the simulator's links. fifo: each serves messages in order; fair: connections "
                 "share it as TCP's do (loss, jitter, slow start, traces, headers). packet: each "
                 "packet passes its queues, for exchanges of seconds",
                 .choices = {"fifo", "fair", "packet"});
    LONGHAUL_KEY(rate_scale, "multiplies every rate of pairs and connections, not those of sites",
                 .max = 1e6, .positive = true);
    LONGHAUL_KEY(mbps, "rate of every ordered pair of sites (absent: unlimited)", .max = kMaxRate,
                 .unit = "Mbit/s", .positive = true);
    LONGHAUL_KEY(delay_ms,
                 "one-way delay between sites (absent: as preset or rtt_ms_csv say, or 20)",
                 .min = 0, .max = kMaxDelay, .unit = "ms");
    packet_fields(self, visit);
    LONGHAUL_KEY(wire_scale,
                 "multiplies the bytes of vectors: a small model stands for a large one",
                 .max = 1e6, .positive = true);
    LONGHAUL_KEY(lan_mbps, "rate between nodes of one site (absent: unlimited)", .max = kMaxRate,
                 .unit = "Mbit/s", .positive = true);
  }

 private:
  static void packet_fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(loss, "share of packets lost between sites", .min = 0, .max = kMaxLoss);
    LONGHAUL_KEY(loss_burst,
                 "mean number of packets that are lost in a row (absent: each is lost by itself)",
                 .min = 1, .max = 1e6);
    LONGHAUL_KEY(jitter_ms, "standard deviation of the one-way delay", .min = 0, .max = kMaxDelay,
                 .unit = "ms");
    LONGHAUL_KEY(queue,
                 "at each port with a rate: each flow waits by itself, or all wait in one queue a "
                 "class, acknowledgements too",
                 .choices = {"per_flow", "drop_tail"});
    LONGHAUL_KEY(queue_ms,
                 "length of a drop_tail queue, in time of its port; packets that do not fit are "
                 "dropped (absent: 100)",
                 .max = kMaxDelay, .unit = "ms", .positive = true);
    LONGHAUL_KEY(tcp, "congestion control of reliable connections: what loss costs them",
                 .choices = {"bbr", "cubic"});
    LONGHAUL_KEY(bbr_threshold,
                 "loss up to which bbr keeps its rate: 0.2 for version 1 (Linux), 0.02 for 2 and 3",
                 .min = 0, .max = kMaxLoss);
    LONGHAUL_KEY(slow_start,
                 "connections begin with 10 packets a round trip and double, and those of bbr rest "
                 "every 10 s; false: ideal ones");
  }
};

struct LinkTable {  // [[wan.link]]: values of one pair that differ from [wan]
  std::string from, to;
  std::optional<double> mbps, delay_ms, jitter_ms, loss;
  bool both = false;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(from, "a site's name", .max = 64);
    LONGHAUL_KEY(to, "a site's name", .max = 64);
    LONGHAUL_KEY(mbps, "rate of this direction (absent: as [wan] says)", .max = kMaxRate,
                 .unit = "Mbit/s", .positive = true);
    LONGHAUL_KEY(delay_ms, "one-way delay (absent: as [wan] says)", .min = 0, .max = kMaxDelay,
                 .unit = "ms");
    LONGHAUL_KEY(jitter_ms, "standard deviation of the delay (absent: as [wan] jitter_ms)",
                 .min = 0, .max = kMaxDelay, .unit = "ms");
    LONGHAUL_KEY(loss, "share of packets lost (absent: as [wan] loss)", .min = 0, .max = kMaxLoss);
    LONGHAUL_KEY(both, "holds for the other direction too");
  }
};

struct SharedTable {  // [[wan.shared]]: a backbone that several pairs of sites cross
  std::string name;
  std::optional<double> mbps;
  std::vector<std::string> from, to;
  bool both = false;
  LONGHAUL_FIELDS((name, .doc = "letters, digits, - and _; unique", .max = 64),
                  (mbps, .doc = "rate that all pairs share; required", .max = kMaxRate,
                   .unit = "Mbit/s", .positive = true),
                  (from, .doc = "sites; every pair of one of them ...", .max = 64),
                  (to, .doc = "... and one of these crosses the link", .max = 64),
                  (both, .doc = "the other direction crosses it too"))
};

// [[wan.trace]]: a quantity that changes with time. Values in Mbit/s, ms or shares, as in the table
// of the quantity.
struct TraceTable {
  std::string what = "rate";
  std::string site, from, to, shared;
  std::string kind = "steps";
  std::string file;  // "" after the file is read: see trace_file.h
  std::vector<double> at_s, values;
  double repeat_s = 0;
  double low = 0, high = 0;
  double every_s = 60;
  double low_s = 60, high_s = 60;
  double period_s = 86400, peak_s = 0;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(what,
                 "a site's uplink or downlink (Mbit/s); a pair's rate (Mbit/s), delay (ms) or "
                 "loss; the rate of a shared link (Mbit/s)",
                 .choices = {"up", "down", "rate", "delay", "loss", "shared"});
    LONGHAUL_KEY(site, "up, down: of this site (empty: of every site, each by itself)", .max = 64);
    LONGHAUL_KEY(from, "rate, delay, loss: of pairs from this site (empty: from every site)",
                 .max = 64);
    LONGHAUL_KEY(to, "... to this site (empty: to every site)", .max = 64);
    LONGHAUL_KEY(shared, "shared: the name of the link", .max = 64);
    LONGHAUL_KEY(kind,
                 "values at given times; uniform between low and high, drawn again every every_s; "
                 "two states of random length; a cosine over a day",
                 .choices = {"steps", "redraw", "markov", "day"});
    steps(self, visit);
    LONGHAUL_KEY(low, "least value, or that of the lower state", .min = 0, .max = kMaxRate);
    LONGHAUL_KEY(high, "largest value, or that of the upper state", .min = 0, .max = kMaxRate);
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
  static void steps(auto& self, auto&& visit) {
    LONGHAUL_KEY(file,
                 "steps: a CSV file of both, seconds,value (docs/wan.md), relative to the job "
                 "file; at_s and values are put in its place",
                 .max = 4096, .local = true);
    LONGHAUL_KEY(at_s, "steps: when each of the values begins; the first is 0", .min = 0,
                 .max = 1e9, .unit = "s");
    LONGHAUL_KEY(values, "steps: one for each of at_s; 0: nothing passes", .min = 0,
                 .max = kMaxRate);
    LONGHAUL_KEY(repeat_s, "steps: time until they begin again; 0: the last value stays", .min = 0,
                 .max = 1e9, .unit = "s");
  }
  template <class Visit>
  static void seconds(Visit& visit, std::string_view name, std::string_view doc, auto& member) {
    visit(Field{.name = name, .doc = doc, .max = 1e9, .unit = "s", .positive = true}, member);
  }
};

inline constexpr double kMaxStep = 1e9;  // ms

// The drift of step times at one site, or at all sites without keys of their own.
struct DriftKeys {
  std::optional<double> drift, drift_every_s, drift_bound;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(drift,
                 "standard deviation of a move of the step time's logarithm: a random walk, all "
                 "nodes of a site together (absent: none)",
                 .min = 0, .max = 10);
    LONGHAUL_KEY(drift_every_s, "time between two moves (absent: 60)", .min = 0.1, .max = 1e9,
                 .unit = "s");
    LONGHAUL_KEY(drift_bound,
                 "the walk turns back at step_ms times this and step_ms over this (absent: 4)",
                 .min = 1, .max = 1e6);
  }
};

struct SiteTable : DriftKeys {
  std::string name;
  std::optional<double> up_mbps, down_mbps;
  std::uint32_t nodes = 1;
  double step_ms = 20;  // ms; with a trace: its first value
  double jitter = 0;
  std::string jitter_kind = "lognormal";
  std::string step_trace;  // "" after the file is read: see trace_file.h
  std::optional<std::vector<double>> step_at_s, step_values;
  std::vector<std::string> roles = {"worker"};
  std::string address, bind;
  bool dial_out = false;
  std::string data;
  std::optional<std::uint32_t> batch;  // instead of [data] batch
  std::optional<double> rate;          // instead of [optimizer] rate
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(name, "letters, digits, - and _; unique", .max = 64);
    LONGHAUL_KEY(up_mbps, "uplink shared by the site's nodes (absent: as [wan] says, or unlimited)",
                 .max = kMaxRate, .unit = "Mbit/s", .positive = true);
    LONGHAUL_KEY(down_mbps,
                 "downlink shared by the site's nodes (absent: as [wan] says, or unlimited)",
                 .max = kMaxRate, .unit = "Mbit/s", .positive = true);
    LONGHAUL_KEY(nodes, "nodes at this site", .min = 1, .max = 65536);
    steps(self, visit);
    LONGHAUL_KEY(roles, "what its nodes do", .max = 64,
                 .choices = {"worker", "server", "state_server", "witness"});
    LONGHAUL_KEY(address, "host:port that other sites connect to (sockets)", .max = 256,
                 .local = true);
    LONGHAUL_KEY(dial_out,
                 "behind NAT or a firewall: it dials all others, and none dials it; two such sites "
                 "reach each other through a third");
    LONGHAUL_KEY(bind,
                 "host:port that it listens at alone, as 10.0.0.1:7000; absent: at all addresses "
                 "of its machine, at the port of address (sockets)",
                 .max = 256, .local = true);
    LONGHAUL_KEY(data, "path of this site's own samples, for [data] partition = \"local\"",
                 .max = 4096, .local = true);
    LONGHAUL_KEY(batch, "samples of a step at this site (absent: as [data] batch says)", .min = 1,
                 .max = 1e6);
    LONGHAUL_KEY(rate, "learning rate at this site (absent: as [optimizer] rate says)", .max = 1e6,
                 .positive = true);
  }

 private:
  static void steps(auto& self, auto&& visit) {
    LONGHAUL_KEY(step_ms, "time of one step (one mini-batch) in the simulator, and with [net] pace",
                 .max = kMaxStep, .unit = "ms", .positive = true);
    LONGHAUL_KEY(jitter, "variation of step times, as a share of step_ms; 0: none", .min = 0,
                 .max = 10);
    LONGHAUL_KEY(jitter_kind,
                 "how they are distributed: within +-jitter, around the mean, or a late tail",
                 .choices = {"uniform", "lognormal", "exponential"});
    DriftKeys::fields(self, visit);
    LONGHAUL_KEY(step_trace,
                 "a CSV file of step times, seconds,value, in ms, relative to the job file; "
                 "step_at_s and step_values are put in its place",
                 .max = 4096, .local = true);
    LONGHAUL_KEY(step_at_s, "when each of step_values begins; the first is 0", .min = 0, .max = 1e9,
                 .unit = "s");
    LONGHAUL_KEY(step_values,
                 "step times instead of step_ms, one for each of step_at_s; the last stays",
                 .max = kMaxStep, .unit = "ms", .positive = true);
  }
};

// The step times of all sites with workers, copied into the sites when the job is read.
struct HeteroTable : DriftKeys {
  std::optional<double> ratio;
  std::string spread = "geometric";
  std::optional<std::vector<double>> factors;
  std::string order = "listed";
  std::optional<double> step_ms;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(ratio, "geometric: the slowest site's step_ms over the fastest's", .min = 1,
                 .max = 1e6);
    LONGHAUL_KEY(
        spread,
        "spread of step_ms over the sites: by equal factors from site to site, or by `factors`",
        .choices = {"geometric", "measured"});
    LONGHAUL_KEY(factors,
                 "measured: step times of machines over that of the fastest, ascending from 1; "
                 "stretched over the sites",
                 .min = 1, .max = 1e6);
    LONGHAUL_KEY(order,
                 "the first site of the file is the fastest, the last the slowest; or shuffled by "
                 "[job] seed",
                 .choices = {"listed", "shuffled"});
    LONGHAUL_KEY(step_ms, "that of the fastest site (absent: 20)", .max = kMaxStep, .unit = "ms",
                 .positive = true);
    DriftKeys::fields(self, visit);
  }
};

struct JobTable {
  std::string name;
  std::uint64_t seed = 1;
  std::uint64_t checkpoint_every = 50;
  std::uint32_t keep_checkpoints = 2;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(name,
                 "names the run's folder; letters, digits, - and _ (default: the file's name)",
                 .max = 64, .local = true);
    LONGHAUL_KEY(seed, "all randomness follows from it", .max = 0x1p53);
    LONGHAUL_KEY(checkpoint_every, "rounds between checkpoints; 0: only when interrupted",
                 .max = 0x1p53, .local = true);
    LONGHAUL_KEY(keep_checkpoints, "newest checkpoints that are kept", .min = 2, .max = 1e6,
                 .local = true);
  }
};

struct StopTable {
  std::optional<double> target_accuracy, target_bits_per_byte;
  std::uint64_t max_rounds = 500;
  std::optional<double> max_hours;
  double max_epochs = 0;

  // Returns target_bits_per_byte as a mean loss over bytes, in nats.
  std::optional<double> target_loss() const {
    if (!target_bits_per_byte) return std::nullopt;
    return *target_bits_per_byte * std::numbers::ln2;
  }

  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(target_accuracy, "ends the run when the test set is classified as well as this",
                 .min = 0, .max = 1, .positive = true);
    LONGHAUL_KEY(target_bits_per_byte,
                 "data of kind text: ends the run when the test set is predicted as well", .max = 8,
                 .positive = true);
    LONGHAUL_KEY(max_rounds, "ends the run", .min = 1, .max = 0x1p53);
    LONGHAUL_KEY(max_hours,
                 "most virtual time (simulated) or real time (sockets); checked at each score",
                 .max = 1e6, .unit = "h", .positive = true);
    LONGHAUL_KEY(max_epochs, "samples used by all sites together, in training sets; 0: no limit",
                 .min = 0, .max = 1e9);
  }
};

struct ReportTable {
  std::optional<std::uint64_t> every_rounds;
  std::uint64_t every_samples = 20000;
  std::uint64_t lag = 1;
  bool tensorboard = false;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(every_rounds, "rounds between two scorings of the model; wins over every_samples",
                 .min = 1, .max = 0x1p53);
    LONGHAUL_KEY(every_samples,
                 "samples (of all sites together) between two scorings, rounded to rounds",
                 .min = 1, .max = 0x1p53);
    LONGHAUL_KEY(lag, "a verdict on round r ends the run after round r + lag", .min = 1, .max = 64);
    LONGHAUL_KEY(tensorboard, "writes all figures for TensorBoard, too: RUN/tensorboard",
                 .local = true);
  }
};

// The sites that take part in the run, and the reaction to low participation.
struct RunTable {
  std::vector<std::string> without;
  double min_participation = 0;
  std::uint64_t participation_rounds = 20;
  std::string on_low_participation = "warn";
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(without,
                 "sites that are left out when a run begins or resumes over sockets; the others "
                 "divide their assigned data");
    LONGHAUL_KEY(min_participation,
                 "least share of the live workers that a round's mean counts, averaged over "
                 "participation_rounds; 0: any (strategies in rounds of all workers)",
                 .min = 0, .max = 1);
    LONGHAUL_KEY(participation_rounds, "the newest rounds that count for it", .min = 1, .max = 1e6);
    LONGHAUL_KEY(on_low_participation,
                 "action below it: a warning, or the end of the run (exit code 1)",
                 .choices = {"warn", "end"});
  }
};

// A fault of the simulated or emulated network, or of one of its sites.
struct FaultTable {
  std::string kind = "cut", site, to;
  double at_s = 0;
  std::optional<double> for_s, restart_s;
  bool one_way = false;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(kind,
                 "crash: the site's nodes stop; pause: they stand still; cut: nothing passes "
                 "between the site and others, and nothing is lost",
                 .choices = {"cut", "pause", "crash"});
    LONGHAUL_KEY(site, "the site that it befalls", .max = 64);
    LONGHAUL_KEY(to, "cut: the other site (default: all others)", .max = 64);
    LONGHAUL_KEY(at_s, "time of the run when it begins", .min = 0, .max = 1e9, .unit = "s");
    LONGHAUL_KEY(for_s, "pause, cut: how long (absent: a cut lasts for good)", .max = 1e9,
                 .unit = "s", .positive = true);
    LONGHAUL_KEY(restart_s,
                 "time after its beginning at which the site's lost nodes rejoin (absent: never); "
                 "such a run has no checkpoints",
                 .max = 1e9, .unit = "s", .positive = true);
    LONGHAUL_KEY(one_way, "cut: only from the site to the other");
  }
};

struct RolesTable {
  std::optional<std::string> server;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(server,
                 "site whose server serves, or that gets one of its own (default: the overlay "
                 "chooses a worker)",
                 .max = 64);
  }
};

// The settings of the server that some strategies use directly; empty for other strategies.
struct ServerTable {
  std::string down_codec = "fp32";
  std::uint32_t standby_every = 0;
  std::uint32_t standbys = 1;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(down_codec, "how the server writes its model: fp32, or same: in the job's codec",
                 .choices = {"fp32", "same"});
    LONGHAUL_KEY(standby_every,
                 "commits between two copies of the server's state to its standbys; 0: none, and "
                 "the others wait for the server",
                 .max = 1e9, .unit = "commits");
    LONGHAUL_KEY(standbys, "workers that get the copies; the run continues if one of them is left",
                 .min = 1, .max = 64);
  }
};

// The prices of a run. `longhaul compare` and `longhaul plan` read them.
struct CostTable {
  std::optional<double> wan_gb, node_hour;
  std::optional<std::string> currency;
  bool has_prices() const { return wan_gb || node_hour; }
  // Returns the cost of `wan_bytes` sent between sites and `node_seconds` of nodes.
  double of(double wan_bytes, double node_seconds) const {
    return wan_gb.value_or(0) * wan_bytes / 1e9 + node_hour.value_or(0) * node_seconds / 3600;
  }
  LONGHAUL_FIELDS(
      (wan_gb, .doc = "price of 1e9 bytes sent from site to site", .min = 0, .max = 1e9,
       .local = true),
      (node_hour, .doc = "price of one node for an hour", .min = 0, .max = 1e9, .local = true),
      (currency,
       .doc = "stands behind amounts: USD; absent: they are in the currency of the prices",
       .max = 16, .local = true))
};

struct NetTable {  // sockets only
  std::uint32_t streams = 1;
  std::string congestion = "bbr";
  std::string pacing = "plan";
  bool dscp = true;
  bool datagrams = true;
  double meet_s = 60;
  double silence_s = 10;
  double majority_wait_s = 600;
  std::string continue_with;
  double stop_within_s = 5;
  bool pace = false;
  std::string keys = "keys";
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(streams,
                 "parallel TCP connections to each peer (more for long, fast, lossy links)",
                 .min = 1, .max = 16);
    LONGHAUL_KEY(congestion,
                 "congestion control of TCP between machines, where the kernel offers it",
                 .choices = {"bbr", "cubic", "system"}, .local = true);
    LONGHAUL_KEY(
        pacing,
        "with [wan] queue = \"drop_tail\": limits bulk to each peer to the rate of the pair "
        "in the overlay's plan",
        .choices = {"plan", "off"}, .local = true);
    LONGHAUL_KEY(dscp, "marks the packets of control messages as class selector 5, to go first",
                 .local = true);
    LONGHAUL_KEY(datagrams,
                 "best-effort messages (transfer dgt) go as UDP datagrams, where those reach the "
                 "peer; else over the connection",
                 .local = true);
    LONGHAUL_KEY(meet_s,
                 "time for all nodes to connect; then a new run fails, and a resumed one continues "
                 "with a majority",
                 .max = 1e6, .unit = "s", .positive = true, .local = true);
    LONGHAUL_KEY(silence_s, "without a byte from it for this long, a node counts as unreachable",
                 .max = 1e6, .unit = "s", .positive = true, .local = true);
    LONGHAUL_KEY(majority_wait_s,
                 "time that a site waits with its state when less than a majority of the sites is "
                 "in reach; then it ends",
                 .max = 1e9, .unit = "s", .positive = true, .local = true);
    LONGHAUL_KEY(continue_with,
                 "after a loss or a network cut, the part with this site continues, whatever its "
                 "size; other parts wait. Empty: a majority continues",
                 .max = 256);
    LONGHAUL_KEY(stop_within_s,
                 "time that a stopping node waits for the others' checkpoint (more if its own disk "
                 "is busy); launch kills it 5 s later",
                 .max = 1e6, .unit = "s", .positive = true, .local = true);
    LONGHAUL_KEY(pace,
                 "steps take what the simulator has them take ([[site]] step_ms, jitter, drift, "
                 "step_trace): early ones wait, late ones are counted");
    LONGHAUL_KEY(keys,
                 "folder with ca.crt and SITE.pem (longhaul keys), by which sites prove who they "
                 "are; launch makes keys of its own",
                 .max = 4096, .local = true);
  }
};

// Keys of [transfer] that every kind has.
struct TransferCommon {
  std::uint32_t chunk_kib = 256;
  std::uint32_t chunk_run = 1;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(chunk_kib, "most of a vector that one message carries", .min = 1, .max = 65536,
                 .unit = "KiB");
    LONGHAUL_KEY(chunk_run,
                 "chunks that a phantom model sends as one event: quicker, nearly equal times",
                 .min = 1, .max = 65536);
  }
};

}  // namespace longhaul::run
