#include "longhaul/cli/advise_kept.h"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <xxhash.h>
#include <nlohmann/json.hpp>

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

}  // namespace

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
