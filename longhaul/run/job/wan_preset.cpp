#include "longhaul/run/job/wan_preset.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "longhaul/run/job/matrix_wan.h"

namespace longhaul::run {
namespace {

using Members = std::map<std::string, std::vector<std::uint32_t>, std::less<>>;  // of groups

std::vector<std::string> texts(const toml::table& table, std::string_view key) {
  std::vector<std::string> list;
  if (const toml::array* array = table[key].as_array())
    for (const toml::node& node : *array) list.push_back(node.value_or(std::string()));
  return list;
}

flow::Rate rate_at(const toml::table& table, std::string_view key) {
  const auto value = table[key].value<double>();
  return value ? flow::Rate(flow::bytes_per_second(*value)) : std::nullopt;
}

Result<std::optional<Matrix>> matrix_at(const toml::table& table, std::string_view key,
                                        const CellKind& kind, std::span<const TextFile> files) {
  const auto name = table[key].value<std::string_view>();
  if (!name) return std::optional<Matrix>{};
  for (const TextFile& file : files) {
    if (file.name != *name) continue;
    auto matrix = parse_matrix(file.text, std::string(file.name), kind);
    if (!matrix) return matrix.error();
    return std::optional<Matrix>(*std::move(matrix));
  }
  return unavailable(fmt::format("{}: no such matrix among the presets", *name));
}

// [[group]]: sites called as the group, or NAME-1 .. NAME-count.
Members add_groups(const toml::table& root, flow::Wan& wan) {
  Members members;
  const toml::array* groups = root["group"].as_array();
  if (!groups) return members;
  for (const toml::node& node : *groups) {
    const toml::table& group = *node.as_table();
    const std::string name = group["name"].value_or(std::string());
    const std::uint32_t count = group["count"].value_or(0u);
    for (std::uint32_t i = 0; i < std::max(count, 1u); ++i) {
      members[name].push_back(std::uint32_t(wan.sites.size()));
      wan.sites.push_back({.name = count == 0 ? name : fmt::format("{}-{}", name, i + 1),
                           .up = rate_at(group, "up_mbps"),
                           .down = rate_at(group, "down_mbps"),
                           .lan = {}});
    }
  }
  return members;
}

// [[between]]: all pairs from a site of one group to one of the other, and back.
void add_between(const toml::table& root, const Members& members, flow::Wan& wan) {
  const toml::array* list = root["between"].as_array();
  if (!list) return;
  for (const toml::node& node : *list) {
    const toml::table& between = *node.as_table();
    const std::vector<std::string> groups = texts(between, "groups");
    LH_CHECK(groups.size() == 2 && members.contains(groups[0]) && members.contains(groups[1]));
    flow::Wan::Pair pair = wan.usual;
    if (const auto rate = rate_at(between, "mbps")) pair.rate = rate;
    if (const auto rtt = between["rtt_ms"].value<double>()) pair.delay_s = *rtt / 2 / 1000;
    for (const bool back : {false, true}) {
      std::vector<flow::SitePair> pairs;
      for (std::uint32_t from : members.at(groups[back]))
        for (std::uint32_t to : members.at(groups[!back])) pairs.push_back({from, to});
      for (const flow::SitePair& way : pairs) wan.pairs[way] = pair;
      if (const auto shared = between["shared"].value<std::string>())
        wan.shared.push_back({fmt::format("{} {} > {}", *shared, groups[back], groups[!back]),
                              *rate_at(between, "shared_mbps"), std::move(pairs)});
    }
  }
}

Result<WanPreset::Windowed> windowed_of(const toml::table& root) {
  const std::string text = root["window"].value_or(std::string("no"));
  if (text == "no") return WanPreset::Windowed::no;
  if (text == "pair") return WanPreset::Windowed::pair;
  if (text == "connection") return WanPreset::Windowed::connection;
  return invalid(fmt::format("window: expected pair or connection, found {}", text));
}

Result<flow::Wan> wan_at(const toml::table& root, std::span<const TextFile> files) {
  LH_LET(rates, matrix_at(root, "mbps_csv", kRateCells, files));
  LH_LET(rtts, matrix_at(root, "rtt_ms_csv", kRttCells, files));
  if (rates)
    for (double& cell : rates->cells) cell *= root["mbps_factor"].value_or(1.0);
  std::vector<std::string> names = texts(root, "sites");
  flow::Wan wan;
  wan.usual.rate = rate_at(root, "mbps");
  wan.usual.delay_s = root["rtt_ms"].value_or(0.0) / 2 / 1000;
  if (rates || rtts) {
    auto from_files = wan_of_matrices(rates, rtts, names);
    if (!from_files) return from_files.error();
    wan = *std::move(from_files);
  } else {
    for (std::string& name : names) wan.sites.push_back({std::move(name), {}, {}, {}});
  }
  add_between(root, add_groups(root, wan), wan);
  for (flow::Wan::Site& site : wan.sites) {
    if (!site.up) site.up = rate_at(root, "up_mbps");
    if (!site.down) site.down = rate_at(root, "down_mbps");
  }
  return wan;
}

int order_of(const std::string& standing) {
  return standing == "measured" ? 0 : standing == "synthetic" ? 1 : 2;
}

std::vector<WanPreset> all_presets() {
  std::vector<WanPreset> presets;
  for (const TextFile& file : preset_files()) {
    if (!file.name.ends_with(".toml")) continue;
    auto preset = parse_wan_preset(file, preset_files());
    LH_CHECK(preset);  // compiled in, and read by a test
    presets.push_back(*std::move(preset));
  }
  std::sort(presets.begin(), presets.end(), [](const WanPreset& a, const WanPreset& b) {
    return std::pair(order_of(a.standing), a.name) < std::pair(order_of(b.standing), b.name);
  });
  return presets;
}

}  // namespace

Result<WanPreset> parse_wan_preset(const TextFile& file, std::span<const TextFile> files) {
  toml::table root;
  try {
    root = toml::parse(file.text, file.name);
  } catch (const toml::parse_error& error) {
    return malformed(
        fmt::format("{}:{}: {}", file.name, error.source().begin.line, error.description()));
  }
  WanPreset preset;
  preset.name = root["name"].value_or(std::string());
  preset.summary = root["summary"].value_or(std::string());
  preset.standing = root["kind"].value_or(std::string());
  preset.sources = texts(root, "sources");
  preset.caveats = texts(root, "caveats");
  preset.any_sites = root["any_sites"].value_or(false);
  if (const toml::table* redraw = root["redraw"].as_table())
    preset.redraw = {(*redraw)["every_s"].value_or(0.0), (*redraw)["lowest_mbps"].value_or(0.0),
                     (*redraw)["highest_mbps"].value_or(0.0)};
  LH_LET(windowed, windowed_of(root));
  preset.windowed = windowed;
  auto wan = wan_at(root, files);
  if (!wan) return wan.error();
  preset.wan = *std::move(wan);
  return preset;
}

const std::vector<WanPreset>& wan_presets() {
  static const std::vector<WanPreset> presets = all_presets();
  return presets;
}

const WanPreset* find_wan_preset(std::string_view name) {
  for (const WanPreset& preset : wan_presets())
    if (preset.name == name) return &preset;
  return nullptr;
}

std::vector<std::string_view> wan_preset_names() {
  std::vector<std::string_view> names;
  for (const WanPreset& preset : wan_presets()) names.push_back(preset.name);
  return names;
}

}  // namespace longhaul::run
