#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/run/job/reference.h"
#include "longhaul/run/job/wan.h"

namespace longhaul::cli {
namespace {

void print_text(const std::vector<run::PartInfo>& parts) {
  std::string table;
  for (const run::PartInfo& part : parts) {
    if (part.table != table) fmt::print("{}[{}]\n", table.empty() ? "" : "\n", part.table);
    table = part.table;
    fmt::print("  {:<16} {}\n", part.name, part.summary);
  }
  fmt::print("\n[wan] preset\n");
  for (const run::WanPreset& preset : run::wan_presets())
    fmt::print("  {:<16} {}\n", preset.name, preset.summary);
  fmt::print("\nlonghaul explain NAME tells more.\n");
}

void print_json(const std::vector<run::PartInfo>& parts) {
  auto object = nlohmann::ordered_json::object();
  for (const run::PartInfo& part : parts)
    object[part.table].push_back(
        {{"name", part.name}, {"summary", part.summary}, {"status", "ready"}});
  for (const run::WanPreset& preset : run::wan_presets())
    object["wan"].push_back({{"name", preset.name},
                             {"summary", preset.summary},
                             {"kind", preset.standing},
                             {"sites", preset.wan.sites.size()},
                             {"status", "ready"}});
  fmt::print("{}\n", object.dump(2));
}

}  // namespace

void add_list(CLI::App& app, int& code) {
  CLI::App* sub = app.add_subcommand(
      "list", "lists the parts of a job by table, and the networks of [wan] preset");
  auto json = std::make_shared<bool>(false);
  add_json_option(*sub, *json);
  sub->footer("Example:\n  longhaul list\nExit codes: 0 done, 2 bad usage");
  sub->callback([json, &code] {
    const auto parts = run::all_parts();
    *json ? print_json(parts) : print_text(parts);
    code = kDone;
  });
}

}  // namespace longhaul::cli
