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
#include "longhaul/run/job/site_tables.h"
#include "longhaul/run/job/wan_tables.h"

namespace longhaul::run {

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
