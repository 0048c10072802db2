#include "longhaul/run/job/learning.h"

#include <algorithm>

#include <fmt/format.h>

#include "longhaul/learn/data/load.h"
#include "longhaul/learn/models/optimizer_config.h"
#include "longhaul/learn/models/registry.h"

namespace longhaul::run {
namespace {

// The table with nothing in it but a kind.
Settings only_kind(std::string_view table, std::string_view kind) {
  return {std::string(table), "job.toml", 0, {{"kind", {std::string(kind)}, "", 0}}};
}

constexpr auto reads_model = [](const Settings& s) { return bool(learn::read_model(s)); };
constexpr auto reads_data = [](const Settings& s) { return bool(learn::read_data(s)); };
constexpr auto reads_optimizer = [](const Settings& s) { return bool(learn::read_optimizer(s)); };

std::vector<FieldDoc> only(std::vector<FieldDoc> docs, std::span<const std::string_view> keys) {
  std::erase_if(docs,
                [&](const FieldDoc& doc) { return !std::ranges::count(keys, doc.field.name); });
  return docs;
}

// The learner of an embedding program; the only kind that learn/ does not know.
constexpr std::string_view kOwn = "own";

std::vector<std::string_view> model_kinds() {
  std::vector<std::string_view> kinds = {kOwn};
  for (const learn::ModelEntry& entry : learn::model_registry()) kinds.push_back(entry.name);
  return kinds;
}

PartInfo part(std::string_view table, std::string_view name, std::string_view summary,
              std::vector<FieldDoc> keys) {
  return {std::string(table), std::string(name), std::string(summary), std::move(keys), {}, {}};
}

}  // namespace

Status read_learning(Job& job) {
  const std::string kind = job.kind("model");
  const std::vector<std::string_view> kinds = model_kinds();
  if (!std::ranges::count(kinds, kind))
    return bad_setting(job.model, *job.model.find("kind"),
                       "a known model" + suggestion(kind, kinds));
  const bool own = kind == kOwn;
  if (own) {
    LH_TRY(refuse_unknown(job.model, {"kind"}));
  } else if (auto model = learn::read_model(job.model); !model) {
    return model.error();
  }
  if (auto data = learn::read_data(job.data); !data) return data.error();
  if (auto optimizer = learn::read_optimizer(job.optimizer); !optimizer) return optimizer.error();
  if (!own) job.model_docs = keys_in_use(job.model, describe(learn::ModelConfig{}), reads_model);
  job.data_docs = keys_in_use(job.data, describe(learn::DataConfig{}), reads_data);
  job.optimizer_docs =
      keys_in_use(job.optimizer, describe(learn::OptimizerConfig{}), reads_optimizer);
  return Ok{};
}

std::vector<PartInfo> learning_parts() {
  std::vector<PartInfo> parts;
  for (const learn::ModelEntry& entry : learn::model_registry()) {
    std::vector<std::string_view> keys = entry.keys;
    keys.push_back("device");
    parts.push_back(
        part("model", entry.name, entry.summary, only(describe(learn::ModelConfig{}), keys)));
  }
  parts.push_back(
      part("model", kOwn, "a Learner of the program that embeds longhaul: examples/embed", {}));
  for (const learn::DataEntry& entry : learn::data_registry())
    parts.push_back(
        part("data", entry.name, entry.summary, only(describe(learn::DataConfig{}), entry.keys)));
  for (std::string_view name : {"sgd", "adam", "adamw", "muon"})
    parts.push_back(part("optimizer", name,
                         name == "muon" ? "orthogonalised momentum for matrices, adamw for the rest"
                                        : "as in torch::optim",
                         keys_in_use(only_kind("optimizer", name),
                                     describe(learn::OptimizerConfig{}), reads_optimizer)));
  return parts;
}

std::string data_keys() {
  return key_list(only(describe(learn::DataConfig{}), learn::common_data_keys()));
}

}  // namespace longhaul::run
