#include "longhaul/run/job/wan_changes.h"

#include <set>

#include <fmt/format.h>

#include "longhaul/run/job/check.h"

namespace longhaul::run {
namespace {

using What = flow::Traced::What;

constexpr std::size_t kMaxValues = 1 << 24;  // of all that follows traces: 256 MiB

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

// Of a network, each quantity once.
class Traces {
 public:
  Traces(flow::Wan& wan, const Job& job, const SiteIndex& sites)
      : wan_(wan), job_(job), sites_(sites) {}

  // How many quantities follow it.
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
    // rate_scale is of what is between sites.
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

}  // namespace

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

}  // namespace longhaul::run
