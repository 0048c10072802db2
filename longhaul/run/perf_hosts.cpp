// The three places where `longhaul perf` measures: simulator, a node over sockets, and processes of
// this machine.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <xxhash.h>
#include <nlohmann/json.hpp>

#include "longhaul/net/event_loop.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/parts.h"
#include "longhaul/run/launch.h"
#include "longhaul/run/network.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/perf.h"
#include "longhaul/run/processes.h"
#include "longhaul/run/sockets.h"
#include "longhaul/sim/world.h"

namespace longhaul::run {
namespace {

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

// What the nodes must agree on: the job, and what is measured of it.
std::uint64_t hash_of(const Job& job, const perf::Exchange& exchange) {
  const std::uint64_t numbers[] = {exchange.length, exchange.laps,
                                   exchange.root ? *exchange.root + 1ull : 0};
  return XXH64(numbers, sizeof numbers, job_hash(job));
}

Result<std::unique_ptr<perf::Measurement>> make_measurement(const Job& job,
                                                            const perf::Exchange& exchange,
                                                            const Place& place,
                                                            perf::Measurement::Sent sent) {
  auto overlay = build_overlay(job, place);
  if (!overlay) return overlay.error();
  return std::make_unique<perf::Measurement>(exchange, *std::move(overlay), place, std::move(sent));
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

// Of rank 0, who keeps the time.
auto on_record(Rank self, const PerfProgress& progress) {
  return [self, &progress](Time, const Record& record) {
    if (self == 0 && progress && record.name == "lap_s") progress(record.round, record.value);
  };
}

Error stopped() { return unavailable("interrupted; nothing is measured by half"); }

}  // namespace

Result<PerfResult> perf_simulated(const Job& job, const PerfTask& task,
                                  const PerfProgress& progress) {
  const auto members = std::make_shared<const Members>(job.members());
  auto network = make_network(job, *members);
  if (!network) return network.error();
  sim::World world(
      {.threads = 0, .repeat = fmt::format("longhaul perf {} --mbytes {}", job.file, task.mbytes)},
      *std::move(network),
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
  auto sockets = node_sockets(job, site.rank, site.addresses, site.listening, site.security);
  if (!sockets) return sockets.error();
  const auto members = std::make_shared<const Members>(job.members());
  const perf::Exchange exchange = exchange_of(job, task);
  const Place place =
      place_of(job, site.rank, members, Layout::flat(exchange.length), /*phantom=*/false);
  net::EventLoop::Observer observer;
  observer.on_record = on_record(site.rank, progress);
  observer.on_note = site.note;
  observer.stop = [] { return interrupted(); };
  net::EventLoop loop({peers_config(job, site.rank, *std::move(sockets), hash_of(job, exchange))},
                      place, nullptr, {}, std::move(observer));
  auto made = make_measurement(job, exchange, place, [&loop] { return loop.counters().wan_bytes; });
  if (!made) return made.error();
  const perf::Measurement& measurement = **made;
  Node node(place, *std::move(made), nullptr, loop);
  const InterruptGuard guard;
  const Status ended = loop.run(node);
  if (interrupted()) return stopped();
  if (!ended) return unavailable(ended.error().what);  // whatever it was, no bad usage
  if (site.rank != 0) return std::optional<PerfResult>{};
  return std::optional(result_of(measurement.laps(), *members, PerfPlace::site));
}

namespace {

// What rank 0 printed with --json.
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

Result<PerfLaunchResult> perf_launched(const Job& job, const PerfLaunch& options) {
  std::unique_ptr<Lab> lab;
  if (options.lab) {
    auto started = Lab::start(job, {options.program, options.arguments, "", options.line});
    if (!started) return started.error();
    lab = *std::move(started);
  }
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
  LH_TRY(start_nodes(children, job, command, lab.get()));
  (void)wait_for_nodes(children, lab.get());
  PerfLaunchResult launched;
  launched.exit_code = exit_code(children.ends(), interrupted());
  if (lab && !lab->runs()) return unavailable(lab->failure());
  const std::vector<ChildExit> ends = children.ends();
  const bool all_done =
      std::all_of(ends.begin(), ends.end(), [](const ChildExit& end) { return end.done(); });
  if (interrupted() || !all_done) {
    if (launched.exit_code <= 1) launched.exit_code = 3;  // some ended well, not all
    return launched;
  }
  auto result = read_result(said);
  if (!result) return result.error();
  result->place = options.lab ? PerfPlace::lab : PerfPlace::local;
  if (lab) result->lab = lab->stop();
  launched.result = *std::move(result);
  return launched;
}

}  // namespace longhaul::run
