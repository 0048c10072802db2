#include "longhaul/run/job/check.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "longhaul/codec/registry.h"
#include "longhaul/core/cheap_models.h"
#include "longhaul/flow/loss.h"
#include "longhaul/focus/tracks.h"
#include "longhaul/outer/registry.h"
#include "longhaul/overlay/registry.h"
#include "longhaul/run/job/parts.h"
#include "longhaul/run/job/wan.h"
#include "longhaul/transfer/registry.h"

namespace longhaul::run {
namespace {

// Returns file and line of the first table that `why` names and the file holds.
std::string place_of(const Document& doc, std::string_view why) {
  for (std::size_t at = why.find('['); at != std::string_view::npos; at = why.find('[', at + 1)) {
    const Settings* table = doc.find(why.substr(at + 1, why.find(']', at) - at - 1));
    if (!table) continue;
    const Setting* kind = table->find("kind");
    const int line = kind && kind->line > 0 ? kind->line : table->line;
    if (line > 0) return source_of(doc.file, line);
  }
  return doc.file;
}

Status check_sites(const Document& doc, const Job& job) {
  if (job.sites.empty())
    return invalid(
        fmt::format("{}: [[site]]: missing; a job has at least one site, for example "
                    "[[site]] name = \"virginia\"",
                    doc.file));
  std::set<std::string> seen;
  std::uint64_t nodes = 0;
  bool one_is_dialled = false;
  for (std::size_t i = 0; i < job.sites.size(); ++i) {
    const SiteTable& site = job.sites[i];
    if (!is_name(site.name))
      return about(doc.sites[i], "name", "a name of letters, digits, - and _");
    if (!seen.insert(site.name).second)
      return about(doc.sites[i], "name", "a name that no other site has");
    if (site.jitter_kind == "uniform" && site.jitter > 1)
      return about(doc.sites[i], "jitter", "at most 1 with jitter_kind = \"uniform\"");
    if (site.roles.empty()) return about(doc.sites[i], "roles", "at least one role");
    if (site.roles.size() > 1 && std::ranges::find(site.roles, "witness") != site.roles.end())
      return about(doc.sites[i], "roles", "no other role beside witness: all nodes vote");
    if (!site.dial_out) one_is_dialled = true;
    nodes += site.nodes;
  }
  if (job.sites.size() > 1 && !one_is_dialled)
    return about(doc.sites.front(), "dial_out",
                 "false at one site at least, which the others can dial, and which relays between "
                 "them");
  // Messages name members by bits of at most 128 KiB (overlay/messages.h).
  constexpr std::uint64_t kMostNodes = 1 << 20;
  if (nodes > kMostNodes)
    return invalid(fmt::format("{}: [[site]] nodes: {} nodes in all; at most {}", doc.file, nodes,
                               kMostNodes));
  if (job.workers() == 0) return about(doc.sites.front(), "roles", "a worker at one site at least");
  return Ok{};
}

Status check_links(const Document& doc, const Job& job, const SiteIndex& sites) {
  std::set<std::pair<std::string, std::string>> seen;
  for (std::size_t i = 0; i < job.links.size(); ++i) {
    const LinkTable& link = job.links[i];
    for (auto [key, name] : {std::pair{"from", &link.from}, std::pair{"to", &link.to}})
      LH_TRY(check_site(doc.links[i], key, *name, sites));
    if (link.from == link.to)
      return about(doc.links[i], "to", "another site than 'from' ([wan] lan_mbps is for one site)");
    const bool fresh = seen.emplace(link.from, link.to).second &&
                       (!link.both || seen.emplace(link.to, link.from).second);
    if (!fresh)
      return about(doc.links[i], "from",
                   fmt::format("each direction once; {} to {} stands in an earlier [[wan.link]]",
                               link.from, link.to));
  }
  return Ok{};
}

// Refuses settings that this version does not support; none is ignored.
Status check_wan(const Document& doc, const Job& job, const SiteIndex& sites) {
  if (job.wan.model != "fifo") return check_fair(doc, job, sites);
  const WanTable usual;
  const auto useless = [](const Settings& table, const char* key) -> Status {
    const Setting* entry = table.find(key);
    LH_CHECK(entry);
    return invalid(
        fmt::format("{}: [{}] {} = {} has no effect with [wan] model = \"fifo\". Set model = "
                    "\"fair\", or remove {}",
                    source_of(*entry), table.table, key, to_text(entry->value), key));
  };
  for (const auto& [key, same] :
       {std::pair{"loss", job.wan.loss == usual.loss}, std::pair{"loss_burst", !job.wan.loss_burst},
        std::pair{"jitter_ms", job.wan.jitter_ms == usual.jitter_ms},
        std::pair{"queue", job.wan.queue == usual.queue}, std::pair{"queue_ms", !job.wan.queue_ms},
        std::pair{"tcp", job.wan.tcp == usual.tcp},
        std::pair{"bbr_threshold", job.wan.bbr_threshold == usual.bbr_threshold},
        std::pair{"slow_start", job.wan.slow_start == usual.slow_start}})
    if (!same) return useless(*doc.find("wan"), key);
  for (std::size_t i = 0; i < job.links.size(); ++i) {
    if (job.links[i].loss.value_or(0) != 0) return useless(doc.links[i], "loss");
    if (job.links[i].jitter_ms.value_or(0) != 0) return useless(doc.links[i], "jitter_ms");
  }
  constexpr const char* kNone =
      "none of these with [wan] model = \"fifo\"; model = \"fair\" has them";
  if (!job.shared.empty()) return about(doc.shared[0], "name", kNone);
  if (!job.traces.empty()) return about(doc.traces[0], "what", kNone);
  return Ok{};
}

// Returns the kinds of a table that can be combined with the rest of the job: ": choose [codec]
// kind = "fp32"". If the job has a second mistake and no kind fits, returns those without this
// mistake.
std::string kinds_that_do(const Job& job, const SyncEntry& sync, std::string_view table) {
  std::vector<std::string> fit, better;
  const auto collect = [&](std::string_view name, const auto& registry, auto&& is_illegal) {
    if (name != table) return;
    for (const auto& entry : registry) {
      const std::optional<Illegal> left = is_illegal(entry);
      if (!left) fit.push_back(fmt::format("\"{}\"", entry.name));
      if (!left || left->table != table) better.push_back(fmt::format("\"{}\"", entry.name));
    }
  };
  const OverlayEntry& overlay = *job.overlay.entry;
  const TransferEntry& transfer = *job.transfer.entry;
  const CodecEntry& codec = *job.codec.entry;
  const OuterEntry& outer = *job.outer.entry;
  const bool feedback = job.error_feedback;
  collect("overlay", overlay::registry(), [&](const OverlayEntry& other) {
    return illegal(sync, other, transfer, codec, feedback, outer);
  });
  collect("transfer", transfer::registry(), [&](const TransferEntry& other) {
    return illegal(sync, overlay, other, codec, feedback, outer);
  });
  collect("codec", codec::registry(), [&](const CodecEntry& other) {
    return illegal(sync, overlay, transfer, other, feedback, outer);
  });
  collect("outer", outer::registry(), [&](const OuterEntry& other) {
    return illegal(sync, overlay, transfer, codec, feedback, other);
  });
  const std::vector<std::string>& names = fit.empty() ? better : fit;
  return names.empty() ? ""
                       : fmt::format(": choose [{}] kind = {}", table, fmt::join(names, " or "));
}

// Checks combinations. A strategy that talks to a server directly has [server], and no settings of
// an overlay.
Status check_combination(const Document& doc, const Job& job) {
  const SyncEntry sync = entry_with(*job.sync.entry, job.sync.settings);
  if (const auto found = illegal(sync, *job.overlay.entry, *job.transfer.entry, *job.codec.entry,
                                 job.error_feedback, *job.outer.entry)) {
    std::string why = found->why;
    if (!found->table.empty()) why += kinds_that_do(job, sync, found->table);
    return invalid(fmt::format("{}: {}", place_of(doc, why), why));
  }
  const bool served = sync.traits.served;
  for (const Settings* table : {doc.find("server"), doc.find("overlay")})
    for (const Setting& entry : table ? table->entries : std::vector<Setting>{})
      if (entry.key != "kind" && served == (table->table == "overlay"))
        return bad_setting(*table, entry,
                           fmt::format("no such key with [sync] kind = \"{}\", which {}", sync.name,
                                       served ? "talks to its server by itself; [server] counts"
                                              : "talks to no server by itself"));
  bool of_senders = false;
  if (const Setting* wish = job.codec.settings.find("mean_of_senders"))
    LH_TRY(read_value(job.codec.settings, *wish, {.name = "mean_of_senders"}, of_senders));
  if (served && of_senders)
    return about(doc, "codec", "mean_of_senders",
                 fmt::format("false with [sync] kind = \"{}\", whose server forms no means of "
                             "what several sites sent",
                             sync.name));
  if (served && job.server_table.down_codec == "same" && !job.codec.entry->traits.close)
    return about(
        doc, "server", "down_codec",
        fmt::format("\"fp32\": the server writes whole models, and [codec] kind = \"{}\" is "
                    "near its input in the mean or with error feedback only",
                    job.codec.entry->name));
  return Ok{};
}

Status check_rest(const Document& doc, const Job& job, const SiteIndex& sites) {
  if (!is_name(job.job.name)) return about(doc, "job", "name", "letters, digits, - and _");
  const std::string model = job.kind("model");
  if (job.kind("data") == "own" && model != "own")
    return about(doc, "model", "kind",
                 "no [model], or kind = \"own\": with [data] kind = \"own\" the program brings "
                 "model and data");
  if (job.kind("data") == "none" && model != "phantom" && model != "own")
    return about(doc, "data", "kind", "data to learn from, for example kind = \"mnist\"");
  if (job.stop.target_bits_per_byte && (job.kind("data") != "text" || job.stop.target_accuracy))
    return about(doc, "stop", "target_bits_per_byte",
                 "it with [data] kind = \"text\", and without target_accuracy");
  if (job.roles.server && !sites.find(*job.roles.server))
    return about(doc, "roles", "server",
                 "a site's name" + suggestion(*job.roles.server, sites.names()));
  const bool served = entry_with(*job.sync.entry, job.sync.settings).traits.served;
  if (served && tests_at_sites(job) && (job.stop.target_accuracy || job.stop.target_loss()))
    return about(
        doc, "data", "test_path",
        fmt::format("a test set: with a target and [sync] kind = \"{}\" the server scores its "
                    "model, and with [data] partition = \"local\" it has no samples",
                    job.sync.entry->name));
  if (job.model.text("bn") == "local" && served)
    return about(doc, "model", "bn",
                 fmt::format("\"mean\": with [sync] kind = \"{}\" the server's model is scored, "
                             "which has no running statistics of its own",
                             job.sync.entry->name));
  return check_combination(doc, job);
}

// Checks the objects and their models.
Status check_stream(const Document& doc, const Job& job) {
  const focus::Config& focus = *job.focus;
  const bool images = focus.stream == "images";
  const std::string data = job.kind("data");
  if (images &&
      (data == "none" || data == "text" || data == "tokens" || data == "csv" || data == "libsvm"))
    return invalid(doc.file +
                   ": [data] kind: expected images with [focus] stream = \"images\", for "
                   "example \"fashion_mnist\"");
  if (!images && data != "none")
    return about(*doc.find("data"), "kind", "no [data] unless [focus] stream = \"images\"");
  if (images && focus.gt.empty())
    return invalid(doc.file +
                   ": [focus] gt: missing; expected the file of the accurate model, for "
                   "example runs/NAME/model.pt");
  const focus::Config usual;  // a resolved job has every key
  if (!images && !focus.gt.empty())
    return about(doc, "focus", "gt", "none unless stream = \"images\"");
  if (!images && focus.images != usual.images)
    return about(doc, "focus", "images", "none unless stream = \"images\"");
  for (std::size_t i = 0; i < doc.cheap.size(); ++i) {
    if (images && job.cheap[i].path.empty())
      return invalid(source_of(doc.file, doc.cheap[i].line) +
                     ": [[focus.cheap]] path: missing; expected the file of a cheap model");
    if (!images && !job.cheap[i].path.empty())
      return about(doc.cheap[i], "path", "none unless [focus] stream = \"images\"");
  }
  if (job.cheap.size() > kMostCheapModels)
    return about(doc.cheap.back(), "ms", fmt::format("{} cheap models at most", kMostCheapModels));
  if (job.cheap.size() > 1 && focus.T)
    return about(doc, "focus", "T",
                 "no T with several [[focus.cheap]]: it is chosen with the model");
  if (!job.cheap.empty() && focus.cheap_ms != usual.cheap_ms)
    return about(doc, "focus", "cheap_ms", "none beside [[focus.cheap]], which has ms");
  if (focus.drift > 0 && focus.T)
    return about(doc, "focus", "drift", "no T with it: T is chosen again");
  return Ok{};
}

Status check_given(const Settings& table, const Job& job, const focus::ModelConfig& model,
                   const SiteIndex& sites) {
  const bool images = job.focus->stream == "images";
  if (!model.site.empty()) LH_TRY(check_site(table, "site", model.site, sites));
  if (images && model.path.empty())
    return invalid(source_of(table.file, table.line) +
                   ": [[focus.model]] path: missing; expected the file of a cheap model");
  if (!images && !model.path.empty())
    return about(table, "path", "none unless [focus] stream = \"images\"");
  if (job.focus->baseline != "none" && job.focus->baseline != "no_cluster")
    return about(table, "at_s",
                 "no [[focus.model]] with [focus] baseline, which has no cheap model");
  for (const double cls : model.classes)
    if (cls != std::floor(cls) || (!images && cls >= focus::Tracks::kClasses))
      return about(table, "classes", "numbers of classes of the stream");
  return Ok{};
}

Status check_focus(const Document& doc, const Job& job, const SiteIndex& sites) {
  if (!job.focus) return Ok{};
  LH_TRY(check_stream(doc, job));
  if (job.focus->hub) LH_TRY(check_site(*doc.find("focus"), "hub", *job.focus->hub, sites));
  if (job.focus->hub && job.focus->gt_place != "hub")
    return about(doc, "focus", "hub", "no hub unless gt_place = \"hub\"");
  for (std::size_t i = 0; i < job.sites.size(); ++i)
    if (job.sites[i].roles != std::vector<std::string>{"worker"})
      return about(doc.sites[i], "roles", "no roles with [focus]: every node indexes");
  for (std::size_t i = 0; i < job.given.size(); ++i)
    LH_TRY(check_given(doc.given[i], job, job.given[i], sites));
  for (std::size_t i = 0; i < job.queries.size(); ++i) {
    const focus::QueryConfig& query = job.queries[i];
    if (!query.site.empty()) LH_TRY(check_site(doc.queries[i], "site", query.site, sites));
    if (job.focus->stream == "tracks" && query.cls >= focus::Tracks::kClasses)
      return about(doc.queries[i], "class",
                   fmt::format("a class of the stream, 0 to {}", focus::Tracks::kClasses - 1));
    if (query.to_s && *query.to_s < query.from_s)
      return about(doc.queries[i], "to_s", "a time not before from_s");
  }
  return Ok{};
}

Status check_faults(const Document& doc, const Job& job, const SiteIndex& sites) {
  for (std::size_t i = 0; i < job.faults.size(); ++i) {
    const FaultTable& fault = job.faults[i];
    const Settings& table = doc.faults[i];
    LH_TRY(check_site(table, "site", fault.site, sites));
    if (!fault.to.empty()) LH_TRY(check_site(table, "to", fault.to, sites));
    if (fault.to == fault.site) return about(table, "to", "another site than 'site'");
    if (fault.kind == "pause" && !fault.for_s)
      return about(table, "for_s", "how long it lasts, with kind = \"pause\"");
    if (fault.kind == "crash" && fault.for_s)
      return about(table, "for_s", "no for_s with kind = \"crash\": see restart_s");
    if (fault.restart_s && !entry_with(*job.sync.entry, job.sync.settings).traits.lets_return)
      return about(table, "restart_s",
                   "none with a [sync] kind that does not let a lost node return");
    if (fault.kind != "cut" && (!fault.to.empty() || fault.one_way))
      return about(table, "to", "none of to and one_way unless kind = \"cut\"");
  }
  return Ok{};
}

Status check_without(const Document& doc, const Job& job, const SiteIndex& sites) {
  for (const std::string& name : job.run.without)
    if (!sites.find(name))
      return about(doc, "run", "without", "names of sites" + suggestion(name, sites.names()));
  return Ok{};
}

Status check_continue_with(const Document& doc, const Job& job, const SiteIndex& sites) {
  const std::string& name = job.net.continue_with;
  if (name.empty()) return Ok{};
  if (!sites.find(name))
    return about(doc, "net", "continue_with",
                 "the name of a site" + suggestion(name, sites.names()));
  if (job.leaves_out(name))
    return about(doc, "net", "continue_with",
                 "a site that [run] without does not leave out: none could continue");
  return Ok{};
}

// Makes every part for rank 0 and a small model, so that each reads its own table now.
Status check_parts(const Job& job) {
  const Place place =
      place_of(job, 0, std::make_shared<const Members>(job.members()), Layout::flat(1), false);
  LH_LET(strategy, build_strategy(job, place, 0));
  return Ok{};
}

Status check_shared(const Settings& written, const SharedTable& table, const SiteIndex& sites) {
  if (!is_name(table.name))
    return about(written, "name", "a name for the link: letters, digits, - and _");
  if (!table.mbps) return about(written, "mbps", "the link's rate");
  for (auto [key, names] : {std::pair{"from", &table.from}, std::pair{"to", &table.to}}) {
    if (names->empty()) return about(written, key, "names of sites");
    for (const std::string& name : *names) LH_TRY(check_site(written, key, name, sites));
  }
  if (table.from == table.to && table.from.size() == 1)
    return about(written, "to", "another site than 'from'");
  return Ok{};
}

Status check_trace(const Settings& written, const TraceTable& table, const Job& job,
                   const SiteIndex& sites) {
  const bool of_site = table.what == "up" || table.what == "down";
  const bool of_pair = table.what == "rate" || table.what == "delay" || table.what == "loss";
  for (auto [key, value, meant] :
       {std::tuple{"site", &table.site, of_site}, std::tuple{"from", &table.from, of_pair},
        std::tuple{"to", &table.to, of_pair}}) {
    if (value->empty()) continue;
    if (!meant)
      return about(written, key, fmt::format("no such key with what = \"{}\"", table.what));
    LH_TRY(check_site(written, key, *value, sites));
  }
  if (!table.from.empty() && table.from == table.to)
    return about(written, "to", "another site than 'from'");
  if (table.what == "shared") {
    std::vector<std::string_view> links;
    for (const SharedTable& shared : job.shared) links.push_back(shared.name);
    if (std::find(links.begin(), links.end(), table.shared) == links.end())
      return about(written, "shared",
                   "the name of a [[wan.shared]]" + suggestion(table.shared, links));
  } else if (!table.shared.empty()) {
    return about(written, "shared", fmt::format("no such key with what = \"{}\"", table.what));
  }
  const char* key = table.kind == "steps" ? "values" : "high";
  if (table.what == "loss") {
    const double most = table.kind != "steps"  ? table.high
                        : table.values.empty() ? 0
                                               : *std::ranges::max_element(table.values);
    if (most > kMaxLoss) return about(written, key, fmt::format("at most {}", kMaxLoss));
  }
  if (const Status status = trace_of(table, job.wan.rate_scale).check(); !status)
    return about(written, key, status.error().what);
  return Ok{};
}

// Checks bursts: some packets must be lost, in bursts long enough for the share of loss.
Status check_bursts(const Document& doc, const Job& job) {
  if (!job.wan.loss_burst) return Ok{};
  double most = job.wan.loss;
  for (const LinkTable& link : job.links) most = std::max(most, link.loss.value_or(0));
  const bool traced =
      std::ranges::any_of(job.traces, [](const TraceTable& t) { return t.what == "loss"; });
  if (most == 0 && !traced)
    return about(doc, "wan", "loss_burst",
                 "loss beside it: nothing is lost here, one by one or in a row");
  if (const double least = flow::Loss::shortest_burst(most); *job.wan.loss_burst < least)
    return about(
        doc, "wan", "loss_burst",
        fmt::format("at least {:.4g}: with shorter ones a loss of {} cannot be", least, most));
  return Ok{};
}

// Returns the part of the network that a trace moves. Two traces must not move the same part.
std::string quantity(const TraceTable& table) {
  return fmt::format("{} {} {} {} {}", table.what, table.site, table.from, table.to, table.shared);
}

}  // namespace

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
  });
}

Error about(const Settings& table, std::string_view key, const std::string& expected) {
  if (const Setting* entry = table.find(key)) return bad_setting(table, *entry, expected);
  return invalid(fmt::format("{}: [{}] {}: missing; expected {}", source_of(table.file, table.line),
                             table.table, key, expected));
}

Error about(const Document& doc, std::string_view table, std::string_view key,
            const std::string& expected) {
  const Settings* settings = doc.find(table);
  return about(settings ? *settings : Settings{std::string(table), doc.file, 0, {}}, key, expected);
}

std::string default_name(const std::string& file) {
  std::string name = std::filesystem::path(file).stem().string().substr(0, 64);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_') c = '-';
  return name.empty() ? "run" : name;
}

std::uint8_t role_bit(std::string_view role) {
  if (role == "worker") return std::uint8_t(Role::worker);
  if (role == "server") return std::uint8_t(Role::server);
  if (role == "state_server") return std::uint8_t(Role::state_server);
  LH_CHECK(role == "witness");  // choices of the field
  return std::uint8_t(Role::witness);
}

Status check_site(const Settings& table, std::string_view key, const std::string& name,
                  const SiteIndex& sites) {
  if (sites.find(name)) return Ok{};
  return about(table, key, "a site's name" + suggestion(name, sites.names()));
}

Status check_job(const Document& doc, const Job& job) {
  LH_TRY(check_sites(doc, job));
  const SiteIndex sites(job.sites);
  LH_TRY(check_links(doc, job, sites));
  LH_TRY(check_wan(doc, job, sites));
  LH_TRY(check_rest(doc, job, sites));
  LH_TRY(check_focus(doc, job, sites));
  LH_TRY(check_faults(doc, job, sites));
  LH_TRY(check_without(doc, job, sites));
  LH_TRY(check_continue_with(doc, job, sites));
  return check_parts(job);
}

Status check_fair(const Document& doc, const Job& job, const SiteIndex& sites) {
  LH_TRY(check_bursts(doc, job));
  if (job.wan.queue_ms && job.wan.queue != "drop_tail")
    return about(doc, "wan", "queue_ms", "queue = \"drop_tail\" beside it");
  std::set<std::string> links, traced;
  for (std::size_t i = 0; i < job.shared.size(); ++i) {
    LH_TRY(check_shared(doc.shared[i], job.shared[i], sites));
    if (!links.insert(job.shared[i].name).second)
      return about(doc.shared[i], "name", "a name that no other shared link has");
  }
  for (std::size_t i = 0; i < job.traces.size(); ++i) {
    LH_TRY(check_trace(doc.traces[i], job.traces[i], job, sites));
    if (!traced.insert(quantity(job.traces[i])).second)
      return about(doc.traces[i], "what", "what no earlier [[wan.trace]] follows");
  }
  return Ok{};
}

}  // namespace longhaul::run
