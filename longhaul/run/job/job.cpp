#include "longhaul/run/job/job.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "longhaul/base/settings.h"
#include "longhaul/codec/registry.h"
#include "longhaul/flow/relays.h"
#include "longhaul/outer/registry.h"
#include "longhaul/overlay/registry.h"
#include "longhaul/run/job/check.h"
#include "longhaul/run/job/hetero.h"
#include "longhaul/run/job/reference.h"
#include "longhaul/run/job/trace_file.h"
#include "longhaul/run/job/wan.h"
#include "longhaul/sync/registry.h"
#include "longhaul/transfer/registry.h"

namespace longhaul::run {
namespace {

constexpr std::size_t kMostErrors = 20;

// The subject of an error: "job.toml:12: [sync] steps: ...".
struct Subject {
  std::string table, key;
};

Subject subject_of(const std::string& what) {
  Subject subject;
  const std::size_t open = what.find('['), close = what.find("] ", open);
  if (open == std::string::npos || close == std::string::npos) return subject;
  subject.table = what.substr(open + 1, close - open - 1);
  const std::size_t end = what.find_first_of(": ", close + 2);
  subject.key = what.substr(close + 2, end == std::string::npos ? end : end - close - 2);
  return subject;
}

int line_of(const std::string& file, const std::string& what) {
  int line = 0;
  if (what.starts_with(file + ":"))
    std::from_chars(what.data() + file.size() + 1, what.data() + what.size(), line);
  return line;
}

// Returns a replacement for a bad kind in a table without a default: the intended kind if it can be
// guessed. Errors about other tables then fit that kind.
std::string stand_in(const Settings& table, const Subject& subject) {
  if (subject.table == "model") return "phantom";
  std::vector<std::string_view> names;
  for (const SyncEntry& entry : sync::registry()) names.push_back(entry.name);
  const std::string_view near = nearest(table.text("kind").value_or(""), names);
  return std::string(near.empty() ? names.front() : near);
}

// Returns true for parts that exist but cannot be combined: "[sync] kind = "fedasync" talks to its
// server ...".
bool is_combination(const std::string& what) {
  const Subject subject = subject_of(what);
  return subject.key == "kind" &&
         what.find(fmt::format("[{}] kind = ", subject.table)) != std::string::npos;
}

// Takes out the key. For a bad kind clears the table, whose keys cannot be checked without a kind.
bool take_out(Document& doc, const Subject& subject) {
  for (auto* list : {&doc.tables, &doc.sites, &doc.links, &doc.shared, &doc.traces, &doc.queries,
                     &doc.given, &doc.cheap, &doc.faults, &doc.variants}) {
    const auto table = std::find_if(list->begin(), list->end(), [&](const Settings& one) {
      return one.table == subject.table && one.find(subject.key);
    });
    if (table == list->end()) continue;
    if (subject.key != "kind") {
      std::erase_if(table->entries, [&](const Setting& one) { return one.key == subject.key; });
      return true;
    }
    const std::string kind = stand_in(*table, subject);
    table->entries.clear();
    if (subject.table == "sync" || subject.table == "model")
      table->set({"kind", {kind}, doc.file, 0});
    return true;
  }
  return false;
}

// Adds the names of other tables that have an unknown key.
std::string with_right_table(const std::string& what) {
  constexpr std::string_view kUnknown = ": unknown key";
  if (what.find(kUnknown) == std::string::npos) return what;
  const Subject subject = subject_of(what);
  const std::vector<std::string> tables = tables_with(subject.key);
  constexpr std::size_t kMost = 4;  // more are no hint
  if (tables.empty() || tables.size() > kMost ||
      std::ranges::count(tables, "[" + subject.table + "]") > 0)
    return what;
  const std::size_t at = what.find(kUnknown) + kUnknown.size();
  return what.substr(0, at) +
         fmt::format("; '{}' belongs in {}", subject.key, fmt::join(tables, ", ")) +
         what.substr(at);
}

// `first` is the reason why `resolve` refuses the document. Takes out the key at fault and resolves
// again, until there is no error or the next error follows from a removed key. The result has a
// line for each error, in the order of the file.
Error every_error(Document doc, const Error& first,
                  const std::function<Result<Job>(Document)>& resolve) {
  std::vector<Error> errors = std::exchange(doc.mistakes, {});
  const bool lacks_tables = !errors.empty();
  std::set<std::pair<std::string, std::string>> taken;  // table and key; "": all of the table
  Result<Job> job = lacks_tables ? resolve(doc) : Result<Job>(first);
  while (!job && errors.size() < kMostErrors) {
    const std::string& what = job.error().what;
    const Subject subject = subject_of(what);
    const bool changed =
        lacks_tables || std::any_of(taken.begin(), taken.end(),
                                    [&](const auto& one) { return one.first == subject.table; });
    const bool follows = taken.contains({subject.table, subject.key}) ||
                         taken.contains({subject.table, ""}) ||
                         (changed && what.find(": missing") != std::string::npos);
    if (follows) break;
    errors.push_back(job.error());
    // The wrong part is not known, so none can be taken out.
    if (is_combination(what) || !take_out(doc, subject)) break;
    taken.insert({subject.table, subject.key == "kind" ? "" : subject.key});
    job = resolve(doc);
  }
  std::stable_sort(errors.begin(), errors.end(), [&](const Error& a, const Error& b) {
    return line_of(doc.file, a.what) < line_of(doc.file, b.what);
  });
  std::string text;
  for (const Error& error : errors)
    text += (text.empty() ? "" : "\n") + with_right_table(error.what);
  return {first.kind, text};
}

// Splits "for.diloco.outer" into {"diloco", "outer"}.
std::pair<std::string_view, std::string_view> split_variant(std::string_view table) {
  table.remove_prefix(std::string_view("for.").size());
  const std::size_t dot = table.rfind('.');
  return {table.substr(0, dot), table.substr(dot + 1)};
}

bool of_command_line(const Setting& entry) {
  return entry.file == "--set" || entry.file == "--wan";
}

// Lays [for.KIND.TABLE] over [TABLE] for the chosen kind; the command line stays on top. Returns an
// Error for a KIND that does not exist.
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
    // Another kind: the keys of [TABLE] belong to the kind in that table.
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

// Sets the kind's presets where the file has no value. Returns all of them.
std::vector<AppliedPreset> apply_presets(Document& doc, const SyncEntry& sync) {
  std::vector<AppliedPreset> applied;
  const std::vector<Preset> presets = sync.presets;
  const std::string source = fmt::format("preset of {}", sync.name);
  // A table for which the file chooses another kind gets none of the presets.
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

// Refuses the tables of training: [focus] indexes data and trains nothing.
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

// Chooses the strategy first, because [for.KIND.TABLE] can change any table.
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

// Reads the kinds of all parts, and the tables that learn/ reads.
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

// Returns the network with site names. All nodes share this object.
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

// server() and workers() are used to build every node, so neither makes a list of all members.
std::optional<Rank> Job::server() const {
  bool added = false;
  Rank nodes = 0;  // at earlier sites
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

// Finds a matrix next to the file that names it, the job or that of --wan, or else in the current
// folder. The path becomes absolute, because the resolved job is written elsewhere. A path of the
// command line is relative to the current folder.
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

// Finds data and models in the current folder, or else next to the job file that names them.
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
  LH_LET(network, build_wan(doc, job));
  std::vector<bool> dials_out;
  for (const SiteTable& site : job.sites) dials_out.push_back(site.dial_out);
  job.network = flow::through_relays(std::move(network), dials_out);
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
  for (const char* table : {"model", "data"})
    if (overrides.own && !doc.find("focus") && !doc.table(table).find("kind"))
      doc.table(table).set({"kind", {std::string("own")}, "default", 0});
  settle_data_paths(doc);
  return doc;
}

Result<Job> load_job(const std::string& path, const Overrides& overrides) {
  LH_LET(doc, load_document(path, overrides));
  return resolve_job(std::move(doc));
}

}  // namespace longhaul::run
