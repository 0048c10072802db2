#include "longhaul/run/job/reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "longhaul/codec/registry.h"
#include "longhaul/learn/data/config.h"
#include "longhaul/learn/data/load.h"
#include "longhaul/learn/models/optimizer_config.h"
#include "longhaul/learn/models/registry.h"
#include "longhaul/outer/registry.h"
#include "longhaul/overlay/registry.h"
#include "longhaul/sync/registry.h"
#include "longhaul/transfer/registry.h"

namespace longhaul::run {
namespace {

std::string number(double value) { return fmt::format("{:.15g}", value); }

// Returns "1..64" (both included), ">0..64" (without 0), ">= 1", "a, b"; "": any value.
std::string allowed(const FieldDoc& doc) {
  const Field& f = doc.field;
  if (!f.choices.empty()) return fmt::format("{}", fmt::join(f.choices, ", "));
  if (doc.type != "integer" && doc.type != "number") return "";
  const std::string most = f.max < 1e15 ? number(f.max) : "";
  if (f.positive) return most.empty() ? "> 0" : ">0.." + most;
  if (!std::isfinite(f.min) && doc.type != "integer") return most.empty() ? "" : "<= " + most;
  const std::string least = number(std::isfinite(f.min) ? f.min : 0);
  return most.empty() ? ">= " + least : least + ".." + most;
}

template <class Config>
std::string own_section(std::string_view header, std::string_view text) {
  return fmt::format("\n## `{}`\n\n{}\n\n{}", header, text, key_list(describe(Config{})));
}

std::string_view bits_text(Bits bits) { return to_string(bits); }

template <class Entry>
PartInfo part(std::string_view table, const Entry& entry) {
  return {std::string(table),
          std::string(entry.name),
          std::string(entry.summary),
          entry.describe(),
          {},
          {}};
}

std::string_view algebra_text(Algebra algebra) {
  switch (algebra) {
    case Algebra::add:
      return "exact";
    case Algebra::reencode:
      return "with an error that grows with the hops";
    case Algebra::gather:
      return "refused";
  }
  return "";
}

std::string yes(bool flag) { return flag ? "yes" : "no"; }

void add_registries(std::vector<PartInfo>& parts) {
  for (const SyncEntry& entry : sync::registry()) {
    PartInfo& info = parts.emplace_back(part("sync", entry));
    info.presets = entry.presets;
    info.facts = {{"bits", std::string(bits_text(entry.traits.bits))},
                  {"when a peer is lost", std::string(entry.traits.when_lost)},
                  {"a lost node may return", yes(entry.traits.lets_return)}};
  }
  for (const OverlayEntry& entry : overlay::registry()) {
    PartInfo& info = parts.emplace_back(part("overlay", entry));
    info.facts = {{"bits", std::string(bits_text(entry.traits.bits))},
                  {"partial sums", yes(entry.traits.sums_on_the_way)}};
  }
  for (const TransferEntry& entry : transfer::registry()) {
    PartInfo& info = parts.emplace_back(part("transfer", entry));
    info.facts = {{"bits", std::string(bits_text(entry.traits.bits))},
                  {"every value arrives", yes(entry.traits.lossless)}};
  }
  for (const CodecEntry& entry : codec::registry()) {
    PartInfo& info = parts.emplace_back(part("codec", entry));
    info.facts = {
        {"bytes for d values", std::string(entry.cost.bytes)},
        {"error", std::string(entry.cost.error)},
        {"partial sums", std::string(algebra_text(entry.traits.algebra))},
        {"whole models may be written with it",
         yes(entry.traits.contraction && entry.traits.close)},
        {"may have error feedback", yes(entry.traits.contraction && !entry.traits.lossless)}};
  }
  for (const OuterEntry& entry : outer::registry()) parts.push_back(part("outer", entry));
}

std::string kinds_section(const std::vector<PartInfo>& parts, std::string_view table,
                          std::string_view text, const std::string& common = {}) {
  std::string section = fmt::format("\n## `[{}]`\n\n{}\n", table, text);
  if (!common.empty()) section += "\nWith every kind:\n\n" + common;
  for (const PartInfo& info : parts) {
    if (info.table != table) continue;
    section += fmt::format("\n### `kind = \"{}\"`\n\n{}.\n", info.name, info.summary);
    if (const std::string settings = settings_text(info); !settings.empty())
      section += "\n" + settings;
  }
  return section;
}

// Returns the documentation of a key without the kinds that it begins with: "mlp, clicks: units".
std::string_view without_kinds(std::string_view doc, const std::vector<PartInfo>& kinds) {
  const std::size_t colon = doc.find(": ");
  if (colon == doc.npos) return doc;
  for (std::size_t at = 0; at < colon;) {
    const std::size_t end = std::min(doc.find(", ", at), colon);
    if (!std::ranges::count(kinds, doc.substr(at, end - at), &PartInfo::name)) return doc;
    at = end + 2;
  }
  return doc.substr(colon + 2);
}

// Returns the section of a table whose kinds share keys: each of `keys` once, after the kinds that
// have it. A key without kinds is one of every kind.
std::string shared_section(const std::vector<PartInfo>& parts, std::string_view table,
                           std::string_view text, std::vector<FieldDoc> keys) {
  std::string section = fmt::format("\n## `[{}]`\n\n{}\n\n", table, text);
  std::vector<PartInfo> kinds;
  for (const PartInfo& info : parts)
    if (info.table == table) kinds.push_back(info);
  for (const PartInfo& kind : kinds)
    section += wrapped(fmt::format("- `kind = \"{}\"`: {}.", kind.name, kind.summary), "  ");
  section += "\nKeys, after the kinds that have them if not all do:\n";
  std::vector<std::pair<std::string, std::vector<FieldDoc>>> groups = {{"", {}}};
  const auto have_keys =
      std::ranges::count_if(kinds, [](const PartInfo& kind) { return !kind.keys.empty(); });
  for (FieldDoc& key : keys) {
    if (key.field.name == "kind") continue;
    std::vector<std::string> with;
    for (const PartInfo& kind : kinds)
      for (const FieldDoc& doc : kind.keys)
        if (doc.field.name == key.field.name) with.push_back(kind.name);
    const bool all = std::ssize(with) == have_keys;
    const std::string names = all ? "" : fmt::format("{}", fmt::join(with, ", "));
    key.field.doc = without_kinds(key.field.doc, kinds);
    auto group = std::ranges::find(groups, names, [](const auto& one) { return one.first; });
    if (group == groups.end()) group = groups.insert(group, {names, {}});
    group->second.push_back(std::move(key));
  }
  for (const auto& [names, docs] : groups) {
    if (docs.empty()) continue;
    if (!names.empty()) section += "\n" + wrapped(names + ":", "");
    section += "\n" + key_list(docs);
  }
  return section;
}

// Returns the section of a table whose kinds have their own pages.
std::string paged_section(const std::vector<PartInfo>& parts, std::string_view table,
                          std::string_view text, const std::string& common = {}) {
  std::string section = fmt::format("\n## `[{}]`\n\n{}\n", table, text);
  if (!common.empty()) section += "\nWith every kind:\n\n" + common;
  std::vector<std::string> pages;
  for (const PartInfo& info : parts)
    if (info.table == table)
      pages.push_back(fmt::format("[`{0}`]({1}/{0}.md)", info.name, info.table));
  return section + "\n" +
         wrapped(fmt::format("Each kind has a page with its settings: {}.", fmt::join(pages, ", ")),
                 "");
}

// Returns the table with only a kind in it.
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

std::string wrapped(const std::string& text, const std::string& indent) {
  constexpr std::size_t kColumns = 100;
  std::string lines, line;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    if (!line.empty() && line.size() + 1 + word.size() > kColumns) {
      lines += line + "\n";
      line = indent + word;
    } else {
      line += (line.empty() ? "" : " ") + word;
    }
  }
  return lines + line + "\n";
}

std::string key_list(const std::vector<FieldDoc>& docs) {
  std::string text;
  for (const FieldDoc& doc : docs) {
    const Field& f = doc.field;
    std::string facts = doc.type;
    if (const std::string range = allowed(doc); !range.empty()) facts += ", " + range;
    if (!f.unit.empty()) facts += fmt::format(", in {}", f.unit);
    facts += doc.absent ? ", absent" : fmt::format(", default `{}`", doc.value);
    if (f.local) facts += ", local";
    text += wrapped(fmt::format("- `{}` ({}): {}.", f.name, facts, f.doc), "  ");
  }
  return text;
}

std::vector<PartInfo> all_parts() {
  std::vector<PartInfo> parts = learning_parts();
  add_registries(parts);
  return parts;
}

namespace {

using TablesByKey = std::map<std::string, std::vector<std::string>, std::less<>>;

TablesByKey tables_by_key() {
  TablesByKey tables;
  const auto add = [&](const std::string& table, const std::vector<FieldDoc>& docs) {
    for (const FieldDoc& doc : docs) {
      std::vector<std::string>& with = tables[std::string(doc.field.name)];
      if (std::ranges::find(with, table) == with.end()) with.push_back(table);
    }
  };
  add("[job]", describe(JobTable{}));
  add("[stop]", describe(StopTable{}));
  add("[report]", describe(ReportTable{}));
  add("[run]", describe(RunTable{}));
  add("[data]", describe(learn::DataConfig{}));
  for (const PartInfo& info : all_parts()) add("[" + info.table + "]", info.keys);
  add("[roles]", describe(RolesTable{}));
  add("[server]", describe(ServerTable{}));
  add("[net]", describe(NetTable{}));
  add("[cost]", describe(CostTable{}));
  add("[transfer]", describe(TransferCommon{}));
  add("[wan]", describe(WanTable{}));
  add("[hetero]", describe(HeteroTable{}));
  add("[[site]]", describe(SiteTable{}));
  return tables;
}

}  // namespace

std::vector<std::string> tables_with(std::string_view key) {
  static const TablesByKey tables = tables_by_key();  // made once: a job may have many errors
  const auto found = tables.find(key);
  return found == tables.end() ? std::vector<std::string>{} : found->second;
}

namespace {

// Removes the keys that fedavg has too, and returns a line that links its page; "": none.
std::string take_shared(std::vector<FieldDoc>& keys) {
  const auto fedavg = std::ranges::find(sync::registry(), "fedavg", &SyncEntry::name);
  const std::string known = key_list(fedavg->describe());
  std::vector<std::string> names;
  std::erase_if(keys, [&](const FieldDoc& key) {
    const bool shared = known.find(key_list({key})) != known.npos;
    if (shared) names.push_back(fmt::format("`{}`", key.field.name));
    return shared;
  });
  if (names.empty()) return "";
  return wrapped(fmt::format("- as in [fedavg](fedavg.md#settings): {}.", fmt::join(names, ", ")),
                 "  ");
}

// The same for error feedback.
std::string take_feedback(std::vector<FieldDoc>& keys) {
  std::string line;
  std::erase_if(keys, [&](const FieldDoc& key) {
    const std::string_view name = key.field.name;
    if (name == "error_feedback")
      line = fmt::format("- [error feedback](error_feedback.md): default `{}`.\n", key.value);
    return name == "error_feedback" || name.starts_with("feedback_");
  });
  return line;
}

}  // namespace

std::string settings_text(const PartInfo& info, bool as_page) {
  std::string text, elsewhere;
  std::vector<FieldDoc> keys = info.keys;
  if (as_page && info.table == "codec") elsewhere = take_feedback(keys);
  if (as_page && info.table == "sync" && info.name != "fedavg") elsewhere = take_shared(keys);
  if (!info.presets.empty()) {
    text += "Presets, unless the file says otherwise:\n\n";
    for (const Preset& preset : info.presets)
      text += fmt::format("    [{}] {} = {}\n", preset.table, preset.key, to_text(preset.value));
    if (!info.keys.empty()) text += "\n";
  }
  return text + key_list(keys) + elsewhere;
}

bool has_page(const PartInfo& info) {
  return !std::ranges::count(std::array{"model", "data", "optimizer"}, info.table);
}

std::string job_file_reference(bool with_pages) {
  const std::vector<PartInfo> parts = all_parts();
  const auto part_section = with_pages ? paged_section : kinds_section;
  std::string text;
  text += own_section<JobTable>("[job]", "The run.");
  text += own_section<StopTable>("[stop]", "When it ends; whichever comes first.");
  text += own_section<ReportTable>("[report]",
                                   "How often the model is scored on the test set, off the clock.");
  text += own_section<RunTable>("[run]", "How the run reacts when few workers take part.");
  text += shared_section(parts, "model", "What is trained.", describe(learn::ModelConfig{}));
  text += shared_section(parts, "data", "The training data, and its distribution over the sites.",
                         describe(learn::DataConfig{}));
  text += shared_section(parts, "optimizer", "The optimiser of each site.",
                         describe(learn::OptimizerConfig{}));
  text += part_section(parts, "sync", "When sites exchange, and what they do with it.", "");
  text += part_section(parts, "overlay", "Which node sends to which. Default: `direct`.", "");
  text += own_section<RolesTable>("[roles]", "Nodes that do something else than train.");
  text += own_section<ServerTable>("[server]",
                                   "The server of strategies that talk to one by themselves.");
  text += own_section<NetTable>("[net]", "How nodes keep in touch over sockets.");
  text += own_section<CostTable>(
      "[cost]", "Prices, for the amounts that `longhaul compare` and `longhaul plan` print.");
  text += part_section(parts, "transfer", "How one vector crosses one link. Default: `reliable`.",
                       key_list(describe(TransferCommon{})));
  text += part_section(parts, "codec", "How numbers are written. Default: `fp32`.", "");
  text += part_section(parts, "outer", "How the mean changes the model. Default: `none`.", "");
  text += own_section<WanTable>("[wan]", "The network between sites.");
  text += own_section<LinkTable>("[[wan.link]]", "One direction of one pair of sites.");
  text += own_section<SharedTable>("[[wan.shared]]",
                                   "A link that several pairs of sites cross and share.");
  text += own_section<TraceTable>("[[wan.trace]]", "What changes with time.");
  text += own_section<HeteroTable>("[hetero]", "How fast all sites with workers are.");
  text += own_section<focus::Config>(
      "[focus]", "An index of growing data instead of training (docs/focus.md).");
  text += own_section<focus::CheapConfig>(
      "[[focus.cheap]]", "A cheap model; of several one is chosen on the sample. Default: one.");
  text += own_section<focus::QueryConfig>("[[focus.query]]", "Asked in the simulator.");
  text += own_section<focus::ModelConfig>(
      "[[focus.model]]", "A cheap model that sites are given while they run, in the simulator.");
  text += own_section<FaultTable>("[[fault]]", "A fault, in the simulator alone.");
  text += own_section<SiteTable>("[[site]]", "One place; at least one.");
  return text;
}

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
  LH_TRY(learn::read_data(job.data));
  LH_TRY(learn::read_optimizer(job.optimizer));
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
  for (std::string_view name : {"sgd", "adagrad", "adam", "adamw", "muon"})
    parts.push_back(part("optimizer", name,
                         name == "muon" ? "orthogonalised momentum for matrices, adamw for the rest"
                                        : "as in torch::optim",
                         keys_in_use(only_kind("optimizer", name),
                                     describe(learn::OptimizerConfig{}), reads_optimizer)));
  return parts;
}

}  // namespace longhaul::run
