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
  double loss = 0, accuracy = 0;
  void state(Archive& ar) { ar(round, loss, accuracy); }
};

// Who took part. A worker is live while it is in the view.
struct Participation {
  std::uint64_t members = 0, live = 0;  // workers of the job; of the newest view
  std::uint64_t changes = 0;            // of the view
  // Over the rounds whose mean left live workers out: their share of the live ones, summed up.
  double left_out = 0;
  // Workers of the job that means did not count, lost ones among them, summed over the rounds; lost
  // ones up to the round `since`, in which `live` changed last.
  double missed = 0;
  Round since = 0;

  // Up to this round.
  double missed_by(Round rounds) const {
    return missed + (rounds > since ? double(members - live) * double(rounds - since) : 0);
  }
  // From this round on so many are live.
  void change(Round rounds, std::uint64_t now_live) {
    missed = missed_by(rounds);
    since = std::max(since, rounds);
    live = now_live;
    ++changes;
  }
  // A mean has left out this share of the live ones.
  void leave_out(double share) {
    left_out += share;
    missed += share * double(live);
  }
  void state(Archive& ar) { ar(members, live, changes, left_out, missed, since); }
};

// Sums of the figures that strategies record (docs/sync/README.md): waiting time by cause,
// staleness, local steps:
//
//   wait_s, CAUSE_wait_s   seconds that a learner stood idle: for the exchange, or for CAUSE
//   staleness              of an update, in rounds or commits
//   steps                  local steps of an update
//   sent_share             of the values that a worker sends of a clock
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
  static constexpr std::uint64_t kMaxStaleness = 1000;  // larger values count as this

  std::map<std::string, double> waiting_s;           // by cause, all nodes together
  std::map<std::uint64_t, std::uint64_t> staleness;  // how many updates
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
  double limited_share = 0;     // of packets: late by more than 1 ms, or refused
  double worst_late_ms = 0;
  double busy_share = 0;  // of one core
  double mbps = 0;        // total rate carried, on average
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
  participation,  // too few took part: [run] on_low_participation
  invalid         // the model cannot compute with these data
};
std::string_view to_string(StopReason);

// Step counts of a run over sockets with [net] pace.
struct PaceFigures {
  static constexpr double kTolerated = 0.01;
  std::uint64_t steps = 0,
                overruns = 0;  // of all nodes; overruns took longer than in the simulator
  double share() const { return steps == 0 ? 0 : double(overruns) / double(steps); }
  // Too many overruns to compare the run with the simulator.
  bool is_void() const { return share() > kTolerated; }
};

// What a site's model is worth on test samples of its own.
struct SiteScore {
  std::string site;
  double loss = 0, accuracy = 0;
  std::uint64_t samples = 0;
  LONGHAUL_FIELDS(site, loss, accuracy, samples)
};
// Of all sites that have any, in the order of the job.
std::vector<SiteScore> site_scores(const Members&, const std::map<Rank, Evaluation>& by_rank);

struct Summary {
  // The job.
  std::string name, model, data, sync, overlay, transfer, codec, outer;
  std::uint64_t seed = 0;
  std::uint64_t sites = 0, nodes = 0;
  std::optional<double> target_accuracy, target_bits_per_byte;
  std::string job_hash;
  // The result.
  std::uint64_t rounds = 0;
  double time_s = 0;
  std::optional<double> final_accuracy, final_loss;  // absent: nothing to score (phantom)
  std::optional<double> time_to_target_s;
  std::uint64_t wan_bytes = 0, wan_messages = 0;
  double compute_utilisation = 0;           // mean over sites of computing time / time
  RunStatistics statistics;                 // what strategies recorded
  std::vector<SiteScore> site_scores = {};  // parts of the final score, if each site has its own
  std::optional<BestScore> best = {};       // of the models that were scored
  bool model_is_best = false;               // model.pt is the best model, not the last
  Participation participation = {};
  SampleCounts samples = {};
  std::vector<std::string> warnings = {};  // what the user should look at, of this run
  std::string params_hash;                 // XXH64 of rank 0's parameters, hex; "" for phantoms
  StopReason stop_reason = StopReason::max_rounds;
  std::string failure;              // why, if failed or diverged
  double real_s = 0;                // real time of all sessions; the only real time here
  std::optional<LabFigures> lab;    // over an emulated WAN
  std::optional<PaceFigures> pace;  // with [net] pace

  // What summary.json has of every run, under these names.
  LONGHAUL_FIELDS(name, model, data, sync, overlay, transfer, codec, outer, seed, sites, nodes,
                  rounds, time_s, final_accuracy, final_loss, target_accuracy, time_to_target_s,
                  wan_bytes, wan_messages, compute_utilisation, params_hash, stop_reason, job_hash,
                  real_s)

  bool has_target() const { return target_accuracy || target_bits_per_byte; }
  // Workers counted in a round's mean / workers of the job, averaged over the rounds.
  double participation_share() const;
  // The same / live workers.
  double participation_of_live() const;
  // Of data of kind text: the final loss in bits.
  std::optional<double> bits_per_byte() const;
};

// Of nats.
double to_bits(double nats);

// Of a run that an Error has ended.
StopReason stop_reason(const Error&);
// The stop reason of a run that was not interrupted and did not fail.
StopReason stop_reason(const Job&, bool reached_target, Round rounds, Time time);
// A run that came to its end by itself because it diverged has that as its stop reason.
void note_divergence(const Strategy&, Summary&);
// XXH64 of the parameters, hex; "" for none.
std::string params_hash(std::span<const float>);
std::uint64_t digest(std::span<const float>);  // the same, as a number
// The same where the model's loss at the end is not finite.
void note_divergence(const Evaluation& at_end, Summary&);
// The fields that follow from the job.
Summary summary_of(const Job&);
nlohmann::ordered_json to_json(const Summary&);
// The same as summary.json holds it; bytes that are no UTF-8, of names in files or of peers, are
// replaced.
std::string summary_text(const Summary&);
// By json_of(); nullopt if it is none.
std::optional<LabFigures> lab_figures(const nlohmann::json&);
// The other way round; an Error if the text is no summary.
Result<Summary> parse_summary(const std::string& text);
// That of a run folder; nullopt if it has none.
Result<std::optional<Summary>> read_summary(const std::string& folder);
// The same, of a run that has nothing left to do; nullopt if it can be resumed.
Result<std::optional<Summary>> finished_summary(const std::string& folder);
// The same, if the job is still the folder's: one whose [stop] has changed may have something left.
Result<std::optional<Summary>> nothing_left(const std::string& folder, const Job&);
// The exit code of the command line: 0 the run ended as its job says, 1 diverged, or below its
// target although `requires_target`; 3 failed, 130 Ctrl-C.
int exit_code(const Summary&, bool requires_target = false);
std::string hex64(std::uint64_t);

}  // namespace longhaul::run
