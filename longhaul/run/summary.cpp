#include "longhaul/run/summary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>
#include <xxhash.h>
#include <nlohmann/json.hpp>

#include "longhaul/run/atomic_file.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/json.h"
#include "longhaul/run/run_folder.h"

namespace longhaul::run {
std::string_view to_string(StopReason reason) {
  constexpr std::string_view names[] = {"target",     "max_rounds",    "max_hours",
                                        "max_epochs", "interrupted",   "diverged",
                                        "failed",     "participation", "invalid"};
  return names[std::size_t(reason)];
}

nlohmann::ordered_json or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

std::string hex64(std::uint64_t value) { return fmt::format("{:016x}", value); }

StopReason stop_reason(const Error& error) {
  return error.kind == Error::Kind::not_finite         ? StopReason::diverged
         : error.kind == Error::Kind::invalid_argument ? StopReason::invalid
                                                       : StopReason::failed;
}

StopReason stop_reason(const Job& job, bool reached_target, Round rounds, Time time) {
  if (reached_target) return StopReason::target;
  if (rounds >= job.stop.max_rounds) return StopReason::max_rounds;
  const bool late = job.stop.max_hours && seconds(time) / 3600 >= *job.stop.max_hours;
  return late ? StopReason::max_hours : StopReason::max_epochs;
}

void note_divergence(const Strategy& strategy, Summary& summary) {
  const std::string how = strategy.diverged();
  if (how.empty()) return;
  summary.stop_reason = StopReason::diverged;
  summary.failure = how;
}

void note_divergence(const Evaluation& at_end, Summary& summary) {
  if (std::isfinite(at_end.loss) || summary.stop_reason == StopReason::diverged) return;
  summary.stop_reason = StopReason::diverged;
  summary.failure =
      "the loss of the model that the run ended with is not finite; lower [optimizer] "
      "rate, or look at the data";
}

std::string params_hash(std::span<const float> params) {
  return params.empty() ? "" : hex64(digest(params));
}

std::uint64_t digest(std::span<const float> params) {
  return XXH64(params.data(), params.size_bytes(), 0);
}

double to_bits(double nats) { return nats / std::numbers::ln2; }

std::optional<double> Summary::bits_per_byte() const {
  if (data != "text" || !final_loss) return std::nullopt;
  return to_bits(*final_loss);
}

Summary summary_of(const Job& job) {
  Summary summary;
  summary.name = job.job.name;
  summary.model = job.kind("model");
  summary.data = job.kind("data");
  summary.sync = job.sync.entry->name;
  summary.overlay = job.overlay.entry->name;
  summary.transfer = job.transfer.entry->name;
  summary.codec = job.codec.entry->name;
  summary.outer = job.outer.entry->name;
  summary.seed = job.job.seed;
  summary.sites = job.sites.size();
  summary.nodes = job.members().size();
  summary.target_accuracy = job.stop.target_accuracy;
  summary.target_bits_per_byte = job.stop.target_bits_per_byte;
  summary.job_hash = hex64(job_hash(job));
  return summary;
}

std::vector<SiteScore> site_scores(const Members& members,
                                   const std::map<Rank, Evaluation>& by_rank) {
  std::vector<SiteScore> scores;
  for (const auto& [rank, one] : by_rank)
    if (one.samples > 0)
      scores.push_back({members.at(rank).site, one.loss, one.accuracy, one.samples});
  return scores;
}

static void write_scores(const Summary& s, nlohmann::ordered_json& json) {
  if (s.best) {
    json["best_accuracy"] = s.best->accuracy;
    json["best_loss"] = s.best->loss;
    json["best_round"] = s.best->round;
  }
  for (const SiteScore& one : s.site_scores)
    json["site_scores"].push_back({{"site", one.site},
                                   {"loss", one.loss},
                                   {"accuracy", one.accuracy},
                                   {"samples", one.samples}});
  if (s.data != "text") return;
  json["bits_per_byte"] = or_null(s.bits_per_byte());
  json["target_bits_per_byte"] = or_null(s.target_bits_per_byte);
}

nlohmann::ordered_json to_json(const Summary& s) {
  nlohmann::ordered_json json = {
      {"name", s.name},
      {"model", s.model},
      {"data", s.data},
      {"sync", s.sync},
      {"overlay", s.overlay},
      {"transfer", s.transfer},
      {"codec", s.codec},
      {"outer", s.outer},
      {"seed", s.seed},
      {"sites", s.sites},
      {"nodes", s.nodes},
      {"rounds", s.rounds},
      {"time_s", s.time_s},
      {"final_accuracy", or_null(s.final_accuracy)},
      {"final_loss", or_null(s.final_loss)},
      {"target_accuracy", or_null(s.target_accuracy)},
      {"time_to_target_s", or_null(s.time_to_target_s)},
      {"wan_bytes", s.wan_bytes},
      {"wan_messages", s.wan_messages},
      {"compute_utilisation", s.compute_utilisation},
      {"params_hash", s.params_hash},
      {"stop_reason", to_string(s.stop_reason)},
      {"job_hash", s.job_hash},
      {"real_s", s.real_s},
      {"model_is", s.model_is_best ? "best" : "last"},
      {"members", s.participation.members},
      {"live", s.participation.live},
      {"participation", s.participation_share()},
      {"participation_of_live", s.participation_of_live()},
  };
  const SampleCounts& samples = s.samples;
  json["samples"] = {{"computed", samples.computed}, {"used", nullptr}};
  if (samples.used)
    json["samples"] = {{"computed", samples.computed},
                       {"used", *samples.used},
                       {"lost", samples.lost},
                       {"unused", samples.unused()}};
  if (s.participation.changes > 0) json["view_changes"] = s.participation.changes;
  write_scores(s, json);
  if (!s.warnings.empty()) json["warnings"] = s.warnings;
  write(s.statistics, json);
  if (!s.failure.empty()) json["failure"] = s.failure;
  if (s.pace) {
    json["paced_steps"] = s.pace->steps;
    json["overruns"] = s.pace->overruns;
    json["overrun_share"] = s.pace->share();
    json["void_for_comparison"] = s.pace->is_void();
  }
  if (s.lab) json["lab"] = to_json(*s.lab);
  return json;
}

std::string summary_text(const Summary& summary) {
  return to_json(summary).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

nlohmann::ordered_json to_json(const LabFigures& figures) {
  nlohmann::ordered_json json;
  LabFigures::fields(figures, [&](const Field& field, const auto& value) {
    json[std::string(field.name)] = value;
  });
  return json;
}

std::optional<LabFigures> lab_figures(const nlohmann::json& json) {
  LabFigures figures;
  bool good = json.is_object();
  LabFigures::fields(figures, [&](const Field& field, auto& value) {
    using Value = std::decay_t<decltype(value)>;
    const auto at = good ? json.find(field.name) : json.end();
    good = good && at != json.end() &&
           (std::is_same_v<Value, bool> ? at->is_boolean() : at->is_number());
    if (good) value = at->template get<Value>();
  });
  return good ? std::optional(figures) : std::nullopt;
}

namespace {

// Keys that summaries of earlier releases lack.
void read_added(const nlohmann::json& json, Summary& s) {
  s.model_is_best = json.value("model_is", "last") == "best";
  s.participation.members = json.value("members", std::uint64_t{0});
  s.participation.live = json.value("live", std::uint64_t{0});
  s.participation.changes = json.value("view_changes", std::uint64_t{0});
  if (json.contains("samples")) {
    const auto& samples = json.at("samples");
    s.samples.computed = samples.at("computed").get<std::uint64_t>();
    if (!samples.at("used").is_null()) s.samples.used = samples.at("used").get<std::uint64_t>();
    s.samples.lost = samples.value("lost", std::uint64_t{0});
  }
  s.warnings = json.value("warnings", std::vector<std::string>());
  for (const auto& one : json.value("site_scores", nlohmann::json::array()))
    s.site_scores.push_back({one.at("site").get<std::string>(), one.at("loss").get<double>(),
                             one.at("accuracy").get<double>(),
                             one.at("samples").get<std::uint64_t>()});
  const double share = json.value("participation", 1.0);
  s.participation.missed = (1 - share) * double(s.participation.members) * double(s.rounds);
  s.participation.since = s.rounds;
  s.participation.left_out = (1 - json.value("participation_of_live", share)) * double(s.rounds);
  if (!json.contains("best_round")) return;
  s.best = BestScore{json.at("best_round").get<std::uint64_t>(), json.at("best_loss").get<double>(),
                     json.at("best_accuracy").get<double>()};
}

}  // namespace

double Summary::participation_share() const {
  const double all = double(participation.members) * double(rounds);
  return all == 0 ? 1 : 1 - std::min(1.0, participation.missed_by(rounds) / all);
}

double Summary::participation_of_live() const {
  return rounds == 0 ? 1 : 1 - std::min(1.0, participation.left_out / double(rounds));
}

Result<Summary> parse_summary(const std::string& text) {
  Summary s;
  try {
    const auto json = parse_json(text);
    auto optional = [&](const char* key) {
      const auto& value = json.at(key);
      return value.is_null() ? std::nullopt : std::optional(value.get<double>());
    };
    for (auto [key, into] : {std::pair{"name", &s.name},
                             {"model", &s.model},
                             {"data", &s.data},
                             {"sync", &s.sync},
                             {"overlay", &s.overlay},
                             {"transfer", &s.transfer},
                             {"codec", &s.codec},
                             {"outer", &s.outer},
                             {"params_hash", &s.params_hash},
                             {"job_hash", &s.job_hash}})
      *into = json.at(key).get<std::string>();
    for (auto [key, into] : {std::pair{"seed", &s.seed},
                             {"sites", &s.sites},
                             {"nodes", &s.nodes},
                             {"rounds", &s.rounds},
                             {"wan_bytes", &s.wan_bytes},
                             {"wan_messages", &s.wan_messages}})
      *into = json.at(key).get<std::uint64_t>();
    s.time_s = json.at("time_s").get<double>();
    s.compute_utilisation = json.at("compute_utilisation").get<double>();
    s.statistics = read_statistics(json);
    s.real_s = json.at("real_s").get<double>();
    s.final_accuracy = optional("final_accuracy");
    s.final_loss = optional("final_loss");
    s.target_accuracy = optional("target_accuracy");
    if (s.data == "text") s.target_bits_per_byte = optional("target_bits_per_byte");
    s.time_to_target_s = optional("time_to_target_s");
    s.failure = json.value("failure", "");
    read_added(json, s);
    if (json.contains("paced_steps"))
      s.pace = {json.at("paced_steps").get<std::uint64_t>(),
                json.at("overruns").get<std::uint64_t>()};
    if (json.contains("lab")) s.lab = lab_figures(json["lab"]);
    const std::string reason = json.at("stop_reason").get<std::string>();
    for (int i = 0; i <= int(StopReason::invalid); ++i)
      if (to_string(StopReason(i)) == reason) s.stop_reason = StopReason(i);
  } catch (const nlohmann::json::exception&) {
    return malformed("summary.json is damaged; start again with --force");
  }
  return s;
}

Result<std::optional<Summary>> read_summary(const std::string& folder) {
  const auto bytes = read_file(folder + "/summary.json");
  if (!bytes) return std::optional<Summary>{};
  auto summary = parse_summary({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
  if (!summary) return malformed(folder + "/" + summary.error().what);
  return std::optional(*std::move(summary));
}

Result<std::optional<Summary>> finished_summary(const std::string& folder) {
  auto summary = read_summary(folder);
  if (!summary || !*summary) return summary;
  return (**summary).stop_reason < StopReason::interrupted ? *summary : std::nullopt;
}

Result<std::optional<Summary>> nothing_left(const std::string& folder, const Job& job) {
  auto over = finished_summary(folder);
  if (!over || !*over) return over;
  LH_LET(before, job_of_run(folder));
  return difference(before, job) ? std::nullopt : *over;
}

int exit_code(const Summary& summary, bool requires_target) {
  switch (summary.stop_reason) {
    case StopReason::target:
      return 0;
    case StopReason::max_rounds:
    case StopReason::max_epochs:
    case StopReason::max_hours:
      return requires_target && !summary.time_to_target_s ? 1 : 0;
    case StopReason::diverged:
    case StopReason::participation:
      return 1;
    case StopReason::interrupted:
      return 130;
    case StopReason::invalid:
      return 2;
    case StopReason::failed:
      return 3;
  }
  return 4;
}

}  // namespace longhaul::run
