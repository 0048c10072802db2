#include "longhaul/cli/report_runs.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "longhaul/report/page.h"
#include "longhaul/run/experiment.h"
#include "longhaul/run/plan.h"
#include "longhaul/run/plan_svg.h"

namespace longhaul::cli {
namespace {

namespace fs = std::filesystem;

void find_runs(const fs::path& folder, int depth, std::vector<std::string>& found) {
  std::error_code code;
  if (fs::exists(folder / "job.toml", code)) {
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

// As much of the end of the path as `parts` names.
std::string end_of(const std::string& folder, std::size_t parts) {
  std::string text;
  fs::path path(folder);
  for (; parts > 0 && path.has_filename(); --parts, path = path.parent_path())
    text = path.filename().string() + (text.empty() ? "" : "/" + text);
  return text;
}

}  // namespace

Result<std::vector<std::string>> run_folders(const std::vector<std::string>& given) {
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
  return all;
}

nlohmann::ordered_json PlanAdder::add(nlohmann::ordered_json run) {
  auto job = run::job_of_run(run["folder"].get<std::string>());
  if (!job || job->focus) return run;
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

void name_apart(std::vector<nlohmann::ordered_json>& runs,
                const std::vector<std::string>& folders) {
  for (std::size_t parts = 1; parts < 5; ++parts) {
    std::set<std::string> labels;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      runs[i]["label"] = end_of(folders[i], parts);
      labels.insert(runs[i]["label"]);
    }
    if (labels.size() == runs.size()) return;
  }
}

}  // namespace longhaul::cli
