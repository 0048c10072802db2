#include "longhaul/learn/models/registry.h"

#include <algorithm>
#include <cmath>

namespace longhaul::learn {
namespace {

std::vector<std::string_view> names() {
  std::vector<std::string_view> list;
  for (const ModelEntry& entry : model_registry()) list.push_back(entry.name);
  return list;
}

// The first entry that reads `key`.
std::string_view owner(std::string_view key) {
  for (const ModelEntry& entry : model_registry())
    if (std::ranges::count(entry.keys, key)) return entry.name;
  return {};
}

Status check_keys(const Settings& settings, const ModelEntry& entry) {
  for (const Setting& setting : settings.entries) {
    const std::string_view whose = owner(setting.key);
    if (!whose.empty() && !std::ranges::count(entry.keys, setting.key))
      return bad_setting(settings, setting,
                         "no such key with kind = \"" + std::string(entry.name) +
                             "\": it belongs to \"" + std::string(whose) + "\"");
  }
  return Ok{};
}

Status check_values(const Settings& settings, const ModelConfig& config) {
  if (const Setting* hidden = settings.find("hidden"))
    for (double units : config.hidden)
      if (!(units >= 1 && units <= 1e6 && units == std::floor(units)))
        return bad_setting(settings, *hidden, "a list of whole numbers from 1 to 1000000");
  if (const Setting* bn = settings.find("bn"); bn && config.norm != "batch")
    return bad_setting(settings, *bn,
                       "norm = \"batch\" beside it: no other norm has running statistics");
  if (config.kind == "script" && config.path.empty()) {
    const Setting* path = settings.find("path");
    const Setting* kind = path ? path : settings.find("kind");
    return bad_setting(settings, kind ? *kind : Setting{"path", {std::string()}, settings.file, 0},
                       "path = \"FILE\" of a TorchScript module (torch.jit.script(model).save)");
  }
  return Ok{};
}

}  // namespace

Result<const ModelEntry*> find_model(const std::string& kind) {
  for (const ModelEntry& entry : model_registry())
    if (entry.name == kind) return &entry;
  return invalid("[model] kind = \"" + kind + "\" is unknown" + suggestion(kind, names()));
}

Result<ModelConfig> read_model(const Settings& settings) {
  ModelConfig config;
  LH_TRY(read_settings(settings, config));
  auto entry = find_model(config.kind);
  if (!entry) {
    const Setting* kind = settings.find("kind");
    LH_CHECK(kind);
    return bad_setting(settings, *kind, "a known model" + suggestion(config.kind, names()));
  }
  LH_TRY(check_keys(settings, **entry));
  LH_TRY(check_values(settings, config));
  return config;
}

Result<ModelSpec> model_spec(const ModelConfig& config, const DataShape& shape) {
  LH_LET(entry, find_model(config.kind));
  if (!entry->spec)
    return invalid("[model] kind = \"" + config.kind + "\" comes from a file and has no spec");
  return entry->spec(config, shape);
}

std::shared_ptr<const Layout> exchanged_layout(const ModelConfig& config,
                                               std::shared_ptr<const Layout> whole) {
  std::vector<LayerRange> layers = whole->layers();
  const std::size_t kept = std::erase_if(layers, [&](const LayerRange& l) {
    return l.role == LayerRange::Role::constant ||
           (config.bn == "local" && l.role == LayerRange::Role::buffer);
  });
  if (kept == 0) return whole;
  return std::make_shared<const Layout>(std::move(layers));
}

}  // namespace longhaul::learn
