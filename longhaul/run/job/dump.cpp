#include "longhaul/run/job/dump.h"

#include <map>
#include <set>

#include <fmt/format.h>
#include <xxhash.h>

namespace longhaul::run {
namespace {

// 3 where a number is meant is 3.0, so that equal jobs are equal texts.
std::string value_text(const Value& value, const std::string& type) {
  const auto* whole = std::get_if<std::int64_t>(&value.data);
  return to_text(whole && type == "number" ? Value{double(*whole)} : value);
}

// A table's keys by their documentation, with what the settings say laid over the defaults.
void add_keys(ResolvedTable& table, const std::vector<FieldDoc>& docs, const Settings* settings) {
  for (const FieldDoc& doc : docs) {
    if (settings && doc.field.name == "kind") continue;  // written first
    const Setting* entry = settings ? settings->find(doc.field.name) : nullptr;
    if (!entry && doc.absent) continue;
    table.keys.push_back({std::string(doc.field.name),
                          entry ? value_text(entry->value, doc.type) : doc.value,
                          entry ? source_of(*entry) : "default", doc.field.doc, doc.field.local});
  }
}

template <class Config>
ResolvedTable own_table(std::string name, std::string header, const Config& config) {
  ResolvedTable table{std::move(name), std::move(header), {}};
  add_keys(table, describe(config), nullptr);
  return table;
}

// Every table of a list: "wan.link[0]" under [[wan.link]] ...
template <class Config>
void add_list(std::vector<ResolvedTable>& tables, std::string_view name,
              const std::vector<Config>& list) {
  for (std::size_t i = 0; i < list.size(); ++i)
    tables.push_back(
        own_table(fmt::format("{}[{}]", name, i), fmt::format("[[{}]]", name), list[i]));
}

// The keys' sources, for tables whose values were read into structs.
void name_sources(ResolvedTable& table, const Settings& written) {
  for (ResolvedKey& key : table.keys)
    if (const Setting* entry = written.find(key.key)) key.source = source_of(*entry);
}

ResolvedTable part_table(std::string_view name, const Settings& settings,
                         const std::vector<FieldDoc>& docs, const std::vector<FieldDoc>& common) {
  ResolvedTable table{std::string(name), fmt::format("[{}]", name), {}};
  const Setting* kind = settings.find("kind");
  if (kind) table.keys.push_back({"kind", to_text(kind->value), source_of(*kind), "", false});
  add_keys(table, docs, &settings);
  add_keys(table, common, nullptr);
  return table;
}

// Shortens the contents of a file, which may be long.
std::string brief(const std::string& value) {
  constexpr std::size_t kMost = 100;
  return value.size() <= kMost ? value : value.substr(0, kMost) + "...";
}

// The keys that are not local, by name; pointers into `tables`.
std::map<std::string, const ResolvedKey*> by_name(const std::vector<ResolvedTable>& tables) {
  std::map<std::string, const ResolvedKey*> keys;
  for (const ResolvedTable& table : tables)
    for (const ResolvedKey& key : table.keys)
      if (!key.local) keys[fmt::format("[{}] {}", table.name, key.key)] = &key;
  return keys;
}

// Returns true if a resumed run may change the key: keys of the end, of scoring, and of the sites
// that continue after a loss.
bool may_change(std::string_view name) {
  return name == "[net] continue_with" || name.starts_with("[stop] ") ||
         name.starts_with("[report] ") || name.starts_with("[run] ");
}

// "[site.tokyo] nodes" -> "[site.tokyo]".
std::string table_of(std::string_view name) {
  return std::string(name.substr(0, name.find("] ") + 1));
}
bool is_wan(std::string_view name) {
  return name.starts_with("[wan] ") || name.starts_with("[wan.");
}
// Returns the tables of the sites from number `from`.
std::set<std::string> site_tables(const Job& job, std::size_t from) {
  std::set<std::string> tables;
  for (std::size_t i = from; i < job.sites.size(); ++i)
    tables.insert("[site." + job.sites[i].name + "]");
  return tables;
}

// Adds the tables of the training: its model, data and parts.
void add_training(const Job& job, std::vector<ResolvedTable>& tables) {
  tables.push_back(own_table("stop", "[stop]", job.stop));
  tables.push_back(own_table("report", "[report]", job.report));
  tables.push_back(own_table("run", "[run]", job.run));
  tables.push_back(part_table("model", job.model, job.model_docs, {}));
  tables.push_back(part_table("data", job.data, job.data_docs, {}));
  tables.push_back(part_table("optimizer", job.optimizer, job.optimizer_docs, {}));
  tables.push_back(part_table("sync", job.sync.settings, job.sync.entry->describe(), {}));
  // Strategies that talk to a server by themselves refuse every key of [overlay] but kind.
  const bool served = entry_with(*job.sync.entry, job.sync.settings).traits.served;
  tables.push_back(part_table("overlay", job.overlay.settings,
                              served ? std::vector<FieldDoc>{} : job.overlay.entry->describe(),
                              {}));
  tables.push_back(own_table("roles", "[roles]", job.roles));
  if (served) tables.push_back(own_table("server", "[server]", job.server_table));
  tables.push_back(own_table("net", "[net]", job.net));
  tables.push_back(own_table("cost", "[cost]", job.cost));
  tables.push_back(part_table("transfer", job.transfer.settings, job.transfer.entry->describe(),
                              describe(job.transfer_common)));
  tables.push_back(part_table("codec", job.codec.settings, job.codec.entry->describe(), {}));
  tables.push_back(part_table("outer", job.outer.settings, job.outer.entry->describe(), {}));
}

void add_focus(const Job& job, std::vector<ResolvedTable>& tables) {
  tables.push_back(own_table("focus", "[focus]", *job.focus));
  if (job.focus->stream == "images")
    tables.push_back(part_table("data", job.data, job.data_docs, {}));
  add_list(tables, "focus.cheap", job.cheap);
  add_list(tables, "focus.query", job.queries);
  add_list(tables, "focus.model", job.given);
  tables.push_back(own_table("net", "[net]", job.net));
}

}  // namespace

std::vector<ResolvedTable> resolved(const Job& job) {
  std::vector<ResolvedTable> tables = {own_table("job", "[job]", job.job)};
  job.focus ? add_focus(job, tables) : add_training(job, tables);
  tables.push_back(own_table("wan", "[wan]", job.wan));
  add_list(tables, "wan.link", job.links);
  add_list(tables, "wan.shared", job.shared);
  add_list(tables, "wan.trace", job.traces);
  add_list(tables, "fault", job.faults);
  for (const SiteTable& site : job.sites)
    tables.push_back(own_table("site." + site.name, "[[site]]", site));
  std::map<std::string_view, const Settings*> written;
  for (const Settings& table : job.written) written.emplace(table.table, &table);
  for (ResolvedTable& table : tables)
    if (const auto found = written.find(table.name); found != written.end())
      name_sources(table, *found->second);
  return tables;
}

std::string to_toml(const Job& job) {
  std::string text =
      fmt::format("# {} as it was resolved: defaults and presets are written out.\n", job.job.name);
  for (const ResolvedTable& table : resolved(job)) {
    if (table.keys.empty()) continue;
    text += fmt::format("\n{}\n", table.header);
    for (const ResolvedKey& key : table.keys) text += fmt::format("{} = {}\n", key.key, key.value);
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> agreed_keys(const Job& job) {
  std::vector<std::pair<std::string, std::string>> keys;
  const std::vector<ResolvedTable> tables = resolved(job);
  for (const auto& [name, key] : by_name(tables)) keys.emplace_back(name, key->value);
  return keys;
}

std::uint64_t job_hash(const Job& job) {
  std::string text;
  for (const auto& [name, value] : agreed_keys(job)) text += fmt::format("{} = {}\n", name, value);
  return XXH64(text.data(), text.size(), 0);
}

std::uint64_t resume_hash(const Job& job, std::size_t sites) {
  std::string text;
  const std::set<std::string> added = site_tables(job, sites);
  for (const auto& [name, value] : agreed_keys(job))
    if (!may_change(name) && !is_wan(name) && !added.contains(table_of(name)))
      text += fmt::format("{} = {}\n", name, value);
  return XXH64(text.data(), text.size(), 0);
}

std::optional<std::string> difference(const Job& before, const Job& now, bool resumes) {
  std::set<std::string> added;
  if (resumes && now.sites.size() > before.sites.size()) {
    for (std::size_t i = 0; i < before.sites.size(); ++i)
      if (now.sites[i].name != before.sites[i].name)
        return fmt::format("[[site]] {}: was {}, is {}; sites are added after all others", i + 1,
                           before.sites[i].name, now.sites[i].name);
    added = site_tables(now, before.sites.size());
  }
  const auto skips = [&](const std::string& name) {
    return (resumes && may_change(name)) ||
           (!added.empty() && (is_wan(name) || added.contains(table_of(name))));
  };
  const auto old_tables = resolved(before), new_tables = resolved(now);
  const auto old_keys = by_name(old_tables), new_keys = by_name(new_tables);
  for (const auto& [name, key] : new_keys) {
    if (skips(name)) continue;
    const auto old = old_keys.find(name);
    if (old == old_keys.end())
      return fmt::format("{}: was not set, is {}", name, brief(key->value));
    if (old->second->value != key->value)
      return fmt::format("{}: was {}, is {}", name, brief(old->second->value), brief(key->value));
  }
  for (const auto& [name, key] : old_keys)
    if (!new_keys.contains(name) && !skips(name))
      return fmt::format("{}: was {}, is not set", name, brief(key->value));
  return std::nullopt;
}

}  // namespace longhaul::run
