#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "longhaul/flow/loss.h"
#include "longhaul/run/job/check.h"
#include "longhaul/run/job/wan_changes.h"

namespace longhaul::run {
namespace {

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

// Bursts say how packets are lost, so some must be; and so many in a row that the share can be.
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

// What of the network a trace moves: no two may move the same.
std::string quantity(const TraceTable& table) {
  return fmt::format("{} {} {} {} {}", table.what, table.site, table.from, table.to, table.shared);
}

}  // namespace

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
