#pragma once
// The result of a run: summary.json, and the output of `longhaul simulate --json`.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "longhaul/base/archive.h"
#include "longhaul/base/fields.h"
#include "longhaul/core/action.h"
#include "longhaul/core/place.h"
#include "longhaul/core/sample_ledger.h"
#include "longhaul/run/job/job.h"

namespace longhaul::run {

// The best score of a run so far.
struct BestScore {
  Round round = 0;
  double loss = 0;
  std::optional<double> accuracy = {};
  void state(Archive& ar) { ar(round, loss, accuracy); }
};

// Participation of the job's workers. A worker is live while it is in the view.
struct Participation {
  std::uint64_t members = 0, live = 0;  // workers of the job, and of the newest view
  std::uint64_t changes = 0;            // changes of the view
  // Sum over the rounds of the share of live workers that the mean left out.
  double left_out = 0;
  // Sum over the rounds of the job's workers that the mean did not count, including lost workers.
  // Lost workers are counted up to the round `since`, the last change of `live`.
  double missed = 0;
  Round since = 0;

  // Returns `missed` up to this round.
  double missed_by(Round rounds) const {
    return missed + (rounds > since ? double(members - live) * double(rounds - since) : 0);
  }
  // Sets the number of live workers from this round on.
  void change(Round rounds, std::uint64_t now_live) {
    missed = missed_by(rounds);
    since = std::max(since, rounds);
    live = now_live;
    ++changes;
  }
  // Counts a mean that left out this share of the live workers.
  void leave_out(double share) {
    left_out += share;
    missed += share * double(live);
  }
  void state(Archive& ar) { ar(members, live, changes, left_out, missed, since); }
};

// Sums of the figures that strategies record (docs/sync/README.md): waiting time by cause,
// staleness, local steps:
//
//   wait_s, CAUSE_wait_s   seconds that a learner waited for the exchange, or for CAUSE
//   staleness              of an update, in rounds or commits
//   steps                  local steps of an update
//   sent_share             share of the values that a worker sends in a clock
//   group_size             workers that average with each other in a round
struct RunStatistics {
  struct Steps {
    std::uint64_t updates = 0, steps = 0;
    void state(Archive& ar) { ar(updates, steps); }
  };
  struct Mean {
    std::uint64_t count = 0;
    double sum = 0;
    void state(Archive& ar) { ar(count, sum); }
  };
  static constexpr std::uint64_t kMaxStaleness = 1000;  // larger values count as this one

  std::map<std::string, double> waiting_s;           // by cause, all nodes together
  std::map<std::uint64_t, std::uint64_t> staleness;  // number of updates, by staleness
  std::map<std::string, Steps> steps;                // by node
  std::map<std::string, Mean> means;                 // "sent_share", "group_size"

  bool empty() const {
    return waiting_s.empty() && staleness.empty() && steps.empty() && means.empty();
  }
  void add(const Member& node, const Record&);
  void add(const RunStatistics&);
  void state(Archive& ar) { ar(waiting_s, staleness, steps, means); }
};

// Writes the non-empty sums into a summary's object.
void write(const RunStatistics&, nlohmann::ordered_json& into);
// Reads what write() wrote; ignores anything else.
RunStatistics read_statistics(const nlohmann::json& from);

// Counts of the emulated WAN's router: "lab" of summary.json.
struct LabFigures {
  bool router_limited = false;  // the router delayed or dropped over 1 % of the packets
  double limited_share = 0;     // share of packets late by more than 1 ms, or refused
  double worst_late_ms = 0;
  double busy_share = 0;  // share of one core
  double mbps = 0;        // mean total rate carried
  std::uint64_t packets = 0, lost = 0, queue_full = 0, cut = 0, refused = 0;
  LONGHAUL_FIELDS(router_limited, limited_share, worst_late_ms, busy_share, mbps, packets, lost,
                  queue_full, cut, refused)
};

enum class StopReason : std::uint8_t {
  target,
  max_rounds,
  max_hours,
  max_epochs,
  interrupted,
  diverged,       // a value that is not finite
  failed,         // a peer, the network or a learner
  participation,  // too few workers took part: [run] on_low_participation
  invalid         // the model cannot compute with these data
};
std::string_view to_string(StopReason);

// Step counts of a run over sockets with [net] pace.
struct PaceFigures {
  static constexpr double kTolerated = 0.01;
  std::uint64_t steps = 0,
                overruns = 0;  // sums over nodes; overruns: slower than simulated
  double share() const { return steps == 0 ? 0 : double(overruns) / double(steps); }
  // Returns true if there are too many overruns to compare the run with the simulator.
  bool is_void() const { return share() > kTolerated; }
};

// The score of a site's model on the site's own test samples.
struct SiteScore {
  std::string site;
  std::optional<double> loss = {}, accuracy = {};  // absent: not scored
  std::uint64_t samples = 0;
  LONGHAUL_FIELDS(site, loss, accuracy, samples)
};
// Returns the scores of all sites, in job order; none if no site has test samples of its own.
std::vector<SiteScore> site_scores(const Members&, const std::map<Rank, Evaluation>& by_rank);

struct Summary {
  // Values from the job.
  std::string name, model, data, sync, overlay, transfer, codec, outer;
  std::uint64_t seed = 0;
  std::uint64_t sites = 0, nodes = 0;
  std::optional<double> target_accuracy, target_bits_per_byte;
  std::string job_hash;
  // Results.
  std::uint64_t rounds = 0;
  double time_s = 0;
  // Absent: not scored. The accuracy also if scores have none, as of regression.
  std::optional<double> final_accuracy, final_loss;
  // Interpolated between the first score that reached the target and the score before it, at
  // target_after_s.
  std::optional<double> time_to_target_s, target_after_s;
  std::uint64_t wan_bytes = 0, wan_messages = 0;
  double compute_utilisation = 0;           // mean over sites of computing time / time
  RunStatistics statistics;                 // values that strategies recorded
  std::vector<SiteScore> site_scores = {};  // scores on the sites' own test samples
  std::optional<BestScore> best = {};       // best of the scored models
  bool model_is_best = false;               // model.pt is the best model, not the last
  Participation participation = {};
  SampleCounts samples = {};
  std::vector<std::string> warnings = {};  // problems of this run that the user should check
  std::string params_hash;                 // XXH64 of rank 0's parameters, hex; "" for phantoms
  StopReason stop_reason = StopReason::max_rounds;
  std::string failure;              // reason, if failed or diverged
  double real_s = 0;                // real time of all sessions; all other times are of the run
  std::optional<LabFigures> lab;    // over an emulated WAN
  std::optional<PaceFigures> pace;  // with [net] pace

  // The fields that summary.json has for every run, under these names.
  LONGHAUL_FIELDS(name, model, data, sync, overlay, transfer, codec, outer, seed, sites, nodes,
                  rounds, time_s, final_accuracy, final_loss, target_accuracy, time_to_target_s,
                  wan_bytes, wan_messages, compute_utilisation, params_hash, stop_reason, job_hash,
                  real_s)

  // Sets the final score; leaves it absent if nothing was scored.
  void set_score(const Evaluation&);
  bool has_target() const { return target_accuracy || target_bits_per_byte; }
  // Returns the workers counted in a round's mean / workers of the job, averaged over the rounds.
  double participation_share() const;
  // Returns the same quotient with the live workers.
  double participation_of_live() const;
  // Returns the final loss in bits, for data of kind text.
  std::optional<double> bits_per_byte() const;
};

// Converts nats to bits.
double to_bits(double nats);

// Returns the stop reason of a run that ended with this Error.
StopReason stop_reason(const Error&);
// Returns the stop reason of a run that was not interrupted and did not fail.
StopReason stop_reason(const Job&, bool reached_target, Round rounds, Time time);
// Sets the stop reason of a run that ended by itself to `diverged` if the strategy diverged.
void note_divergence(const Strategy&, Summary&);
// Returns XXH64 of the parameters, hex; "" for none.
std::string params_hash(std::span<const float>);
std::uint64_t digest(std::span<const float>);  // the same, as a number
// Does the same if the model's loss at the end is not finite.
void note_divergence(const Evaluation& at_end, Summary&);
// Returns a summary with the fields from the job.
Summary summary_of(const Job&);
nlohmann::ordered_json to_json(const Summary&);
// Returns the text of summary.json. Replaces bytes that are not UTF-8, from file names or peers.
std::string summary_text(const Summary&);
// Reads the output of json_of(); nullopt if the JSON holds no LabFigures.
std::optional<LabFigures> lab_figures(const nlohmann::json&);
// Reads the text of summary.json. Error: the text is no summary.
Result<Summary> parse_summary(const std::string& text);
// Reads the summary of a run folder; nullopt if it has none.
Result<std::optional<Summary>> read_summary(const std::string& folder);
// Reads the summary of a finished run; nullopt if the run can be resumed.
Result<std::optional<Summary>> finished_summary(const std::string& folder);
// Does the same, but returns nullopt if the job differs from the folder's. A changed [stop] may let
// the run continue.
Result<std::optional<Summary>> nothing_left(const std::string& folder, const Job&);
// Returns the exit code of the command line. 0: the run ended as configured. 1: it diverged, had
// low participation, or missed its target despite `requires_target`. 2: invalid; 3: failed; 130:
// Ctrl-C.
int exit_code(const Summary&, bool requires_target = false);
std::string hex64(std::uint64_t);

}  // namespace longhaul::run
