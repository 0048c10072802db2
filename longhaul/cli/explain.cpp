#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/cli/wan_text.h"
#include "longhaul/run/experiment.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/parts.h"
#include "longhaul/run/job/reference.h"
#include "longhaul/run/job/wan.h"

namespace longhaul::cli {
namespace {

void print_part(const run::PartInfo& part) {
  fmt::print("[{}] kind = \"{}\"\n  {}\n", part.table, part.name, part.summary);
  for (const auto& [name, value] : part.facts) fmt::print("  {}: {}\n", name, value);
  if (!part.presets.empty()) {
    fmt::print("\nPresets (a job file's own keys win):\n");
    for (const Preset& preset : part.presets)
      fmt::print("  [{}] {} = {}\n", preset.table, preset.key, to_text(preset.value));
  }
  fmt::print("\n{}", part.keys.empty() ? "No settings.\n" : run::key_list(part.keys));
}

void print_preset(const run::WanPreset& preset) {
  fmt::print("[wan] preset = \"{}\"\n  {} ({})\n", preset.name, preset.summary, preset.standing);
  for (const std::string& source : preset.sources) fmt::print("  source: {}\n", source);
  for (const std::string& caveat : preset.caveats) fmt::print("  caveat: {}\n", caveat);
  if (preset.redraw)
    fmt::print("  every pair's rate is redrawn every {:g} s, from {:g} to {:g} Mbit/s\n",
               preset.redraw->every_s, preset.redraw->lowest_mbps, preset.redraw->highest_mbps);
  fmt::print("\n{}", wan_text(run::preset_network(preset)));
}

void print_settings(const run::Job& job) {
  for (const run::ResolvedTable& table : run::resolved(job)) {
    if (table.keys.empty()) continue;
    fmt::print("\n{}\n", table.header);
    for (const run::ResolvedKey& key : table.keys) {
      const std::string setting = fmt::format("{} = {}", key.key, key.value);
      fmt::print("  {:<36} # {}\n", setting, key.source);
    }
  }
  if (job.presets.empty()) return;
  fmt::print("\nPresets of {}\n", job.sync.entry->name);
  for (const run::AppliedPreset& preset : job.presets)
    fmt::print("  [{}] {} = {}{}\n", preset.table, preset.key, to_text(preset.value),
               preset.overruled ? "  (not used: the job says otherwise)" : "");
}

void print_members(const run::Job& job) {
  std::vector<std::vector<std::string>> rows;
  const Members members = job.members();
  for (Rank rank = 0; rank < members.size(); ++rank) {
    std::string roles;
    for (auto [role, name] :
         {std::pair{Role::worker, "worker"}, std::pair{Role::server, "server"},
          std::pair{Role::scheduler, "scheduler"}, std::pair{Role::state_server, "state_server"}})
      if (members[rank].is(role)) roles += (roles.empty() ? "" : ", ") + std::string(name);
    rows.push_back({fmt::format("{}", rank), members[rank].site,
                    fmt::format("{}", members[rank].rank_in_site), roles});
  }
  fmt::print("\nRoles\n{}", text_table({"rank", "site", "node", "roles"}, rows));
}

int print_partition(const run::Job& job) {
  auto table = run::partition_table(job);
  if (!table) return tell(table.error());
  if (table->workers.empty()) return kDone;
  std::vector<std::string> head = {"site"};
  const std::size_t labels = table->counts.front().size();
  for (std::size_t label = 0; label < labels; ++label)
    head.push_back(labels > 1 ? fmt::format("{}", label) : "samples");
  if (labels > 1) head.push_back("all");
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < table->workers.size(); ++i) {
    std::vector<std::string> row = {table->workers[i]};
    std::uint64_t sum = 0;
    for (std::uint64_t count : table->counts[i]) {
      row.push_back(fmt::format("{}", count));
      sum += count;
    }
    if (labels > 1) row.push_back(fmt::format("{}", sum));
    rows.push_back(std::move(row));
  }
  fmt::print("\nSamples per label and site\n{}", text_table(head, rows));
  return kDone;
}

int explain_job(const std::string& path, const run::Overrides& overrides) {
  auto job = run::load_job(path, overrides);
  if (!job) return tell(job.error());
  fmt::print("{}: {} rounds of {} samples at most, scored every {} rounds\n", job->job.name,
             job->stop.max_rounds, run::samples_per_round(*job), run::report_every(*job));
  print_settings(*job);
  fmt::print("\nNetwork\n{}", wan_text(job->network));
  print_members(*job);
  return print_partition(*job);
}

int explain(const std::string& name, const run::Overrides& overrides) {
  if (name == "job-file") {
    fmt::print("{}", run::job_file_reference());
    return kDone;
  }
  const auto parts = run::all_parts();
  bool found = false;
  std::vector<std::string_view> names = {"job-file"};
  for (const run::PartInfo& part : parts) {
    names.push_back(part.name);
    if (part.name != name) continue;
    if (found) fmt::print("\n");
    print_part(part);
    found = true;
  }
  for (const run::WanPreset& preset : run::wan_presets()) {
    names.push_back(preset.name);
    if (preset.name != name) continue;
    if (found) fmt::print("\n");
    print_preset(preset);
    found = true;
  }
  if (found) return kDone;
  if (name.ends_with(".toml") || name.find('/') != std::string::npos ||
      std::filesystem::exists(name))
    return explain_job(name, overrides);
  return tell(invalid(fmt::format("{}: neither a job file, a part nor a network{}", name,
                                  suggestion(name, names))));
}

}  // namespace

void add_explain(CLI::App& app, int& code) {
  struct Args {
    std::string name;
    run::Overrides overrides;
  };
  auto args = std::make_shared<Args>();
  CLI::App* sub =
      app.add_subcommand("explain", "a part or a network, or a job with everything it resolves to");
  sub->add_option("NAME", args->name, "a part, a network, a job file, or job-file for all keys")
      ->required();
  add_set_option(*sub, args->overrides.sets);
  add_wan_option(*sub, args->overrides.wan);
  sub->footer(
      "Example:\n  longhaul explain diloco\n  longhaul explain examples/mnist-4-sites.toml");
  sub->callback([args, &code] { code = explain(args->name, args->overrides); });
}

}  // namespace longhaul::cli
