#include "longhaul/learn/data/load.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "longhaul/learn/data/text.h"

namespace longhaul::learn {
namespace {

using Place = DataEntry::Place;

constexpr std::array<std::string_view, 8> kCommonKeys = {
    "partition", "alpha", "degree", "shards", "sizes", "batch", "class_weights", "kind"};

std::vector<std::string_view> names() {
  std::vector<std::string_view> list;
  for (const DataEntry& entry : data_registry()) list.push_back(entry.name);
  return list;
}

// All kinds that read `key`: "csv, libsvm".
std::string owners(std::string_view key) {
  std::string list;
  for (const DataEntry& entry : data_registry())
    if (std::ranges::count(entry.keys, key))
      list += (list.empty() ? "" : ", ") + std::string(entry.name);
  return list;
}

Status check_keys(const Settings& settings, const DataEntry& entry) {
  for (const Setting& setting : settings.entries)
    if (!std::ranges::count(kCommonKeys, setting.key) &&
        !std::ranges::count(entry.keys, setting.key))
      return bad_setting(settings, setting,
                         fmt::format("no such key with kind = \"{}\": it belongs to {}", entry.name,
                                     owners(setting.key)));
  return Ok{};
}

// Two of them are the same label ("1" and "1.0").
bool has_duplicates(const std::vector<std::string>& labels) {
  std::vector<std::string> names;
  for (const std::string& label : labels) names.push_back(canonical_label(label));
  std::ranges::sort(names);
  return std::ranges::adjacent_find(names) != names.end();
}

Status check_values(const Settings& settings, const DataConfig& config) {
  auto require = [&](std::string_view key, bool good, const std::string& expected) -> Status {
    const Setting* entry = settings.find(key);
    if (!entry || good) return Ok{};
    return bad_setting(settings, *entry, expected);
  };
  const bool whole =
      std::ranges::all_of(config.sample, [](double x) { return x == std::floor(x); });
  LH_TRY(require("sample", config.sample.empty() || (config.sample.size() == 3 && whole),
                 "[channels, height, width], three whole numbers"));
  LH_TRY(require("classes", config.classes != 1, "two classes or more, or 0"));
  LH_TRY(require("labels", config.labels.size() != 1 && !has_duplicates(config.labels),
                 "two labels or more, none twice"));
  LH_TRY(require(
      "classes",
      config.classes == 0 || config.labels.empty() || config.classes == config.labels.size(),
      "as many classes as labels, or one of the two keys"));
  LH_TRY(require("separator", config.separator.size() <= 1 || config.separator == "tab",
                 "one character, or \"tab\""));
  LH_TRY(require("mean", config.mean.size() == config.std.size(),
                 "as many numbers as in [data] std, one a channel"));
  LH_TRY(require("std", config.mean.size() == config.std.size(),
                 "as many numbers as in [data] mean, one a channel"));
  const bool bce = config.loss == "bce", numbers = config.task == "regression";
  LH_TRY(require("loss", !bce || (!numbers && config.labels.empty() && config.classes == 0),
                 "no task = \"regression\", labels or classes beside \"bce\""));
  LH_TRY(require("target", config.target.size() < 2 || bce || numbers,
                 "one column; several with task = \"regression\" or loss = \"bce\""));
  const std::uint32_t most = config.token_type == "uint16" ? 1u << 16 : 1u << 24;
  LH_TRY(require("vocabulary", config.vocabulary >= 2 && config.vocabulary <= most,
                 fmt::format("2 to {}, which is all that token_type = \"{}\" can say", most,
                             config.token_type)));
  if (config.kind == "tokens" && config.vocabulary == 0)
    return invalid(
        "{}: [data] kind = \"tokens\": expected vocabulary = N, how many tokens there are",
        source_of(settings.file, settings.line));
  return Ok{};
}

Status check_class_weights(const DataConfig& config, const DataShape& shape) {
  if (config.class_weights.empty()) return Ok{};
  if (shape.task != Task::classification)
    return invalid("[data] class_weights: expected none, these data have no classes");
  if (std::int64_t(config.class_weights.size()) == shape.outputs) return Ok{};
  return invalid("[data] class_weights: expected {} numbers, one a class, found {}", shape.outputs,
                 config.class_weights.size());
}

std::string path_of(const DataEntry& entry, const DataConfig& config) {
  return config.path.empty() ? std::string(entry.default_path) : config.path;
}

// What stands at `path` may be missing here: the readers name the very file.
Status check_place(const DataEntry& entry, const std::string& path) {
  std::error_code code;
  if (entry.place != Place::folder || path.empty() || !std::filesystem::exists(path, code) ||
      std::filesystem::is_directory(path, code))
    return Ok{};
  return unavailable("{}: is a file, expected the folder that holds the {} files", path,
                     entry.name);
}

Status check_size(const DataSet& data) {
  if (data.size() <= std::numeric_limits<std::uint32_t>::max()) return Ok{};
  return invalid("[data] {} samples are more than 2^32 - 1", data.size());
}

Status need_known_shape(const DataConfig& config) {
  const bool text = config.kind == "csv" || config.kind == "libsvm";
  const bool has_classes = config.task == "classification" && config.loss != "bce";
  const bool classes = config.kind == "idx" || (text && has_classes);
  if (classes && config.classes == 0 && config.labels.empty())
    return invalid(
        "[data] partition = \"local\" with kind = \"{}\": expected {}, since no site sees the "
        "labels of the others",
        config.kind, text ? "labels = [...] or classes" : "classes");
  for (const std::string& one : config.categorical)
    if (one.find('=') == std::string::npos)
      return invalid(
          "[data] partition = \"local\": categorical = \"{}\": expected its values, \"{} = a | "
          "b\", since no site sees those of the others",
          one, one);
  if (config.kind == "libsvm" && config.features == 0)
    return invalid(
        "[data] partition = \"local\" with kind = \"libsvm\": expected features, since no site "
        "sees the samples of the others");
  return Ok{};
}

}  // namespace

std::span<const std::string_view> common_data_keys() {
  return std::span(kCommonKeys).first(kCommonKeys.size() - 1);
}

Result<const DataEntry*> find_data(const std::string& kind) {
  for (const DataEntry& entry : data_registry())
    if (entry.name == kind) return &entry;
  return invalid("[data] kind = \"{}\" is unknown{}", kind, suggestion(kind, names()));
}

Result<DataConfig> read_data(const Settings& settings) {
  DataConfig config;
  LH_TRY(read_settings(settings, config));
  auto entry = find_data(config.kind);
  if (!entry) {
    const Setting* kind = settings.find("kind");
    LH_CHECK(kind);
    return bad_setting(settings, *kind, "known data" + suggestion(config.kind, names()));
  }
  LH_TRY(check_keys(settings, **entry));
  LH_TRY(check_values(settings, config));
  return config;
}

Result<Split> load_data(const DataConfig& config) {
  LH_LET(entry, find_data(config.kind));
  if (!entry->load)
    return invalid(
        "[data] kind = \"{}\" holds no samples: only phantom models run without; set "
        "another kind",
        config.kind);
  const std::string path = path_of(*entry, config);
  if (path.empty() && entry->place != Place::none)
    return invalid("[data] kind = \"{}\": expected path = \"...\", the {} of the data", config.kind,
                   entry->place == Place::file ? "file" : "folder");
  LH_TRY(check_place(*entry, path));
  LH_TRY(check_place(*entry, config.test_path));
  LH_LET(split, entry->load(config, path, config.test_path));
  LH_TRY(check_size(*split.train));
  LH_TRY(check_size(*split.test));
  LH_TRY(check_class_weights(config, split.train->shape));
  return split;
}

namespace {

// The test set that all sites share; "": each holds out a share of its own data.
std::string shared_test_path(const DataEntry& entry, const DataConfig& config) {
  if (!config.test_path.empty() || entry.place != Place::folder) return config.test_path;
  return path_of(entry, config);
}

}  // namespace

bool tests_at_sites(const DataConfig& config) {
  const auto entry = find_data(config.kind);
  return entry && config.partition == "local" && shared_test_path(**entry, config).empty();
}

Result<SiteData> load_site(const DataConfig& config, const std::string& path) {
  LH_LET(entry, find_data(config.kind));
  if (entry->place == Place::none)
    return invalid(
        "[data] partition = \"local\": kind = \"{}\" has no files that sites could hold; use "
        "another partition",
        config.kind);
  LH_TRY(need_known_shape(config));
  const std::string test_path = shared_test_path(*entry, config);
  LH_TRY(check_place(*entry, path));
  LH_LET(split, entry->load(config, path, test_path));
  LH_TRY(check_size(*split.train));
  LH_TRY(check_class_weights(config, split.train->shape));
  return SiteData{*split.train, *split.test, test_path.empty()};
}

Result<LocalData> load_local(const DataConfig& config, std::span<const std::string> names,
                             std::span<const std::string> paths) {
  LH_CHECK(!paths.empty() && names.size() == paths.size());
  std::vector<SiteData> sites;
  std::vector<SiteFacts> facts;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    LH_LET(site, load_site(config, paths[i]));
    sites.push_back(std::move(site));
    facts.push_back({names[i], paths[i], facts_of(sites.back().train, sites.back().test)});
  }
  LH_LET(all, agree(config, facts));
  LocalData local;
  DataSet train, test;
  const auto add = [](DataSet& to, DataSet& more, Shards& shards) -> Status {
    const std::size_t before = to.size();
    if (before == 0)
      to = std::move(more);
    else
      append(to, more);
    LH_TRY(check_size(to));
    std::vector<std::uint32_t>& rows = shards.emplace_back(to.size() - before);
    std::iota(rows.begin(), rows.end(), std::uint32_t(before));
    return Ok{};
  };
  for (SiteData& site : sites) {
    bring_in_line(site.train, all);
    LH_TRY(add(train, site.train, local.shards));
    if (!site.own_test && test.size() > 0) continue;
    bring_in_line(site.test, all);
    LH_TRY(add(test, site.test, local.tests));
  }
  if (!sites.front().own_test) local.tests.clear();
  local.warnings = all.warnings;
  local.split = {std::make_shared<const DataSet>(std::move(train)),
                 std::make_shared<const DataSet>(std::move(test)), all.scales, all.means,
                 all.numbers};
  return local;
}

}  // namespace longhaul::learn
