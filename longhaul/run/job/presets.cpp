#include "longhaul/run/job/presets.h"

#include <algorithm>

#include <fmt/format.h>

#include "longhaul/sync/registry.h"

namespace longhaul::run {
namespace {

// "for.diloco.outer" -> {"diloco", "outer"}
std::pair<std::string_view, std::string_view> split_variant(std::string_view table) {
  table.remove_prefix(std::string_view("for.").size());
  const std::size_t dot = table.rfind('.');
  return {table.substr(0, dot), table.substr(dot + 1)};
}

bool of_command_line(const Setting& entry) {
  return entry.file == "--set" || entry.file == "--wan";
}

}  // namespace

Status apply_variants(Document& doc, std::string_view kind) {
  std::vector<std::string_view> kinds;
  for (const SyncEntry& entry : sync::registry()) kinds.push_back(entry.name);
  for (const Settings& variant : doc.variants) {
    const auto [name, table] = split_variant(variant.table);
    if (std::find(kinds.begin(), kinds.end(), name) == kinds.end())
      return invalid(fmt::format("{}:{}: [{}]: no sync kind of that name{}", doc.file, variant.line,
                                 variant.table, suggestion(name, kinds)));
    if (name != kind) continue;
    Settings& base = doc.table(table);
    if (base.line == 0) base.line = variant.line;
    // Another kind: the keys of [TABLE] were written for the kind that stands there.
    const auto chosen = variant.text("kind");
    if (chosen && chosen != base.text("kind"))
      std::erase_if(base.entries, [](const Setting& entry) { return !of_command_line(entry); });
    for (const Setting& entry : variant.entries) {
      if (table == "sync" && entry.key == "kind")
        return bad_setting(variant, entry, "no kind: the table's name says for which it holds");
      const Setting* old = base.find(entry.key);
      if (!old || !of_command_line(*old)) base.set(entry);
    }
  }
  return Ok{};
}

std::vector<AppliedPreset> apply_presets(Document& doc, const SyncEntry& sync) {
  std::vector<AppliedPreset> applied;
  const std::vector<Preset> presets = sync.presets;
  const std::string source = fmt::format("preset of {}", sync.name);
  // A table whose kind the file chose otherwise keeps none of the presets.
  auto other_kind = [&](std::string_view table) {
    for (const Preset& preset : presets)
      if (preset.table == table && preset.key == "kind") {
        const auto chosen = doc.table(table).text("kind");
        return chosen && *chosen != std::get<std::string>(preset.value.data);
      }
    return false;
  };
  std::vector<std::string_view> closed;
  for (const Preset& preset : presets)
    if (other_kind(preset.table)) closed.push_back(preset.table);
  for (const Preset& preset : presets) {
    Settings& table = doc.table(preset.table);
    const bool overruled = table.find(preset.key) != nullptr ||
                           std::find(closed.begin(), closed.end(), preset.table) != closed.end();
    if (!overruled) table.set({std::string(preset.key), preset.value, source, 0});
    applied.push_back(
        {std::string(preset.table), std::string(preset.key), preset.value, overruled});
  }
  return applied;
}

}  // namespace longhaul::run
