// What is asked for and what comes of it; perf_hosts.cpp carries it out.
#include "longhaul/run/perf.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/flow/bound.h"
#include "longhaul/overlay/registry.h"
#include "longhaul/run/sockets.h"
#include "longhaul/run/summary.h"

namespace longhaul::run {
namespace {

// A node counts through its vector on the thread that keeps its connections alive.
constexpr double kMaxMegabytesOverSockets = 1000;
// The bound's matrix has a number for each pair of sites.
constexpr std::size_t kMaxSitesForBound = 2000;
std::optional<double> quotient(double a, double b) {
  return b > 0 ? std::optional(a / b) : std::nullopt;
}

const std::string& root_site(const Job& job, const PerfTask& task) {
  return task.root.empty() ? job.sites.front().name : task.root;
}

// Where the overlay's server runs: on the site that [roles] says, or with the lowest worker.
std::string server_site(const Job& job) {
  const Members members = job.members();
  if (const auto server = job.server()) return members[*server].site;
  return std::find_if(members.begin(), members.end(),
                      [](const Member& m) { return m.is(Role::worker); })
      ->site;
}

std::string_view first_that_broadcasts(BroadcastFrom from) {
  for (const OverlayEntry& entry : overlay::registry())
    if (entry.traits.broadcast == from) return entry.name;
  return "";
}

Status check_broadcast(const Job& job, const PerfTask& task) {
  const std::string& root = root_site(job, task);
  std::vector<std::string_view> names;
  for (const SiteTable& site : job.sites) names.push_back(site.name);
  if (std::find(names.begin(), names.end(), root) == names.end())
    return invalid(fmt::format("--root {}: no such site{}", root, suggestion(root, names)));
  const Members members = job.members();
  if (std::none_of(members.begin(), members.end(),
                   [&](const Member& m) { return m.site == root && m.is(Role::worker); }))
    return invalid(fmt::format("--root {}: no worker is there; name the site of one", root));
  const std::string_view overlay = job.overlay.entry->name;
  const BroadcastFrom from = job.overlay.entry->traits.broadcast;
  if (from == BroadcastFrom::anyone) return Ok{};
  if (from == BroadcastFrom::nobody)
    return invalid(
        fmt::format("--op broadcast: {} has none, one node's vector costs it as much as a mean of "
                    "all; choose --overlay {}, or {} with its server at the root",
                    overlay, first_that_broadcasts(BroadcastFrom::anyone),
                    first_that_broadcasts(BroadcastFrom::server)));
  if (const std::string server = server_site(job); server != root)
    return invalid(
        fmt::format("--op broadcast: over {} it goes out from the server, which is at {}: say "
                    "--root {}, or --set roles.server={}",
                    overlay, server, server, root));
  return Ok{};
}

// In the bytes that the links of that place count.
std::optional<flow::Bound> bound_of(const Job& job, const PerfTask& task, PerfPlace place) {
  if (place == PerfPlace::local || job.network.sites.size() > kMaxSitesForBound)
    return std::nullopt;
  const bool payload = place == PerfPlace::simulator && job.wan.model != "fair";
  flow::Task of;
  of.bytes = task.mbytes * 1e6 * (payload ? 1 : flow::kIpPerByte);
  if (task.broadcast) {
    of.op = flow::Collective::broadcast;
    const auto& sites = job.network.sites;
    of.root = std::uint32_t(
        std::find_if(sites.begin(), sites.end(),
                     [&](const auto& site) { return site.name == root_site(job, task); }) -
        sites.begin());
  }
  flow::Bound bound = flow::lower_bound(job.network, of);
  if (bound.seconds <= 0) return std::nullopt;
  return bound;
}

}  // namespace

std::string_view to_string(PerfPlace place) {
  constexpr std::string_view names[] = {"simulator", "lab", "local", "site"};
  return names[std::size_t(place)];
}

Status check_perf(const Job& job, const PerfTask& task, bool sockets) {
  if (job.workers() < 2)
    return invalid(
        fmt::format("{}: {} worker: an exchange needs two; add [[site]] tables, or "
                    "nodes to a site",
                    job.file, job.workers()));
  if (!task.broadcast && !task.root.empty())
    return invalid("--root: an all-reduce has none; it belongs to --op broadcast");
  if (task.broadcast) LH_TRY(check_broadcast(job, task));
  if (!sockets) return Ok{};
  if (task.mbytes > kMaxMegabytesOverSockets)
    return invalid(fmt::format("--mbytes {:g}: with real vectors at most {:g}", task.mbytes,
                               kMaxMegabytesOverSockets));
  return fits_frames(job);
}

PerfFigures figures_of(const Job& job, const PerfTask& task, const PerfResult& result) {
  std::vector<double> times = result.times_s;
  LH_CHECK(!times.empty());
  std::sort(times.begin(), times.end());
  const std::size_t middle = times.size() / 2;
  PerfFigures f;
  f.time_s = times.size() % 2 == 1 ? times[middle] : (times[middle - 1] + times[middle]) / 2;
  f.min_s = times.front();
  f.max_s = times.back();
  f.goodput_mbps = quotient(task.mbytes * 8, f.time_s);
  const double n = double(job.workers());
  if (f.goodput_mbps) f.bus_mbps = *f.goodput_mbps * (task.broadcast ? 1 : 2 * (n - 1) / n);
  const auto bound = bound_of(job, task, result.place);
  if (!bound) return f;
  f.bound_s = bound->seconds;
  f.ratio = f.time_s / bound->seconds;
  if (bound->bandwidth_s > 0) f.bandwidth_s = bound->bandwidth_s;
  return f;
}

nlohmann::ordered_json to_json(const Job& job, const PerfTask& task, const PerfResult& result) {
  const PerfFigures f = figures_of(job, task, result);
  nlohmann::ordered_json json = {{"name", job.job.name},
                                 {"place", to_string(result.place)},
                                 {"op", task.broadcast ? "broadcast" : "all-reduce"}};
  if (task.broadcast) json["root"] = root_site(job, task);
  json.update({{"overlay", job.overlay.entry->name},
               {"sites", job.sites.size()},
               {"nodes", job.workers()},
               {"mbytes", task.mbytes},
               {"repeat", task.repeat},
               {"time_s", f.time_s},
               {"min_s", f.min_s},
               {"max_s", f.max_s},
               {"times_s", result.times_s},
               {"starts_s", result.starts_s},
               {"warm_up_s", result.warm_up_s},
               {"last", result.last},
               {"goodput_mbps", or_null(f.goodput_mbps)},
               {"bus_mbps", or_null(f.bus_mbps)},
               {"wan_bytes", result.wan_bytes},
               {"bound_s", or_null(f.bound_s)},
               {"bandwidth_s", or_null(f.bandwidth_s)},
               {"ratio", or_null(f.ratio)}});
  if (result.lab) json["lab"] = to_json(*result.lab);
  return json;
}

}  // namespace longhaul::run
