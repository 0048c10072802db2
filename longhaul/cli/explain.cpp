#include <algorithm>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/plan_text.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/flow/wan.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/experiment.h"
#include "longhaul/run/explanation.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/parts.h"
#include "longhaul/run/job/reference.h"
#include "longhaul/run/job/wan.h"
#include "longhaul/run/plan_svg.h"

namespace longhaul::cli {
namespace {

using flow::Rate;
using flow::Wan;
constexpr std::size_t kMaxTableRows = 20;

std::string number(double value) {
  return value < 10 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}

std::string mbps(const Rate& rate) { return rate ? number(flow::in_mbps(*rate)) : "-"; }

std::string ms(double s) { return number(s * 1e3); }

std::string range(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return *low == *high ? number(*low) : fmt::format("{} to {}", number(*low), number(*high));
}

std::string sites_text(const Wan& wan) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < wan.sites.size();) {
    const Wan::Site& site = wan.sites[i];
    std::size_t same = i + 1;  // consecutive sites that are equal share a row
    while (same < wan.sites.size() && wan.sites[same].up == site.up &&
           wan.sites[same].down == site.down && wan.sites[same].nodes == site.nodes)
      ++same;
    const std::string name =
        same == i + 1 ? site.name : fmt::format("{} .. {}", site.name, wan.sites[same - 1].name);
    rows.push_back({name, mbps(site.up), mbps(site.down), fmt::format("{}", site.nodes)});
    i = same;
  }
  return text_table({"site", "up Mbit/s", "down Mbit/s", "nodes"}, rows);
}

template <class Cell>
std::string table(const Wan& wan, const std::string& title, Cell&& cell) {
  std::vector<std::string> head = {title};
  std::vector<std::vector<std::string>> rows;
  for (std::uint32_t from = 0; from < wan.sites.size(); ++from) {
    head.push_back(wan.sites[from].name);
    std::vector<std::string>& row = rows.emplace_back(1, wan.sites[from].name);
    for (std::uint32_t to = 0; to < wan.sites.size(); ++to)
      row.push_back(from == to ? "" : cell(from, to));
  }
  return text_table(head, rows);
}

std::string pair_text(const Wan::Pair& pair) {
  return fmt::format("{} Mbit/s, {} ms one way{}", pair.rate ? mbps(pair.rate) : "unlimited",
                     ms(pair.delay_s),
                     pair.flow ? fmt::format(", {} Mbit/s a connection", mbps(pair.flow)) : "");
}

std::string summary(const Wan& wan) {
  std::vector<double> delays, rates;
  for (const auto& [way, pair] : wan.pairs) {
    delays.push_back(pair.delay_s * 1e3);
    if (pair.rate) rates.push_back(flow::in_mbps(*pair.rate));
  }
  return fmt::format("{} pairs have {} Mbit/s, {} ms one way; the others {}\n", wan.pairs.size(),
                     rates.empty() ? "unlimited" : range(rates), range(delays),
                     pair_text(wan.usual));
}

// The sites' own links, then every pair's rate and one-way delay: as tables where pairs differ and
// a terminal has room for them, else in a line.
std::string wan_text(const Wan& wan) {
  std::string text = sites_text(wan);
  if (wan.sites.size() > 1) {
    if (wan.pairs.empty())
      text += fmt::format("\nEvery pair: {}\n", pair_text(wan.usual));
    else if (wan.sites.size() > kMaxTableRows)
      text += "\n" + summary(wan);
    else {
      auto pairs = [&](auto&& get) {
        return
            [&wan, get](std::uint32_t from, std::uint32_t to) { return get(wan.pair(from, to)); };
      };
      const bool flows = std::any_of(wan.pairs.begin(), wan.pairs.end(),
                                     [](const auto& entry) { return bool(entry.second.flow); });
      text += "\n" + table(wan, "Mbit/s", pairs([](const Wan::Pair& p) { return mbps(p.rate); }));
      if (flows)
        text += "\n" + table(wan, "Mbit/s a connection",
                             pairs([](const Wan::Pair& p) { return mbps(p.flow); }));
      text +=
          "\n" + table(wan, "ms one way", pairs([](const Wan::Pair& p) { return ms(p.delay_s); }));
    }
  }
  for (const auto& [pair, link] : wan.pairs)
    if (link.relay)
      text += fmt::format("\n{} to {}: through {}, as neither can be dialled\n",
                          wan.sites[pair.first].name, wan.sites[pair.second].name,
                          wan.sites[*link.relay].name);
  for (const Wan::Shared& shared : wan.shared)
    text += fmt::format("\n{}: {} Mbit/s for {} pairs together\n", shared.name,
                        number(flow::in_mbps(shared.rate)), shared.pairs.size());
  return text;
}

struct ExplainArgs : JobOptions {  // its job: the NAME
  std::string svg;
  std::optional<double> mbytes;
  bool json = false, all = false;

  bool plan() const { return mbytes || json || !svg.empty(); }  // is asked for
};

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

// The settings that differ from their defaults, a line for each table.
void print_chosen(const run::Job& job) {
  std::size_t defaults = 0;
  fmt::print("\n");
  for (const run::ResolvedTable& table : run::resolved(job)) {
    std::string line;
    for (const run::ResolvedKey& key : table.keys) {
      const bool is_default = key.source == "default" && key.key != "kind";
      defaults += is_default;
      constexpr std::size_t kLongest = 60;
      const std::string value =
          key.value.size() <= kLongest ? key.value : key.value.substr(0, kLongest) + "...";
      if (!is_default) line += fmt::format("{}{} = {}", line.empty() ? "" : ", ", key.key, value);
    }
    if (!line.empty()) fmt::print("{:<13} {}\n", table.header, line);
  }
  fmt::print("{} keys are at their defaults: --all prints them, and where each comes from\n",
             defaults);
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
          std::pair{Role::state_server, "state_server"}, std::pair{Role::witness, "witness"}})
      if (members[rank].is(role)) roles += (roles.empty() ? "" : ", ") + std::string(name);
    rows.push_back({fmt::format("{}", rank), members[rank].site,
                    fmt::format("{}", members[rank].rank_in_site), roles});
  }
  fmt::print("\nRoles\n{}", text_table({"rank", "site", "node", "roles"}, rows));
}

// A label's name as the head of a column; its number where the data name none.
std::string label_head(const run::PartitionTable& table, std::size_t label) {
  constexpr std::size_t kLongest = 14;
  if (label >= table.labels.size()) return std::to_string(label);
  const std::string& name = table.labels[label];
  return name.size() <= kLongest ? name : name.substr(0, kLongest - 2) + "..";
}

// The columns of a table if they are standardised; else a hint, where one helps.
void print_columns(const run::PartitionTable& table) {
  if (!table.standardised) {
    const std::string hint = run::scale_hint(table);
    if (!hint.empty()) fmt::print("\nHint: {}\n", hint);
    return;
  }
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < std::min(table.columns.size(), kMaxRows); ++i)
    rows.push_back({table.columns[i], fmt::format("{:.6g}", table.scales[i].mean),
                    fmt::format("{:.6g}", table.scales[i].std)});
  fmt::print("\nColumns, standardised by the training samples\n{}",
             text_table({"column", "mean", "std"}, rows));
  if (rows.size() < table.columns.size())
    fmt::print("and {} more; a run's data.json has all\n", table.columns.size() - rows.size());
}

void print_partition(const run::PartitionTable& table) {
  if (table.workers.empty()) return;
  std::vector<std::string> head = {"site"};
  constexpr std::size_t kColumns = 20;  // more labels than these are counted, not listed
  const std::size_t labels = table.counts.front().size();
  if (labels > kColumns) head.push_back("labels");
  for (std::size_t label = 0; label < labels && labels <= kColumns; ++label)
    head.push_back(labels > 1 ? label_head(table, label) : "samples");
  if (labels > 1) head.push_back("all");
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < table.workers.size(); ++i) {
    std::vector<std::string> row = {table.workers[i]};
    std::uint64_t sum = 0, held = 0;
    for (std::uint64_t count : table.counts[i]) {
      if (labels <= kColumns) row.push_back(fmt::format("{}", count));
      sum += count;
      held += count > 0;
    }
    if (labels > kColumns) row.push_back(fmt::format("{} of {}", held, labels));
    if (labels > 1) row.push_back(fmt::format("{}", sum));
    rows.push_back(std::move(row));
  }
  fmt::print("\nSamples per label and site\n{}", text_table(head, rows));
  if (!table.absent.empty())
    fmt::print(
        "Files of {} are not here: they are counted at their sites, and plans take {} samples "
        "each.\n",
        fmt::join(table.absent, ", "), table.absent_samples);
}

// For the model, or for a vector of --mbytes megabytes in its place.
Result<run::Explanation> explanation_of(const ExplainArgs& args, const run::Job& job,
                                        const Result<run::PartitionTable>& table) {
  if (!args.mbytes && (!table || !table->layout)) return run::Explanation{};
  return run::explanation_of(job, args.mbytes, embedding().learners);
}

void print_explanation(const run::Job& job, const run::Explanation& said) {
  if (said.lines.empty()) return;
  fmt::print("\nWhat {} sends\n", job.sync.entry->name);
  for (const std::string& line : said.lines) fmt::print("{}\n", line);
  if (said.rows.empty()) return;
  auto rows = said.rows;
  rows.resize(std::min(rows.size(), kMaxRows));
  fmt::print("\n{}\n{}", said.title, text_table(said.head, rows));
  if (rows.size() < said.rows.size())
    fmt::print("and {} more; --json has all\n", said.rows.size() - rows.size());
}

// For --mbytes megabytes, or for the model's vector as large as it counts on the wire.
Result<run::SitePlan> plan_of(const ExplainArgs& args, const run::Job& job,
                              const Result<run::PartitionTable>& table) {
  if (args.mbytes) return run::plan_of(job, *args.mbytes);
  if (!table) return table.error();
  if (table->parameters == 0)
    return invalid(job.file + ": how large the model is only its program knows; say --mbytes");
  return run::plan_of(job, double(table->parameters) * sizeof(float) * job.wan.wire_scale / 1e6);
}

Status write_svg(const std::string& file, const run::SitePlan& plan) {
  if (plan.at_end)
    return invalid(
        fmt::format("--svg: {} sends nothing over {} but the mean at the end; without --svg its "
                    "own sending is described",
                    plan.sync, plan.overlay));
  if (!plan.planned)
    return invalid(
        fmt::format("--svg: what goes where over {} is decided while it runs; choose "
                    "another overlay: --set overlay.kind=forest",
                    plan.overlay));
  const std::string svg = run::plan_svg(plan);
  if (file == "-") {
    fmt::print("{}", svg);
    return Ok{};
  }
  // Not to put a file in the place of a device.
  std::error_code code;
  if (std::filesystem::exists(file, code) && !std::filesystem::is_regular_file(file, code))
    return invalid("--svg: " + file + ": no regular file; name one, or - for standard output");
  const Status written = run::write_atomically(file, svg);
  if (written) fmt::print(stderr, "the plan is drawn in {}\n", file);
  if (!written)
    return invalid("--svg: " + written.error().what +
                   "; name a file in a folder that exists and may be written, or - for standard "
                   "output");
  return Ok{};
}

void print_job(const run::Job& job, bool all) {
  if (job.focus)
    fmt::print("{}: an index of growing data (docs/focus.md)\n", job.job.name);
  else
    fmt::print("{}: {} rounds of {} samples at most, scored every {} rounds\n", job.job.name,
               job.stop.max_rounds, run::samples_per_round(job), run::report_every(job));
  if (all)
    print_settings(job);
  else
    print_chosen(job);
  fmt::print("\nNetwork\n{}", wan_text(job.network));
  print_members(job);
}

// The answer is made before anything is printed, so that an error stands alone.
Result<int> explain_job(const ExplainArgs& args) {
  LH_LET(job, args.load());
  if (job.focus && args.plan())
    return invalid(args.job + ": has [focus]; --mbytes, --json and --svg are of a training's plan");
  if (job.focus) return print_job(job, args.all), kDone;
  const bool silent = args.json || args.svg == "-";
  const auto table = silent && args.mbytes ? Result<run::PartitionTable>(run::PartitionTable{})
                                           : run::partition_table(job, embedding().learners);
  const auto plan = plan_of(args, job, table);
  if (args.plan() && !plan) return plan.error();
  if (!args.svg.empty()) LH_TRY(write_svg(args.svg, *plan));
  const auto said = explanation_of(args, job, table);
  if (silent && !said) return said.error();
  if (args.json && said) {
    nlohmann::ordered_json json = run::to_json(*plan);
    json["strategy"] = run::to_json(*said);
    fmt::print("{}\n", json_text(json));
  }
  if (silent) return kDone;
  print_job(job, args.all);
  if (table) print_partition(*table), print_columns(*table);
  if (said) print_explanation(job, *said);
  if (plan) fmt::print("\n{}", plan_text(*plan));
  if (!table) return table.error();
  if (!said) return said.error();
  if (!plan) fmt::print("\nPlan of {}: none; {}\n", job.overlay.entry->name, plan.error().what);
  return kDone;
}

Result<int> explain(const ExplainArgs& args) {
  const std::string& name = args.job;
  const bool is_file = name.ends_with(".toml") || name.find('/') != std::string::npos ||
                       std::filesystem::exists(name);
  if (args.json && args.svg == "-")
    return invalid("--svg -: --json goes to standard output too; name a file");
  if (args.plan())
    return is_file ? explain_job(args)
                   : print_error(invalid(
                         name + ": no job file; --mbytes, --json and --svg are of its plan"));
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
  if (is_file) return explain_job(args);
  return invalid(
      fmt::format("{}: neither a job file, a part nor a network{}", name, suggestion(name, names)));
}

}  // namespace

void add_explain(CLI::App& app, int& code) {
  auto args = std::make_shared<ExplainArgs>();
  CLI::App* sub =
      app.add_subcommand("explain", "shows a part, a network, or what a job resolves to");
  sub->add_option("NAME", args->job, "a part, a network, a job file, or job-file for all keys")
      ->required();
  option(*sub, "--mbytes", args->mbytes,
         "plans rounds of this many MB (default: the model's vector)", "M", CLI::Range(1e-5, 1e6));
  sub->add_flag("--json", args->json,
                "prints the plan of a job as one JSON object and nothing else");
  sub->add_flag("--all", args->all, "prints every key of a job with its source, also defaults");
  option(*sub, "--svg", args->svg,
         "draws the plan of a job into a file; -: only to standard output", "FILE");
  args->add_overrides_to(*sub);
  sub->footer(
      "Examples:\n  longhaul explain diloco\n  longhaul explain examples/mnist-4-sites.toml\n"
      "  longhaul explain examples/overlays.toml --set overlay.kind=forest --svg plan.svg\n"
      "The plan of a job has the bytes of a round between sites, and their share used: the time "
      "of\na link's bytes, divided by that of the busiest link; for a pair, the time of its bytes "
      "alone on\nits narrowest link.\n"
      "Exit codes: 0 done, 2 bad job, name or usage");
  sub->callback([args, &code] { code = code_of(explain(*args)); });
}

}  // namespace longhaul::cli
