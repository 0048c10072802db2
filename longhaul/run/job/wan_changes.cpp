#include "longhaul/run/job/wan_changes.h"

#include <set>

#include <fmt/format.h>

#include "longhaul/run/job/check.h"

namespace longhaul::run {
namespace {

using What = flow::Traced::What;

constexpr double kBytesPerMbit = 125000;
constexpr std::size_t kMostValues = 1 << 24;  // of all that follows traces: 256 MiB

flow::Wan::Shared shared_of(const Job& job, const SharedTable& table) {
  std::set<flow::SitePair> pairs;
  for (const std::string& from : table.from)
    for (const std::string& to : table.to) {
      const std::uint32_t a = site_index(job, from), b = site_index(job, to);
      if (a == b) continue;
      pairs.insert({a, b});
      if (table.both) pairs.insert({b, a});
    }
  return {.name = table.name,
          .rate = *table.mbps * kBytesPerMbit * job.wan.rate_scale,
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
  Traces(flow::Wan& wan, const Job& job) : wan_(wan), job_(job) {}

  // How many quantities follow it.
  std::size_t add(const TraceTable& table) {
    const std::size_t before = wan_.traces.size();
    follow(table);
    return wan_.traces.size() - before;
  }

  bool too_many() const { return values_ > kMostValues; }

  void add(const WanPreset::Redraw& redraw) {
    for (const LinkTable& link : job_.links) {
      if (!link.mbps) continue;
      const std::uint32_t from = site_index(job_, link.from), to = site_index(job_, link.to);
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
  std::set<std::pair<What, flow::SitePair>> taken_;
  std::size_t values_ = 0;
};

}  // namespace

std::uint32_t site_index(const Job& job, const std::string& name) {
  for (std::uint32_t i = 0; i < job.sites.size(); ++i)
    if (job.sites[i].name == name) return i;
  LH_CHECK(false);  // check_job knows all names
  return 0;
}

void add_shared(flow::Wan& wan, const Job& job) {
  for (const SharedTable& table : job.shared) wan.shared.push_back(shared_of(job, table));
}

Status add_traces(flow::Wan& wan, const Document& doc, const Job& job, const WanPreset* preset) {
  Traces traces(wan, job);
  for (std::size_t i = 0; i < job.traces.size(); ++i) {
    const std::size_t followed = traces.add(job.traces[i]);
    if (traces.too_many())
      return invalid(fmt::format(
          "{}:{}: [{}]: too many values: each site or pair that follows it has its own, at most {} "
          "in all; name those that do (site, from, to), or shorten it",
          doc.file, doc.traces[i].line, doc.traces[i].table, kMostValues));
    if (followed == 0)
      return about(doc.traces[i], "what",
                   "what no earlier [[wan.trace]] follows; put those of single sites first");
  }
  if (preset && preset->redraw) traces.add(*preset->redraw);
  return Ok{};
}

}  // namespace longhaul::run
