#include "longhaul/cli/report_runs.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "longhaul/report/page.h"
#include "longhaul/run/experiment.h"
#include "longhaul/run/folder_lock.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/plan.h"
#include "longhaul/run/plan_svg.h"
#include "longhaul/run/status_file.h"

namespace longhaul::cli {
namespace {

namespace fs = std::filesystem;

// Returns false for a folder with the user's own job.toml.
bool is_run(const fs::path& folder) {
  const auto has = [&](const char* name) {
    std::error_code code;
    return fs::exists(folder / name, code);
  };
  return has("job.toml") && (has(run::FolderLock::kFile) || has("summary.json") ||
                             has("metrics.jsonl") || has("status.json"));
}

void find_runs(const fs::path& folder, int depth, std::vector<std::string>& found) {
  std::error_code code;
  if (is_run(folder)) {
    found.push_back(folder.string());
    return;
  }
  if (depth == 0) return;
  std::vector<fs::path> inside;
  for (const auto& entry : fs::directory_iterator(folder, code))
    if (entry.is_directory(code)) inside.push_back(entry.path());
  std::sort(inside.begin(), inside.end());
  for (const fs::path& one : inside) find_runs(one, depth - 1, found);
}

// A folder that `longhaul site` wrote.
struct SiteFolder {
  std::string folder, parent, site;
  std::uint64_t job = 0;  // its hash
  Rank rank = 0;
};

std::optional<SiteFolder> site_folder(const std::string& folder) {
  const auto statuses = run::read_statuses(folder);
  const std::string site = report::site_of_folder(folder);
  if (site.empty() || site == report::kAllSites || !statuses || statuses->size() != 1)
    return std::nullopt;
  const auto job = run::job_of_run(folder);
  if (!job) return std::nullopt;
  const fs::path parent = fs::path(folder).parent_path();
  return SiteFolder{folder, parent.empty() ? "." : parent.string(), site, run::job_hash(*job),
                    statuses->front().rank};
}

// Joins the folders of a run's sites to that run, at the place of the first folder. A rank that
// occurs twice belongs to another run.
std::vector<RunFolder> joined(const std::vector<std::string>& folders) {
  std::vector<std::optional<SiteFolder>> sites;
  for (const std::string& folder : folders) sites.push_back(site_folder(folder));
  std::vector<RunFolder> runs;
  std::vector<bool> taken(folders.size());
  for (std::size_t i = 0; i < folders.size(); ++i) {
    if (taken[i]) continue;
    std::map<Rank, std::string> nodes;
    for (std::size_t k = i; sites[i] && k < folders.size(); ++k)
      if (!taken[k] && sites[k] && sites[k]->parent == sites[i]->parent &&
          sites[k]->job == sites[i]->job)
        taken[k] = nodes.emplace(sites[k]->rank, folders[k]).second;
    std::error_code code;
    RunFolder one{folders[i]};
    if (nodes.size() > 1) {
      one.folder = sites[i]->parent;
      const bool of_launch = fs::exists(one.folder + "/job.toml", code);
      for (const auto& [rank, folder] : nodes)
        if (!of_launch) one.nodes.push_back(folder);
    }
    const bool known = std::any_of(runs.begin(), runs.end(), [&](const RunFolder& run) {
      return nodes.size() > 1 && run.nodes.empty() && run.folder == one.folder;
    });
    if (!known) runs.push_back(std::move(one));
  }
  return runs;
}

// Returns the last `parts` names of the path.
std::string end_of(const std::string& folder, std::size_t parts) {
  std::string text;
  fs::path path(folder);
  for (; parts > 0 && path.has_filename(); --parts, path = path.parent_path())
    text = path.filename().string() + (text.empty() ? "" : "/" + text);
  return text;
}

// Returns the sent bytes in an activity.json, which may be damaged.
std::vector<run::SentBytes> sent_bytes(const nlohmann::ordered_json& activity) {
  std::vector<run::SentBytes> sent;
  if (!activity.is_object() || !activity.contains("links") || !activity.contains("sites"))
    return sent;
  const auto& sites = activity["sites"];
  const auto name = [&](const nlohmann::ordered_json& index) -> std::string {
    if (!index.is_number_unsigned() || !sites.is_array() || index >= sites.size()) return "";
    const auto& site = sites[index.get<std::size_t>()];
    return site.is_object() ? site.value("name", "") : "";
  };
  for (const auto& link : activity["links"])
    if (link.is_array() && link.size() == 3 && link[2].is_number_integer() && link[2] > 0)
      sent.push_back({name(link[0]), name(link[1]), link[2].get<std::uint64_t>()});
  return sent;
}

}  // namespace

Result<std::vector<RunFolder>> run_folders(const std::vector<std::string>& given) {
  std::vector<std::string> all;
  for (std::string folder : given) {
    while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();  // names go by the end
    std::vector<std::string> found;
    find_runs(folder, 3, found);
    if (found.empty())
      return unavailable(fmt::format(
          "{}: neither the folder of a run (job.toml) nor one that holds such; longhaul simulate "
          "writes runs/NAME",
          folder));
    all.insert(all.end(), found.begin(), found.end());
  }
  return joined(all);
}

const run::Job* PlanAdder::job_of(const std::string& folder) {
  const auto [at, fresh] = jobs_.emplace(folder, std::nullopt);
  if (fresh)
    if (auto job = run::job_of_run(folder); job && !job->focus) at->second = *std::move(job);
  return at->second ? &*at->second : nullptr;
}

bool PlanAdder::add_sent(nlohmann::ordered_json& run, const std::string& job_folder) {
  if (!run.value("of_site", "").empty()) return false;
  const std::vector<run::SentBytes> sent = sent_bytes(run["activity"]);
  const run::Job* const job = sent.empty() ? nullptr : job_of(job_folder);
  if (!job) return false;
  const run::SitePlan plan = run::plan_of_sent(*job, sent);
  if (plan.pairs.empty()) return false;
  run["plan_svg"] = run::plan_svg(plan);
  run["busiest"] = plan.busiest;
  return true;
}

nlohmann::ordered_json PlanAdder::add(nlohmann::ordered_json run, const std::string& job_folder) {
  if (add_sent(run, job_folder)) return run;
  const run::Job* const job = job_of(job_folder);
  if (!job) return run;
  std::string model;
  if (run["settings"].is_object())
    for (const auto& [key, value] : run["settings"].items())
      if (key.starts_with("[model]") || key.starts_with("[data]")) model += value.dump();
  const auto [at, fresh] = parameters_.emplace(model, 0);
  if (fresh)
    if (auto table = run::partition_table(*job)) at->second = table->parameters;
  if (at->second == 0) return run;
  auto plan = run::plan_of(*job, double(at->second) * sizeof(float) / 1e6);
  if (!plan) return run;
  run["plan"] = run::to_json(*plan);
  if (plan->planned && !plan->at_end) run["plan_svg"] = run::plan_svg(*plan);
  return run;
}

void name_apart(std::vector<nlohmann::ordered_json>& runs, const std::vector<RunFolder>& folders) {
  for (std::size_t parts = 1; parts < 5; ++parts) {
    std::set<std::string> labels;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      runs[i]["label"] = end_of(folders[i].folder, parts);
      labels.insert(runs[i]["label"]);
    }
    if (labels.size() == runs.size()) return;
  }
}

}  // namespace longhaul::cli
