#include "longhaul/run/lab.h"

#include <fcntl.h>
#include <unistd.h>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/lab/router.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/job/json.h"
#include "longhaul/run/network.h"

namespace longhaul::run {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kPatience = 20s;  // for the router to begin, and to end
constexpr std::string_view kReady = "ready", kFigures = "figures ";

nlohmann::json read_json(const std::string& file) {
  const auto bytes = read_file(file);
  if (!bytes) return {};
  return nlohmann::json::parse(bytes->begin(), bytes->end(), nullptr, false);
}

// When a process began, in the kernel's ticks: numbers of processes come again. 0: it is no more.
std::uint64_t born(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  std::istringstream words(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string word;
  for (int i = 3; i < 22; ++i) words >> word;  // proc(5): field 3 follows the name
  std::uint64_t ticks = 0;
  words >> ticks;
  return ticks;
}

LabFigures figures_of(const lab::RouterFigures& r) {
  return {.router_limited = r.limited(),
          .limited_share = r.limited_share(),
          .worst_late_ms = r.worst_late_ms,
          .busy_share = r.busy_share,
          .mbps = r.seconds > 0 ? double(r.bytes) * 8e-6 / r.seconds : 0,
          .packets = r.packets,
          .lost = r.lost,
          .queue_full = r.queue_full,
          .cut = r.cut,
          .refused = r.refused};
}

}  // namespace

Lab::Lab(LabOptions options)
    : options_(std::move(options)),
      router_([this](const std::string& name, bool is_error, std::string_view line) {
        if (line == kReady)
          ready_ = true;
        else if (!is_error && line.starts_with(kFigures))
          figures_line_ = line.substr(kFigures.size());
        else if (options_.line)
          options_.line(name, is_error, line);
      }) {}

Status Lab::possible(const Job& job) {
  // A file means the same network here as in the simulator, or is refused by both.
  LH_TRY(make_network(job, job.members()));
  const auto made = lab::make_networks(1);
  return made ? Status(Ok{}) : Status(made.error());
}

Result<std::unique_ptr<Lab>> Lab::start(const Job& job, LabOptions options) {
  LH_TRY(possible(job));
  std::unique_ptr<Lab> made(new Lab(std::move(options)));
  LH_LET(networks, lab::make_networks(job.sites.size()));
  made->networks_ = std::move(networks);
  const auto warn = [&](const std::string& text) {
    if (made->options_.line && !text.empty()) made->options_.line("lab", true, "note: " + text);
  };
  warn(lab::router_overload_warning(job.network));
  if (job.wan.lan_mbps && job.members().size() > job.sites.size())
    warn("[wan] lan_mbps does not count here: nodes of one site reach one another at full speed");
  LH_TRY(made->start_router());
  return made;
}

Status Lab::start_router() {
  if (!options_.file.empty())
    LH_TRY(write_atomically(
        options_.file,
        nlohmann::json{{"launcher", getpid()}, {"born", born(getpid())}}.dump() + "\n"));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return unavailable("no pipe for the router");
  const lab::Descriptor stop(ends[0]);
  stop_ = lab::Descriptor(ends[1]);
  ChildSpec spec{"router", options_.program};
  spec.command.push_back("lab-router");
  spec.keep.push_back(stop.get());
  spec.command.insert(spec.command.end(), options_.arguments.begin(), options_.arguments.end());
  std::string tuns;
  for (const lab::SiteNetwork& network : networks_) {
    spec.keep.push_back(network.tun.get());
    tuns += fmt::format("{}{}", tuns.empty() ? "" : ",", network.tun.get());
  }
  spec.command.insert(spec.command.end(), {"--tuns", tuns, "--stop", std::to_string(stop.get()),
                                           "--out", figures_of_router()});
  LH_TRY(router_.start(spec));
  for (lab::SiteNetwork& network : networks_) network.tun.reset();  // its alone now
  const auto end = Clock::now() + kPatience;
  while (!ready_ && runs() && Clock::now() < end) router_.poll(20ms);
  if (ready_) return Ok{};
  return unavailable("the router of the emulated WAN did not begin" +
                     (router_.all_ended() ? ": " + to_string(*router_.end(0)) : ""));
}

Result<net::ListeningSocket> Lab::open_listening_socket(std::uint32_t site) const {
  net::ListeningSocket listening_socket;
  LH_TRY(lab::within(network(site), [&]() -> Status {
    LH_LET(made, net::open_listening_socket({address(site), 0}));
    listening_socket = made;
    return Ok{};
  }));
  return listening_socket;
}

// A file of its own: a router may outlive the launcher for long enough to write it.
std::string Lab::figures_of_router() const {
  return options_.file.empty() ? "" : options_.file + ".router";
}

bool Lab::runs() {
  router_.poll(0ms);
  return !router_.all_ended();
}

std::string Lab::failure() const {
  return fmt::format("the router of the emulated WAN has ended ({}), and the network with it",
                     to_string(*router_.end(0)));
}

std::optional<LabFigures> Lab::read_figures() const {
  if (options_.file.empty())
    return lab_figures(nlohmann::json::parse(figures_line_, nullptr, false));
  const auto figures = lab_figures(read_json(figures_of_router()));
  if (!figures) return std::nullopt;
  // From now on the run is known to have ended in order.
  if (std::rename(figures_of_router().c_str(), options_.file.c_str()) != 0) return std::nullopt;
  return figures;
}

std::optional<LabFigures> Lab::stop() {
  std::uint64_t overruns = 0;  // what its devices dropped while it did not read
  for (const lab::SiteNetwork& network : networks_)
    if (const auto dropped = lab::overruns(network.netns.get())) overruns += *dropped;
  stop_.reset();
  router_.signal(SIGCONT);  // if it is stopped it cannot end
  const auto end = Clock::now() + kPatience;
  while (!router_.all_ended() && Clock::now() < end) router_.poll(20ms);
  router_.signal(SIGKILL);
  while (!router_.all_ended()) router_.poll(20ms);
  if (!router_.end(0)->done()) return std::nullopt;
  auto figures = read_figures();
  if (!figures) return std::nullopt;
  figures->refused += overruns;
  figures->packets += overruns;
  if (figures->packets > 0) figures->limited_share += double(overruns) / double(figures->packets);
  figures->router_limited |= figures->limited_share > lab::kMaxLimitedShare;
  return figures;
}

Status run_router(const Job& job, std::vector<int> tuns, int stop, const std::string& file) {
  if (tuns.size() != job.sites.size())
    return invalid(fmt::format("--tuns: {} given, but {} has {} sites", tuns.size(), job.file,
                               job.sites.size()));
  lab::RouterConfig config{.wan = job.network,
                           .seed = job.job.seed,
                           .changes = cuts_of(job),
                           .tuns = std::move(tuns),
                           .stop = stop};
  fmt::print("{}\n", kReady);
  std::fflush(stdout);
  LH_LET(figures, lab::route(config));
  const auto json = json_of(figures_of(figures));
  if (!file.empty()) return write_atomically(file, json.dump(2) + "\n");
  fmt::print("{}{}\n", kFigures, json.dump());
  return Ok{};
}

std::string last_failure(const std::string& file) {
  const auto json = read_json(file);
  if (!json.is_object() || !json.contains("launcher") || !json.contains("born")) return "";
  if (!json["launcher"].is_number_integer() || !json["born"].is_number_unsigned()) return "";
  const int pid = json["launcher"];
  if (born(pid) == json["born"].get<std::uint64_t>()) return "";  // it still runs
  return fmt::format(
      "the run that was here was killed (its launcher, process {}, or its router); its processes, "
      "namespaces and devices went with it",
      pid);
}

}  // namespace longhaul::run
