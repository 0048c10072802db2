// Tasks and results, then the three places of measurement: simulator, a node over sockets, and
// local processes.
#include "longhaul/run/perf.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <xxhash.h>
#include <nlohmann/json.hpp>

#include "longhaul/flow/bound.h"
#include "longhaul/net/event_loop.h"
#include "longhaul/overlay/registry.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/json.h"
#include "longhaul/run/job/parts.h"
#include "longhaul/run/launch.h"
#include "longhaul/run/network.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/processes.h"
#include "longhaul/sim/world.h"

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

// Returns the site of the overlay's server: that of [roles], or that of the lowest worker.
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

// Returns the lower bound, in the bytes that the links of that place count.
std::optional<flow::Bound> bound_of(const Job& job, const PerfTask& task, PerfPlace place) {
  if (place == PerfPlace::local || job.network.sites.size() > kMaxSitesForBound)
    return std::nullopt;
  const bool payload = place == PerfPlace::simulator && job.wan.model == "fifo";
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

perf::Exchange exchange_of(const Job& job, const PerfTask& task) {
  perf::Exchange exchange;
  exchange.length = std::uint64_t(std::max(1ll, std::llround(task.mbytes * 1e6 / sizeof(float))));
  exchange.laps = task.repeat + 1;
  if (!task.broadcast) return exchange;
  const std::string& root = task.root.empty() ? job.sites.front().name : task.root;
  const Members members = job.members();
  const auto giver = std::find_if(members.begin(), members.end(), [&](const Member& member) {
    return member.site == root && member.is(Role::worker);
  });
  LH_CHECK(giver != members.end());
  exchange.root = Rank(giver - members.begin());
  return exchange;
}

// Returns the hash on which the nodes must agree: the job, and the measured exchange.
std::uint64_t hash_of(const Job& job, const perf::Exchange& exchange) {
  const std::uint64_t numbers[] = {exchange.length, exchange.laps,
                                   exchange.root ? *exchange.root + 1ull : 0};
  return XXH64(numbers, sizeof numbers, job_hash(job));
}

Result<std::unique_ptr<perf::Measurement>> make_measurement(const Job& job,
                                                            const perf::Exchange& exchange,
                                                            const Place& place,
                                                            perf::Measurement::Sent sent) {
  LH_LET(overlay, build_overlay(job, place));
  return std::make_unique<perf::Measurement>(exchange, std::move(overlay), place, std::move(sent));
}

PerfResult result_of(const std::vector<perf::Lap>& laps, const Members& members, PerfPlace place) {
  LH_CHECK(laps.size() > 1);
  PerfResult result{.place = place, .times_s = {}, .last = {}};
  result.warm_up_s = seconds(laps.front().elapsed);
  Time slowest{-1};
  for (std::size_t i = 1; i < laps.size(); ++i) {
    result.times_s.push_back(seconds(laps[i].elapsed));
    result.starts_s.push_back(seconds(laps[i].start));
    result.wan_bytes += laps[i].wan_bytes;
    if (laps[i].elapsed <= slowest) continue;
    slowest = laps[i].elapsed;
    result.last = members[laps[i].last].site;
  }
  result.wan_bytes /= laps.size() - 1;
  return result;
}

// Returns the observer of laps. Only rank 0 measures the time.
auto on_record(Rank self, const PerfProgress& progress) {
  return [self, &progress](Time, const Record& record) {
    if (self == 0 && progress && record.name == "lap_s") progress(record.round, record.value);
  };
}

Error stopped() { return unavailable("interrupted; nothing is measured by half"); }

// Reads the output of rank 0 with --json.
Result<PerfResult> read_result(const std::string& text) {
  PerfResult result;
  try {
    const auto json = nlohmann::json::parse(text);
    result.times_s = json.at("times_s").get<std::vector<double>>();
    result.starts_s = json.at("starts_s").get<std::vector<double>>();
    result.warm_up_s = json.at("warm_up_s").get<double>();
    result.wan_bytes = json.at("wan_bytes").get<std::uint64_t>();
    result.last = json.at("last").get<std::string>();
  } catch (const nlohmann::json::exception&) {
    return malformed("rank 0 ended without a result that can be read");
  }
  if (result.times_s.empty()) return malformed("rank 0 ended with no times");
  return result;
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
               {"goodput_mbps", json_of(f.goodput_mbps)},
               {"bus_mbps", json_of(f.bus_mbps)},
               {"wan_bytes", result.wan_bytes},
               {"bound_s", json_of(f.bound_s)},
               {"bandwidth_s", json_of(f.bandwidth_s)},
               {"ratio", json_of(f.ratio)}});
  if (result.lab) json["lab"] = json_of(*result.lab);
  return json;
}

Result<PerfResult> perf_simulated(const Job& job, const PerfTask& task,
                                  const PerfProgress& progress) {
  const auto members = std::make_shared<const Members>(job.members());
  LH_LET(network, make_network(job, *members));
  sim::World world(
      {.threads = 0, .repeat = fmt::format("longhaul perf {} --mbytes {}", job.file, task.mbytes)},
      std::move(network),
      std::make_unique<sim::JitteredSteps>(
          job.job.seed, std::vector<sim::JitteredSteps::Speed>(members->size())));
  sim::Observer observer;
  observer.on_record = [&](Time at, Rank rank, const Record& r) {
    on_record(rank, progress)(at, r);
  };
  world.observe(std::move(observer));
  const perf::Exchange exchange = exchange_of(job, task);
  const auto layout = Layout::flat(exchange.length);
  const perf::Measurement* first = nullptr;
  for (Rank rank = 0; rank < members->size(); ++rank) {
    Place place = place_of(job, rank, members, layout, /*phantom=*/true);
    auto made = make_measurement(job, exchange, place,
                                 [&world, rank] { return world.figures(rank).wan_sent; });
    if (!made) return made.error();
    if (rank == 0) first = made->get();
    world.add(std::move(place), *std::move(made), nullptr);
  }
  const InterruptGuard guard;
  for (;;) {
    if (interrupted()) return stopped();
    const Result<bool> more = world.step();
    if (!more) return more.error();
    if (!*more) break;
  }
  return result_of(first->laps(), *members, PerfPlace::simulator);
}

Result<std::optional<PerfResult>> perf_site(const Job& job, const PerfTask& task,
                                            const PerfSite& site, const PerfProgress& progress) {
  LH_LET(sockets, node_sockets(job, site.rank, site.addresses, site.listening, site.security));
  const auto members = std::make_shared<const Members>(job.members());
  const perf::Exchange exchange = exchange_of(job, task);
  Place place = place_of(job, site.rank, members, Layout::flat(exchange.length), /*phantom=*/false);
  place.own_tests = false;  // no node has a model with a score to wait for
  net::EventLoop::Observer observer;
  observer.on_record = on_record(site.rank, progress);
  observer.on_note = site.note;
  observer.stop = [] { return interrupted(); };
  net::EventLoop loop({peers_config(job, site.rank, std::move(sockets), hash_of(job, exchange))},
                      place, nullptr, {}, std::move(observer));
  auto made = make_measurement(job, exchange, place, [&loop] { return loop.counters().wan_bytes; });
  if (!made) return made.error();
  const perf::Measurement& measurement = **made;
  Node node(place, *std::move(made), nullptr, loop);
  const InterruptGuard guard;
  const Status ended = loop.run(node);
  if (interrupted()) return stopped();
  if (!ended) return unavailable(ended.error().what);  // never bad usage
  if (site.rank != 0) return std::optional<PerfResult>{};
  return std::optional(result_of(measurement.laps(), *members, PerfPlace::site));
}

Result<PerfLaunchResult> perf_launched(const Job& job, const PerfLaunch& options) {
  LH_LET(lab,
         Lab::start_if(options.lab, job, {options.program, options.arguments, "", options.line}));
  std::string said;
  ChildProcesses children([&, first = node_name(job.members().front())](
                              const std::string& name, bool is_error, std::string_view line) {
    if (name == first && !is_error)
      (said += line) += '\n';
    else if (options.line)
      options.line(name, is_error, line);
  });
  NodeCommand command{options.program, "perf", options.arguments, {}, options.insecure};
  command.arguments.insert(command.arguments.end(), options.task.begin(), options.task.end());
  command.arguments.push_back("--json");
  LH_TRY(NodeProcesses(children, job, command, lab.get()).start_all());
  (void)wait_for_nodes(children, lab.get());
  PerfLaunchResult launched;
  launched.exit_code = exit_code(children.ends(), interrupted());
  if (lab && !lab->runs()) return unavailable(lab->failure());
  const std::vector<ChildExit> ends = children.ends();
  const bool all_done =
      std::all_of(ends.begin(), ends.end(), [](const ChildExit& end) { return end.done(); });
  if (interrupted() || !all_done) {
    if (launched.exit_code <= 1) launched.exit_code = 3;  // some succeeded, not all
    return launched;
  }
  LH_LET(result, read_result(said));
  result.place = options.lab ? PerfPlace::lab : PerfPlace::local;
  if (lab) result.lab = lab->stop();
  launched.result = std::move(result);
  return launched;
}

}  // namespace longhaul::run
