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
#include "longhaul/run/nodes.h"
#include "longhaul/run/run_folder.h"

namespace longhaul::run {
std::string_view to_string(StopReason reason) {
  constexpr std::string_view names[] = {"target",     "max_rounds",    "max_hours",
                                        "max_epochs", "interrupted",   "diverged",
                                        "failed",     "participation", "invalid"};
  return names[std::size_t(reason)];
}

std::string hex64(std::uint64_t value) { return fmt::format("{:016x}", value); }

static void to_json(nlohmann::ordered_json& json, StopReason reason) { json = to_string(reason); }

// An unknown name leaves `into` unchanged.
static void from_json(const nlohmann::json& json, StopReason& into) {
  const auto& name = json.get_ref<const std::string&>();
  for (int i = 0; i <= int(StopReason::invalid); ++i)
    if (to_string(StopReason(i)) == name) into = StopReason(i);
}

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
    else
      scores.push_back({.site = members.at(rank).site});
  const bool any = std::ranges::any_of(scores, [](const auto& one) { return one.samples > 0; });
  return any ? scores : std::vector<SiteScore>();
}

void Summary::set_score(const Evaluation& evaluation) {
  if (evaluation.samples == 0) return;
  final_loss = evaluation.loss;
  final_accuracy = evaluation.accuracy;
}

static void write_scores(const Summary& s, nlohmann::ordered_json& json) {
  if (s.best) {
    json["best_accuracy"] = json_of(s.best->accuracy);
    json["best_loss"] = s.best->loss;
    json["best_round"] = s.best->round;
  }
  if (!s.site_scores.empty()) json["site_scores"] = json_of(s.site_scores);
  if (s.data != "text") return;
  json["bits_per_byte"] = json_of(s.bits_per_byte());
  json["target_bits_per_byte"] = json_of(s.target_bits_per_byte);
}

nlohmann::ordered_json to_json(const Summary& s) {
  nlohmann::ordered_json json = json_of(s);
  json.update({{"model_is", s.model_is_best ? "best" : "last"},
               {"members", s.participation.members},
               {"live", s.participation.live},
               {"participation", s.participation_share()},
               {"participation_of_live", s.participation_of_live()}});
  const SampleCounts& samples = s.samples;
  json["samples"] = {{"computed", samples.computed}, {"used", nullptr}};
  if (s.target_after_s) json["target_after_s"] = *s.target_after_s;
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
  if (s.lab) json["lab"] = json_of(*s.lab);
  return json;
}

std::string summary_text(const Summary& summary) {
  return to_json(summary).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::optional<LabFigures> lab_figures(const nlohmann::json& json) {
  try {
    LabFigures figures;
    read_json(json, figures);
    return figures;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

namespace {

constexpr std::string_view kCause = "_wait_s";

// Returns "exchange" for wait_s and "grant" for grant_wait_s; "" for other records.
std::string_view cause_of(std::string_view record) {
  if (record == "wait_s") return "exchange";
  return record.ends_with(kCause) ? record.substr(0, record.size() - kCause.size()) : "";
}

bool is_count(const nlohmann::json& value) { return value.is_number_unsigned(); }

// Reads keys that summaries of earlier releases lack.
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
  read_json(json.value("site_scores", nlohmann::json::array()), s.site_scores);
  const double share = json.value("participation", 1.0);
  s.participation.missed = (1 - share) * double(s.participation.members) * double(s.rounds);
  s.participation.since = s.rounds;
  s.participation.left_out = (1 - json.value("participation_of_live", share)) * double(s.rounds);
  if (!json.contains("best_round")) return;
  s.best =
      BestScore{json.at("best_round").get<std::uint64_t>(), json.at("best_loss").get<double>()};
  run::read_json(json.at("best_accuracy"), s.best->accuracy);
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
    read_json(json, s);
    s.statistics = read_statistics(json);
    if (json.contains("target_after_s")) read_json(json["target_after_s"], s.target_after_s);
    if (s.data == "text") read_json(json.at("target_bits_per_byte"), s.target_bits_per_byte);
    s.failure = json.value("failure", "");
    read_added(json, s);
    if (json.contains("paced_steps"))
      s.pace = {json.at("paced_steps").get<std::uint64_t>(),
                json.at("overruns").get<std::uint64_t>()};
    if (json.contains("lab")) s.lab = lab_figures(json["lab"]);
  } catch (const nlohmann::json::exception&) {
    return malformed("summary.json is damaged; start again with --force");
  }
  return s;
}

Result<std::optional<Summary>> read_summary(const std::string& folder) {
  const auto text = read_text(folder + "/summary.json");
  if (!text) return std::optional<Summary>{};
  auto summary = parse_summary(*text);
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

void RunStatistics::add(const Member& node, const Record& record) {
  if (const std::string_view cause = cause_of(record.name); !cause.empty())
    waiting_s[std::string(cause)] += record.value;
  if (!(record.value >= 0)) return;
  if (record.name == "staleness")
    ++staleness[std::uint64_t(std::min(std::round(record.value), double(kMaxStaleness)))];
  if (record.name == "sent_share" || record.name == "group_size") {
    Mean& mean = means[record.name];
    ++mean.count;
    mean.sum += record.value;
  }
  if (record.name == "steps") {
    Steps& mine = steps[node_name(node)];
    ++mine.updates;
    mine.steps += std::uint64_t(std::llround(record.value));
  }
}

void RunStatistics::add(const RunStatistics& other) {
  for (const auto& [cause, time] : other.waiting_s) waiting_s[cause] += time;
  for (const auto& [rounds, updates] : other.staleness) staleness[rounds] += updates;
  for (const auto& [node, more] : other.steps) {
    steps[node].updates += more.updates;
    steps[node].steps += more.steps;
  }
  for (const auto& [name, more] : other.means) {
    means[name].count += more.count;
    means[name].sum += more.sum;
  }
}

void write(const RunStatistics& statistics, nlohmann::ordered_json& into) {
  if (!statistics.waiting_s.empty()) into["waiting_s"] = statistics.waiting_s;
  for (const auto& [rounds, updates] : statistics.staleness)
    into["staleness"][std::to_string(rounds)] = updates;
  for (const auto& [node, one] : statistics.steps)
    into["local_steps"][node] = {{"updates", one.updates}, {"steps", one.steps}};
  for (const auto& [name, mean] : statistics.means)
    into["means"][name] = {{"count", mean.count}, {"mean", mean.sum / double(mean.count)}};
}

RunStatistics read_statistics(const nlohmann::json& from) {
  RunStatistics statistics;
  const auto each = [&](const char* key, const auto& take) {
    if (!from.is_object() || !from.contains(key) || !from[key].is_object()) return;
    for (const auto& [name, value] : from[key].items()) take(name, value);
  };
  each("waiting_s", [&](const std::string& cause, const auto& value) {
    if (value.is_number()) statistics.waiting_s[cause] = value.template get<double>();
  });
  each("staleness", [&](const std::string& rounds, const auto& value) {
    const bool number =
        !rounds.empty() && rounds.size() < 5 &&
        std::all_of(rounds.begin(), rounds.end(), [](unsigned char c) { return std::isdigit(c); });
    if (number && is_count(value))
      statistics.staleness[std::stoull(rounds)] = value.template get<std::uint64_t>();
  });
  each("local_steps", [&](const std::string& node, const auto& value) {
    if (!value.is_object() || !value.contains("updates") || !value.contains("steps")) return;
    if (!is_count(value["updates"]) || !is_count(value["steps"])) return;
    statistics.steps[node] = {value["updates"].template get<std::uint64_t>(),
                              value["steps"].template get<std::uint64_t>()};
  });
  each("means", [&](const std::string& name, const auto& value) {
    if (!value.is_object() || !value.contains("count") || !value.contains("mean")) return;
    if (!is_count(value["count"]) || !value["mean"].is_number()) return;
    const auto count = value["count"].template get<std::uint64_t>();
    if (count > 0)
      statistics.means[name] = {count, value["mean"].template get<double>() * double(count)};
  });
  return statistics;
}

}  // namespace longhaul::run
