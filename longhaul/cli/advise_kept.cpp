#include "longhaul/cli/advise_kept.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <xxhash.h>
#include <nlohmann/json.hpp>

#include "longhaul/cli/advise_candidates.h"
#include "longhaul/cli/cli.h"
#include "longhaul/report/run_reader.h"
#include "longhaul/run/job/json.h"

namespace longhaul::cli {
namespace {

std::string key_of(const std::string& label, const std::string& job_text) {
  return fmt::format("{} {:016x}", label, XXH64(job_text.data(), job_text.size(), 0));
}

nlohmann::ordered_json line_of(const std::string& key, const Trial& trial) {
  return {{"key", key},
          {"ran", trial.ran},
          {"why", trial.why},
          {"to_target_s", run::json_of(trial.to_target)},
          {"score", trial.score},
          {"scored", trial.scored},
          {"limit_s", trial.limit_s},
          {"start_s", trial.start_s},
          {"summary", to_json(trial.summary)}};
}

std::optional<Trial> trial_of(const nlohmann::json& json) {
  auto summary = run::parse_summary(json.at("summary").dump());
  if (!summary) return std::nullopt;
  Trial trial{.candidate = {}, .ran = json.at("ran").get<bool>(), .to_target = {}};
  trial.why = json.at("why").get<std::string>();
  if (json.at("to_target_s").is_number()) trial.to_target = json["to_target_s"].get<double>();
  trial.score = json.at("score").get<double>();
  trial.scored = json.at("scored").get<bool>();
  trial.limit_s = json.at("limit_s").get<double>();
  trial.start_s = json.at("start_s").get<double>();
  trial.summary = *std::move(summary);
  return trial;
}

// Returns why a run failed; "" if it was interrupted. `failure`: that of its summary.
std::string failure_of(const run::PoolEnd& end, const std::string& failure) {
  if (end.exit.code == kInterrupted || end.exit.signal == SIGINT) return "";
  if (!end.message.empty()) return end.message;
  return failure.empty() ? run::to_string(end.exit) : without_command(failure);
}

// Sets the trial's score to the newest score within the limit, or to the final model's score if
// that is better. The final model can be in the middle of local steps. A first score after the
// limit counts as less.
void note_score(const std::string& folder, Trial& trial) {
  const run::Summary& summary = trial.summary;
  // Before its first exchange its score says nothing of the combination.
  if (summary.rounds == 0 && !trial.to_target) return;
  const bool bits = summary.target_bits_per_byte.has_value();
  report::RunReader reader(folder);
  if (reader.refresh())
    for (const report::ScorePoint& point : reader.scores()) {
      if (!point.score) continue;
      const double value = bits ? -*point.score : *point.score;
      const double late = std::max(1.0, point.time_s / trial.limit_s);
      if (!trial.scored || late <= 1) trial.score = bits ? value * late : value / late;
      trial.scored = true;
      if (late > 1) break;
    }
  const auto at_end = bits ? summary.bits_per_byte() : summary.final_accuracy;
  if (!at_end) return;
  const double late = std::max(1.0, summary.time_s / trial.limit_s);
  const double value = bits ? -*at_end * late : *at_end / late;
  trial.score = trial.scored ? std::max(trial.score, value) : value;
  trial.scored = true;
}

}  // namespace

Trial result_of(const run::PoolRun& run, const run::PoolEnd& end, double limit_s,
                const Candidate& candidate) {
  Trial trial{.candidate = candidate, .to_target = {}};
  const auto summary = run::read_summary(run.folder);
  const bool has_summary = summary && *summary;
  if (!end.exit.done()) trial.why = failure_of(end, has_summary ? (**summary).failure : "");
  if (end.started && end.exit.done() && !has_summary)
    trial.why = "its process ended without a result, with " + run::to_string(end.exit);
  if (!end.started || !end.exit.done() || !has_summary) return trial;
  trial.ran = (**summary).stop_reason != run::StopReason::diverged;
  if (!trial.ran) trial.why = (**summary).failure;
  trial.summary = **summary;
  trial.to_target = trial.summary.time_to_target_s;
  if (trial.to_target > limit_s) trial.to_target.reset();
  trial.limit_s = limit_s;
  note_score(run.folder, trial);
  return trial;
}

void KeptTrials::open(const std::string& folder, bool resume) {
  file_ = folder + "/trials.jsonl";
  std::error_code code;
  if (!resume) std::filesystem::remove(file_, code);
  std::ifstream in(file_);
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    try {
      if (auto trial = trial_of(json)) trials_[json.at("key").get<std::string>()] = *trial;
    } catch (const nlohmann::json::exception&) {
      continue;
    }
  }
}

std::optional<Trial> KeptTrials::find(const std::string& label, const std::string& job_text) const {
  const auto found = trials_.find(key_of(label, job_text));
  return found == trials_.end() ? std::nullopt : std::optional(found->second);
}

void KeptTrials::add(const std::string& label, const std::string& job_text, const Trial& trial) {
  const std::string key = key_of(label, job_text);
  std::ofstream out(file_, std::ios::app);
  out << line_of(key, trial).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

}  // namespace longhaul::cli
