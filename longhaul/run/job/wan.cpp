#include "longhaul/run/job/wan.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <toml++/toml.h>
#include <xxhash.h>

#include "longhaul/run/job/check.h"
#include "longhaul/run/job/matrix_wan.h"

namespace longhaul::run {
namespace {

using Members = std::map<std::string, std::vector<std::uint32_t>, std::less<>>;  // sites by group

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
    LH_LET(matrix, parse_matrix(file.text, std::string(file.name), kind));
    return std::optional<Matrix>(std::move(matrix));
  }
  return unavailable(fmt::format("{}: no such matrix among the presets", *name));
}

// Adds the sites of [[group]], called as the group, or NAME-1 .. NAME-count.
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

// Adds [[between]]: all pairs from a site of one group to one of the other, and back.
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
    LH_LET(from_files, wan_of_matrices(rates, rtts, names));
    wan = std::move(from_files);
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

using What = flow::Traced::What;

constexpr std::size_t kMaxValues = 1 << 24;  // in all traced quantities together: 256 MiB

flow::Wan::Shared shared_of(const Job& job, const SiteIndex& sites, const SharedTable& table) {
  std::set<flow::SitePair> pairs;
  for (const std::string& from : table.from)
    for (const std::string& to : table.to) {
      const std::uint32_t a = sites.at(from), b = sites.at(to);
      if (a == b) continue;
      pairs.insert({a, b});
      if (table.both) pairs.insert({b, a});
    }
  return {.name = table.name,
          .rate = flow::bytes_per_second(*table.mbps) * job.wan.rate_scale,
          .pairs = {pairs.begin(), pairs.end()}};
}

What what_of(const TraceTable& table) {
  if (table.what == "up") return What::up;
  if (table.what == "down") return What::down;
  if (table.what == "rate") return What::rate;
  return table.what == "delay" ? What::delay : What::loss;
}

// The traces of a network, at most one for each quantity.
class Traces {
 public:
  Traces(flow::Wan& wan, const Job& job, const SiteIndex& sites)
      : wan_(wan), job_(job), sites_(sites) {}

  // Returns the number of quantities that follow the table.
  std::size_t add(const TraceTable& table) {
    const std::size_t before = wan_.traces.size();
    follow(table);
    return wan_.traces.size() - before;
  }

  bool too_many() const { return values_ > kMaxValues; }

  void add(const WanPreset::Redraw& redraw) {
    for (const LinkTable& link : job_.links) {
      if (!link.mbps) continue;
      const std::uint32_t from = sites_.at(link.from), to = sites_.at(link.to);
      taken_.insert({What::rate, {from, to}});
      if (link.both) taken_.insert({What::rate, {to, from}});
    }
    TraceTable all;
    all.kind = "redraw";
    all.every_s = redraw.every_s;
    all.low = redraw.lowest_mbps;
    all.high = redraw.highest_mbps;
    follow(all);
  }

 private:
  void follow(const TraceTable& table) {
    if (table.what == "shared") return add_shared(table);
    const What what = what_of(table);
    const bool of_site = what == What::up || what == What::down;
    // rate_scale applies between sites only.
    const flow::Trace trace = trace_of(table, of_site ? 1 : job_.wan.rate_scale);
    const auto count = std::uint32_t(job_.sites.size());
    for (std::uint32_t a = 0; a < count; ++a) {
      if (of_site && meant(table.site, a)) follow(what, a, 0, trace);
      if (of_site || !meant(table.from, a)) continue;
      for (std::uint32_t b = 0; b < count; ++b)
        if (a != b && meant(table.to, b)) follow(what, a, b, trace);
    }
  }

  void add_shared(const TraceTable& table) {
    for (std::uint32_t i = 0; i < wan_.shared.size(); ++i)
      if (wan_.shared[i].name == table.shared)
        follow(What::shared, i, 0, trace_of(table, job_.wan.rate_scale));
  }
  void follow(What what, std::uint32_t a, std::uint32_t b, const flow::Trace& trace) {
    if (!taken_.insert({what, {a, b}}).second) return;
    values_ += trace.values.size();
    if (!too_many()) wan_.traces.push_back({what, a, b, trace});
  }
  bool meant(const std::string& name, std::uint32_t site) const {
    return name.empty() || job_.sites[site].name == name;
  }

  flow::Wan& wan_;
  const Job& job_;
  const SiteIndex& sites_;
  std::set<std::pair<What, flow::SitePair>> taken_;
  std::size_t values_ = 0;
};

constexpr double kUsualDelayMs = 20;

std::string text_of(const Document& doc, std::string_view key) {
  const Settings* table = doc.find("wan");
  return table ? table->text(key).value_or("") : "";
}

Result<const WanPreset*> preset_of(const Document& doc, const std::string& name) {
  const WanPreset* preset = find_wan_preset(name);
  if (!preset)
    return about(doc, "wan", "preset",
                 "a known network" + suggestion(name, wan_preset_names()) +
                     (name.ends_with(".csv")
                          ? ", or a .toml with [wan] mbps_csv and rtt_ms_csv for (matrices)"
                          : ""));
  return preset;
}

// Prefixes an error about a matrix with the key that names its file.
Error through(const Document& doc, std::string_view key, const Error& error) {
  const Settings* table = doc.find("wan");
  const Setting* entry = table ? table->find(key) : nullptr;
  const std::string place = entry ? source_of(*entry) : doc.file;
  return {error.kind, fmt::format("{}: [wan] {}: {}", place, key, error.what)};
}

Result<std::optional<Matrix>> matrix_of(const Document& doc, std::string_view key,
                                        const CellKind& kind) {
  const std::string path = text_of(doc, key);
  if (path.empty()) return std::optional<Matrix>{};
  auto matrix = read_matrix(path, kind);
  if (!matrix && matrix.error().kind == Error::Kind::unavailable)
    return through(doc, key,
                   {matrix.error().kind, matrix.error().what +
                                             "; it was looked for beside the file that names it, "
                                             "and in the current folder"});
  if (!matrix) return through(doc, key, matrix.error());
  return std::optional<Matrix>(*std::move(matrix));
}

struct Matrices {
  std::optional<Matrix> mbps, rtt_ms;
  std::string digest() const {
    std::string text;
    for (const auto& [kind, matrix] : {std::pair{"mbps", &mbps}, std::pair{"rtt_ms", &rtt_ms}}) {
      if (!*matrix) continue;
      text += fmt::format("{} {}", kind, fmt::join((*matrix)->names, ","));
      for (double cell : (*matrix)->cells) text += fmt::format(" {}", cell);
    }
    return fmt::format("{:016x}", XXH64(text.data(), text.size(), 0));
  }
};

Result<Matrices> matrices_of(const Document& doc) {
  Matrices both;
  LH_LET(rates, matrix_of(doc, "mbps_csv", kRateCells));
  LH_LET(rtts, matrix_of(doc, "rtt_ms_csv", kRttCells));
  both.mbps = std::move(rates);
  both.rtt_ms = std::move(rtts);
  return both;
}

// Checks that there is one source of rates and one of delays.
Status check_sources(const Document& doc, const WanTable& wan) {
  if (!wan.preset.empty()) {
    for (const auto& [key, given] :
         {std::pair{"mbps", wan.mbps.has_value()}, std::pair{"delay_ms", wan.delay_ms.has_value()},
          std::pair{"mbps_csv", !wan.mbps_csv.empty()},
          std::pair{"rtt_ms_csv", !wan.rtt_ms_csv.empty()}})
      if (given)
        return about(doc, "wan", key,
                     fmt::format("no {} beside preset = \"{}\": it has rates and delays; change "
                                 "pairs with [[wan.link]], or all rates with rate_scale",
                                 key, wan.preset));
  }
  if (wan.mbps && !wan.mbps_csv.empty())
    return about(doc, "wan", "mbps", "no mbps beside mbps_csv: it has the rate of every pair");
  if (wan.delay_ms && !wan.rtt_ms_csv.empty())
    return about(doc, "wan", "delay_ms",
                 "no delay_ms beside rtt_ms_csv: it has the delay of every pair");
  if (!wan.matrices.empty() && wan.mbps_csv.empty() && wan.rtt_ms_csv.empty())
    return about(doc, "wan", "matrices", "mbps_csv or rtt_ms_csv beside it");
  return Ok{};
}

// Returns `from`, reduced to the job's sites in the job's order.
Result<flow::Wan> selected(const flow::Wan& from, const Document& doc, const Job& job,
                           const std::string& source) {
  const SiteIndex known(from.sites);
  flow::Wan wan;
  wan.usual = from.usual;
  std::vector<std::optional<std::uint32_t>> now(from.sites.size());
  for (std::uint32_t i = 0; i < job.sites.size(); ++i) {
    const std::string& name = job.sites[i].name;
    const auto found = known.find(name);
    if (!found)
      return about(doc.sites[i], "name",
                   fmt::format("a site of {}{}", source, suggestion(name, known.names())));
    now[*found] = i;
    wan.sites.push_back(from.sites[*found]);
  }
  for (const auto& [way, pair] : from.pairs)
    if (now[way.first] && now[way.second]) wan.pairs[{*now[way.first], *now[way.second]}] = pair;
  for (const flow::Wan::Shared& shared : from.shared) {
    flow::Wan::Shared left{shared.name, shared.rate, {}};
    for (const auto& [a, b] : shared.pairs)
      if (now[a] && now[b]) left.pairs.push_back({*now[a], *now[b]});
    if (!left.pairs.empty()) wan.shared.push_back(std::move(left));
  }
  return wan;
}

// Returns any number of sites like the preset's first.
flow::Wan spread(const flow::Wan& from, const Job& job) {
  flow::Wan wan;
  wan.usual = from.usual;
  for (const SiteTable& site : job.sites) {
    wan.sites.push_back(from.sites.front());
    wan.sites.back().name = site.name;
  }
  return wan;
}

flow::Wan uniform(const Job& job) {
  flow::Wan wan;
  for (const SiteTable& site : job.sites) wan.sites.push_back({site.name, {}, {}, {}});
  return wan;
}

struct Base {
  flow::Wan wan;
  WanPreset::Windowed windowed = WanPreset::Windowed::no;
};

Result<Base> base_of(const Document& doc, Job& job) {
  LH_TRY(check_sources(doc, job.wan));
  if (!job.wan.preset.empty()) {
    LH_LET(preset, preset_of(doc, job.wan.preset));
    const WanPreset& chosen = *preset;
    if (chosen.any_sites) return Base{spread(chosen.wan, job), chosen.windowed};
    LH_LET(wan, selected(chosen.wan, doc, job, "preset " + chosen.name));
    return Base{std::move(wan), chosen.windowed};
  }
  LH_LET(matrices, matrices_of(doc));
  flow::Wan wan = uniform(job);
  if (matrices.mbps || matrices.rtt_ms) {
    const std::string digest = matrices.digest();
    if (!job.wan.matrices.empty() && job.wan.matrices != digest)
      return about(doc, "wan", "matrices",
                   fmt::format("\"{}\", which is what the files hold now: they have changed since "
                               "the job began; put the old ones back, or leave this key out",
                               digest));
    job.wan.matrices = digest;
    auto all = wan_of_matrices(matrices.mbps, matrices.rtt_ms, {});
    if (!all) return through(doc, "rtt_ms_csv", all.error());
    LH_LET(few, selected(*all, doc, job, (matrices.mbps ? matrices.mbps : matrices.rtt_ms)->file));
    wan = std::move(few);
  }
  // Values that the matrices lack are the same for all pairs.
  const double delay_s = job.wan.delay_ms.value_or(kUsualDelayMs) / 1000;
  const flow::Rate rate =
      job.wan.mbps ? flow::Rate(flow::bytes_per_second(*job.wan.mbps)) : std::nullopt;
  if (!matrices.mbps) wan.usual.rate = rate;
  if (!matrices.rtt_ms) wan.usual.delay_s = delay_s;
  for (auto& [way, pair] : wan.pairs) {
    if (!matrices.mbps) pair.rate = rate;
    if (!matrices.rtt_ms) pair.delay_s = delay_s;
  }
  return Base{std::move(wan), WanPreset::Windowed::no};
}

template <class Change>
void change_all(flow::Wan& wan, Change&& change) {
  change(wan.usual);
  for (auto& [way, pair] : wan.pairs) change(pair);
}

// Calls change(link, pair) for every direction that a [[wan.link]] names.
template <class Change>
void change_links(flow::Wan& wan, const Job& job, const SiteIndex& sites, Change&& change) {
  for (const LinkTable& link : job.links) {
    const std::uint32_t from = sites.at(link.from), to = sites.at(link.to);
    for (const flow::SitePair& way : {flow::SitePair{from, to}, flow::SitePair{to, from}}) {
      if (way.first == to && !link.both) continue;
      change(link, wan.pairs.emplace(way, wan.pair(way.first, way.second)).first->second);
    }
  }
}

void add_windows(flow::Wan& wan, const WanTable& table, WanPreset::Windowed windowed) {
  using enum WanPreset::Windowed;
  if (windowed == no && table.window_mb) windowed = connection;
  if (windowed == no) return;
  Window window;
  window.mbytes = table.window_mb.value_or(window.mbytes);
  window.max_mbps = table.single_max_mbps.value_or(window.max_mbps);
  change_all(wan, [&](flow::Wan::Pair& way) {
    (windowed == pair ? way.rate : way.flow) = window_rate(window, 2 * way.delay_s);
  });
}

void set_sites(flow::Wan& wan, const Job& job) {
  auto rate = [](const std::optional<double>& mbps, flow::Rate otherwise) {
    return mbps ? flow::Rate(flow::bytes_per_second(*mbps)) : otherwise;
  };
  for (std::size_t i = 0; i < job.sites.size(); ++i) {
    flow::Wan::Site& site = wan.sites[i];
    site.up = rate(job.sites[i].up_mbps, rate(job.wan.up_mbps, site.up));
    site.down = rate(job.sites[i].down_mbps, rate(job.wan.down_mbps, site.down));
    site.lan = rate(job.wan.lan_mbps, site.lan);
    site.nodes = job.sites[i].nodes + (job.adds_server(job.sites[i]) ? 1 : 0);
  }
}

}  // namespace

double window_rate(const Window& window, double round_trip_s) {
  const double most = flow::bytes_per_second(window.max_mbps);
  const double windowed = window.mbytes * 1e6;
  return round_trip_s * most > windowed ? windowed / round_trip_s : most;
}

flow::Wan preset_network(const WanPreset& preset) {
  flow::Wan wan = preset.wan;
  add_windows(wan, WanTable{}, preset.windowed);
  return wan;
}

Status add_sites(Document& doc) {
  if (!doc.sites.empty()) return Ok{};
  std::vector<std::string> names;
  std::string source;
  if (const std::string preset = text_of(doc, "preset"); !preset.empty()) {
    LH_LET(found, preset_of(doc, preset));
    for (const flow::Wan::Site& site : found->wan.sites) names.push_back(site.name);
    source = "preset " + preset;
  } else {
    LH_LET(matrices, matrices_of(doc));
    const std::optional<Matrix>& matrix = matrices.mbps ? matrices.mbps : matrices.rtt_ms;
    if (!matrix) return Ok{};
    names = matrix->names;
    source = matrix->file;
  }
  for (const std::string& name : names)
    doc.sites.push_back({"site." + name, source, 0, {{"name", {name}, source, 0}}});
  return Ok{};
}

Status replace_wan(Document& doc, const std::string& network) {
  std::optional<Document> file;
  if (network.ends_with(".toml")) {
    auto text = read_text_file(network, "network file (TOML) of longhaul doctor --write-wan");
    if (!text) return Error{text.error().kind, "--wan: " + text.error().what};
    auto read = parse_document(*text, network);
    if (!read) return Error{read.error().kind, "--wan: " + read.error().what};
    if (!read->find("wan"))
      return invalid(network + ": --wan: expected a [wan], as longhaul doctor --write-wan writes");
    file = *std::move(read);
  }
  Settings& table = doc.table("wan");
  constexpr std::string_view kNetwork[] = {
      "preset",     "rate_scale", "mbps",      "delay_ms",  "mbps_csv",        "rtt_ms_csv",
      "matrices",   "up_mbps",    "down_mbps", "window_mb", "single_max_mbps", "loss",
      "loss_burst", "jitter_ms",  "queue",     "queue_ms"};
  std::erase_if(table.entries, [&](const Setting& entry) {
    return std::find(std::begin(kNetwork), std::end(kNetwork), entry.key) != std::end(kNetwork);
  });
  for (auto* list : {&doc.links, &doc.shared, &doc.traces}) list->clear();
  if (file) {
    for (const Setting& entry : file->table("wan").entries) table.set(entry);
    doc.links = file->links;
    doc.shared = file->shared;
    doc.traces = file->traces;
  } else {
    table.set({"preset", {network}, "--wan", 0});
  }
  for (Settings& site : doc.sites)
    std::erase_if(site.entries, [](const Setting& entry) {
      return entry.key == "up_mbps" || entry.key == "down_mbps";
    });
  return Ok{};
}

Result<flow::Wan> build_wan(const Document& doc, Job& job) {
  LH_LET(base, base_of(doc, job));
  if (job.wan.single_max_mbps && !job.wan.window_mb && base.windowed == WanPreset::Windowed::no)
    return about(doc, "wan", "single_max_mbps", "window_mb beside it, or a preset with windows");
  flow::Wan wan = std::move(base.wan);
  const SiteIndex sites(job.sites);
  change_links(wan, job, sites, [](const LinkTable& link, flow::Wan::Pair& pair) {
    if (link.delay_ms) pair.delay_s = *link.delay_ms / 1000;
  });
  add_windows(wan, job.wan, base.windowed);
  change_links(wan, job, sites, [](const LinkTable& link, flow::Wan::Pair& pair) {
    if (link.mbps) pair.rate = flow::bytes_per_second(*link.mbps);
  });
  const double scale = job.wan.rate_scale;
  change_all(wan, [&](flow::Wan::Pair& pair) {
    if (pair.rate) *pair.rate *= scale;
    if (pair.flow) *pair.flow *= scale;
    pair.loss = job.wan.loss;
    pair.loss_burst = job.wan.loss_burst.value_or(0);
    pair.jitter_s = job.wan.jitter_ms / 1000;
  });
  change_links(wan, job, sites, [](const LinkTable& link, flow::Wan::Pair& pair) {
    pair.loss = link.loss.value_or(pair.loss);
    if (link.jitter_ms) pair.jitter_s = *link.jitter_ms / 1000;
  });
  for (flow::Wan::Shared& shared : wan.shared) shared.rate *= scale;
  set_sites(wan, job);
  wan.streams = job.net.streams;
  if (job.wan.queue == "drop_tail") {
    wan.queue = flow::Wan::Queue::drop_tail;
    wan.queue_s = job.wan.queue_ms.value_or(kUsualQueueMs) / 1000;
  }
  add_shared(wan, job, sites);
  LH_TRY(add_traces(wan, doc, job, sites, find_wan_preset(job.wan.preset)));
  return wan;
}

flow::Trace trace_of(const TraceTable& table, double rate_scale) {
  using Kind = flow::Trace::Kind;
  const double unit = table.what == "delay"  ? 1e-3
                      : table.what == "loss" ? 1
                                             : flow::bytes_per_second(rate_scale);
  flow::Trace trace{.kind = table.kind == "steps"    ? Kind::steps
                            : table.kind == "redraw" ? Kind::redraw
                            : table.kind == "markov" ? Kind::markov
                                                     : Kind::day,
                    .at = table.at_s,
                    .values = table.values,
                    .repeat_s = table.repeat_s,
                    .low = table.low * unit,
                    .high = table.high * unit,
                    .every_s = table.every_s,
                    .low_s = table.low_s,
                    .high_s = table.high_s,
                    .period_s = table.period_s,
                    .peak_s = table.peak_s};
  for (double& value : trace.values) value *= unit;
  return trace;
}

void add_shared(flow::Wan& wan, const Job& job, const SiteIndex& sites) {
  for (const SharedTable& table : job.shared) wan.shared.push_back(shared_of(job, sites, table));
}

Status add_traces(flow::Wan& wan, const Document& doc, const Job& job, const SiteIndex& sites,
                  const WanPreset* preset) {
  Traces traces(wan, job, sites);
  for (std::size_t i = 0; i < job.traces.size(); ++i) {
    const std::size_t followed = traces.add(job.traces[i]);
    if (traces.too_many())
      return invalid(fmt::format(
          "{}:{}: [{}]: too many values: each site or pair that follows it has its own, at most {} "
          "in all; name those that do (site, from, to), or shorten it",
          doc.file, doc.traces[i].line, doc.traces[i].table, kMaxValues));
    if (followed == 0)
      return about(doc.traces[i], "what",
                   "what no earlier [[wan.trace]] follows; put those of single sites first");
  }
  if (preset && preset->redraw) traces.add(*preset->redraw);
  return Ok{};
}

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
  LH_LET(wan, wan_at(root, files));
  preset.wan = std::move(wan);
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
