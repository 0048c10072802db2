#include "longhaul/run/job/wan.h"

#include <algorithm>

#include <fmt/format.h>
#include <xxhash.h>

#include "longhaul/run/job/check.h"
#include "longhaul/run/job/matrix_wan.h"
#include "longhaul/run/job/wan_changes.h"

namespace longhaul::run {
namespace {

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

// What stands in front of an error about a matrix: the key that led to it.
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
  auto rates = matrix_of(doc, "mbps_csv", kRateCells);
  if (!rates) return rates.error();
  auto rtts = matrix_of(doc, "rtt_ms_csv", kRttCells);
  if (!rtts) return rtts.error();
  both.mbps = *std::move(rates);
  both.rtt_ms = *std::move(rtts);
  return both;
}

// One source of rates and one of delays.
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

// `from`, reduced to the job's sites in the job's order.
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

// Any number of sites like the preset's first.
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
    auto wan = selected(chosen.wan, doc, job, "preset " + chosen.name);
    if (!wan) return wan.error();
    return Base{*std::move(wan), chosen.windowed};
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
    auto few = selected(*all, doc, job, (matrices.mbps ? matrices.mbps : matrices.rtt_ms)->file);
    if (!few) return few.error();
    wan = *std::move(few);
  }
  // What the matrices leave open is the same for all pairs.
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

}  // namespace longhaul::run
