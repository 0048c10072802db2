#include "longhaul/run/job/job.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "longhaul/codec/registry.h"
#include "longhaul/flow/relays.h"
#include "longhaul/outer/registry.h"
#include "longhaul/overlay/registry.h"
#include "longhaul/run/job/check.h"
#include "longhaul/run/job/every_error.h"
#include "longhaul/run/job/hetero.h"
#include "longhaul/run/job/learning.h"
#include "longhaul/run/job/presets.h"
#include "longhaul/run/job/trace_file.h"
#include "longhaul/run/job/wan.h"
#include "longhaul/sync/registry.h"
#include "longhaul/transfer/registry.h"

namespace longhaul::run {
namespace {

// Moves the keys of `Common` from a part's table to a table of their own.
template <class Entry, class Common>
Status read_common(Choice<Entry>& part, Common& into) {
  Settings& table = part.settings;
  const auto names = field_names<Common>();
  const std::vector<FieldDoc> own_keys = part.entry->describe();
  std::vector<std::string_view> known = names;
  known.push_back("kind");
  for (const FieldDoc& doc : own_keys) known.push_back(doc.field.name);
  LH_TRY(refuse_unknown(table, known));
  Settings own{table.table, table.file, table.line, {}};
  std::erase_if(table.entries, [&](const Setting& entry) {
    const bool mine = std::find(names.begin(), names.end(), entry.key) != names.end();
    if (mine) own.entries.push_back(entry);
    return mine;
  });
  return read_settings(own, into, {});
}

Result<std::string> kind_of(Settings& table, std::string_view fallback) {
  const Setting* entry = table.find("kind");
  if (!entry) {
    table.set({"kind", {std::string(fallback)}, "default", 0});
    return std::string(fallback);
  }
  const auto* text = std::get_if<std::string>(&entry->value.data);
  if (!text) return bad_setting(table, *entry, "a kind in quotes");
  return *text;
}

template <class Entry>
Status choose(Document& doc, std::string_view table, std::span<const Entry> registry,
              Choice<Entry>& into) {
  Settings& settings = doc.table(table);
  LH_LET(kind, kind_of(settings, registry.front().name));
  LH_LET(entry, find_entry(registry, settings, kind));
  into = {entry, settings};
  return Ok{};
}

Status need_kind(Document& doc, std::string_view table, std::string_view example) {
  const Settings& settings = doc.table(table);
  if (settings.find("kind")) return Ok{};
  return invalid(fmt::format("{}: [{}] kind: missing; for example kind = \"{}\"",
                             source_of(doc.file, settings.line), table, example));
}

// [focus] indexes data: nothing is trained.
Status refuse_training(const Document& doc) {
  for (const std::string_view name :
       {"stop", "report", "model", "optimizer", "sync", "overlay", "roles", "server", "transfer",
        "codec", "outer", "hetero", "cost", "run"})
    if (const Settings* table = doc.find(name); table && !table->entries.empty())
      return bad_setting(*table, table->entries.front(),
                         "no such table beside [focus], which trains nothing");
  if (!doc.variants.empty())
    return invalid(fmt::format("{}: [{}]: expected no such table beside [focus]",
                               source_of(doc.file, doc.variants[0].line), doc.variants[0].table));
  return Ok{};
}

// The strategy comes first: [for.KIND.TABLE] may change any table.
Status choose_sync(Document& doc, Job& job) {
  if (doc.find("focus")) {
    LH_TRY(refuse_training(doc));
    doc.table("model").set({"kind", {std::string("phantom")}, "default", 0});
    doc.table("sync").set({"kind", {std::string(sync::registry().front().name)}, "default", 0});
  }
  LH_TRY(need_kind(doc, "model", "lenet"));
  LH_TRY(need_kind(doc, "sync", sync::registry().front().name));
  LH_TRY(choose(doc, "sync", sync::registry(), job.sync));
  return apply_variants(doc, job.sync.entry->name);
}

// The kinds of all parts, and the tables that learn/ reads.
Status read_parts(Document& doc, Job& job) {
  job.presets = apply_presets(doc, *job.sync.entry);
  LH_TRY(choose(doc, "sync", sync::registry(), job.sync));
  LH_TRY(choose(doc, "overlay", overlay::registry(), job.overlay));
  LH_TRY(choose(doc, "transfer", transfer::registry(), job.transfer));
  LH_TRY(choose(doc, "codec", codec::registry(), job.codec));
  LH_TRY(choose(doc, "outer", outer::registry(), job.outer));
  LH_LET(feedback, codec::wants_error_feedback(job.codec.settings));
  job.error_feedback = feedback;
  LH_TRY(read_common(job.transfer, job.transfer_common));
  for (auto [table, into, fallback] :
       {std::tuple{"model", &job.model, ""}, std::tuple{"data", &job.data, "none"},
        std::tuple{"optimizer", &job.optimizer, "sgd"}}) {
    LH_LET(kind, kind_of(doc.table(table), fallback));
    *into = doc.table(table);
  }
  return read_learning(job);
}

Status read_tables(Document& doc, Job& job) {
  LH_TRY(read_settings(doc.table("job"), job.job, {}));
  LH_TRY(read_settings(doc.table("stop"), job.stop, {}));
  LH_TRY(read_settings(doc.table("report"), job.report, {}));
  LH_TRY(read_settings(doc.table("run"), job.run, {}));
  LH_TRY(read_settings(doc.table("roles"), job.roles, {}));
  LH_TRY(read_settings(doc.table("server"), job.server_table, {}));
  LH_TRY(read_settings(doc.table("net"), job.net, {}));
  LH_TRY(read_settings(doc.table("cost"), job.cost, {}));
  LH_TRY(read_settings(doc.table("wan"), job.wan, {}));
  for (const Settings& link : doc.links) LH_TRY(read_settings(link, job.links.emplace_back(), {}));
  for (const Settings& one : doc.shared) LH_TRY(read_settings(one, job.shared.emplace_back(), {}));
  for (const Settings& one : doc.traces) LH_TRY(read_settings(one, job.traces.emplace_back(), {}));
  for (const Settings& site : doc.sites) LH_TRY(read_settings(site, job.sites.emplace_back(), {}));
  if (const Settings* focus = doc.find("focus"))
    LH_TRY(read_settings(*focus, job.focus.emplace(), {}));
  for (const Settings& one : doc.queries)
    LH_TRY(read_settings(one, job.queries.emplace_back(), {}));
  for (const Settings& one : doc.given) LH_TRY(read_settings(one, job.given.emplace_back(), {}));
  for (const Settings& one : doc.cheap) LH_TRY(read_settings(one, job.cheap.emplace_back(), {}));
  for (const Settings& one : doc.faults) LH_TRY(read_settings(one, job.faults.emplace_back(), {}));
  for (const auto* list : {&doc.tables, &doc.links, &doc.shared, &doc.traces, &doc.queries,
                           &doc.given, &doc.cheap, &doc.faults, &doc.sites})
    job.written.insert(job.written.end(), list->begin(), list->end());
  return Ok{};
}

// All nodes believe in one object.
std::shared_ptr<const flow::Wan> named(flow::Wan network, const std::vector<SiteTable>& sites) {
  for (std::size_t i = 0; i < sites.size(); ++i) network.sites[i].name = sites[i].name;
  return std::make_shared<const flow::Wan>(std::move(network));
}

bool has_role(const SiteTable& site, std::string_view role) {
  return std::ranges::find(site.roles, role) != site.roles.end();
}

}  // namespace

std::string Job::kind(std::string_view table) const {
  for (const Settings* settings : {&model, &data, &optimizer, &sync.settings, &overlay.settings,
                                   &transfer.settings, &codec.settings, &outer.settings})
    if (settings->table == table)
      if (const Setting* entry = settings->find("kind"))
        return std::get<std::string>(entry->value.data);
  return "";
}

Members Job::members() const {
  Members members;
  for (const SiteTable& site : sites) {
    std::uint8_t roles = 0;
    for (const std::string& role : site.roles) roles |= role_bit(role);
    for (std::uint32_t i = 0; i < site.nodes; ++i) members.push_back({site.name, i, 0, roles});
  }
  for (const SiteTable& site : sites)
    if (adds_server(site))
      members.push_back({site.name, site.nodes, 0, std::uint8_t(Role::server)});
  return members;
}

bool Job::adds_server(const SiteTable& site) const {
  return roles.server == site.name && !has_role(site, "server");
}

bool Job::leaves_out(const std::string& site) const {
  return std::ranges::find(run.without, site) != run.without.end();
}

// Every node is built with both, so neither makes a list of all members.
std::optional<Rank> Job::server() const {
  bool added = false;
  Rank nodes = 0;  // before the site
  for (const SiteTable& site : sites) {
    if (roles.server == site.name && has_role(site, "server")) return nodes;
    added |= adds_server(site);
    nodes += site.nodes;
  }
  return added ? std::optional(nodes) : std::nullopt;
}

std::size_t Job::workers() const {
  std::size_t count = 0;
  for (const SiteTable& site : sites)
    if (has_role(site, "worker")) count += site.nodes;
  return count;
}

namespace {

// A matrix beside the file that names it, the job or that of --wan, or else in the current folder;
// absolute, since the resolved job is written elsewhere. A path of the command line is relative to
// where that was typed.
void settle_matrix_paths(Document& doc) {
  if (!doc.find("wan")) return;
  Settings& wan = doc.table("wan");
  for (const char* key : {"mbps_csv", "rtt_ms_csv"}) {
    const Setting* entry = wan.find(key);
    const auto text = wan.text(key);
    if (!entry || !text || text->empty()) continue;
    namespace fs = std::filesystem;
    const fs::path base =
        entry->file == "--set" ? fs::current_path() : fs::absolute(entry->file).parent_path();
    std::error_code code;
    fs::path found = base / *text;
    if (!fs::exists(found, code) && fs::exists(fs::current_path() / *text, code))
      found = fs::current_path() / *text;
    Setting settled = *entry;
    settled.value = {found.lexically_normal().string()};
    wan.set(std::move(settled));
  }
}

// Data and models in the current folder, or else beside the job file that names them.
void settle_path(Settings& table, const char* key) {
  namespace fs = std::filesystem;
  const Setting* entry = table.find(key);
  const auto text = table.text(key);
  if (!entry || !text || text->empty() || entry->file == "--set") return;
  const fs::path beside = fs::path(entry->file).parent_path() / *text;
  std::error_code code;
  if (fs::path(*text).is_absolute() || fs::exists(*text, code) || !fs::exists(beside, code)) return;
  Setting settled = *entry;
  settled.value = {beside.lexically_normal().string()};
  table.set(std::move(settled));
}

void settle_data_paths(Document& doc) {
  for (Settings& table : doc.tables) {
    if (table.table == "data") settle_path(table, "path"), settle_path(table, "test_path");
    if (table.table == "model") settle_path(table, "path");
  }
  for (Settings& site : doc.sites) settle_path(site, "data");
}

Result<Job> resolve_once(Document doc) {
  if (!doc.mistakes.empty()) return doc.mistakes.front();
  Job job;
  job.file = doc.file;
  LH_TRY(choose_sync(doc, job));
  LH_TRY(add_sites(doc));
  LH_TRY(expand_hetero(doc));
  LH_TRY(read_trace_files(doc));
  LH_TRY(read_tables(doc, job));
  LH_TRY(settle_step_times(doc, job));
  LH_TRY(read_parts(doc, job));
  if (job.job.name.empty()) job.job.name = default_name(doc.file);
  LH_TRY(check_job(doc, job));
  auto network = build_wan(doc, job);
  if (!network) return network.error();
  std::vector<bool> dials_out;
  for (const SiteTable& site : job.sites) dials_out.push_back(site.dial_out);
  job.network = flow::through_relays(*std::move(network), dials_out);
  job.believed = named(job.network, job.sites);
  return job;
}

}  // namespace

Result<Job> resolve_job(Document doc) {
  auto job = resolve_once(doc);
  if (job) return job;
  return every_error(std::move(doc), job.error(), resolve_once);
}

Result<Document> load_document(const std::string& path, const Overrides& overrides) {
  LH_LET(doc, read_document(path, /*collects=*/true));
  if (!overrides.wan.empty()) LH_TRY(replace_wan(doc, overrides.wan));
  auto names_wan = [](const std::string& set) { return set.starts_with("wan."); };
  for (const std::string& set : overrides.sets)
    if (names_wan(set)) LH_TRY(override_setting(doc, set));
  settle_matrix_paths(doc);
  LH_TRY(add_sites(doc));
  for (const std::string& set : overrides.sets)
    if (!names_wan(set)) LH_TRY(override_setting(doc, set));
  settle_data_paths(doc);
  return doc;
}

Result<Job> load_job(const std::string& path, const Overrides& overrides) {
  auto doc = load_document(path, overrides);
  if (!doc) return doc.error();
  return resolve_job(*std::move(doc));
}

}  // namespace longhaul::run
