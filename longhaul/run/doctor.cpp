#include "longhaul/run/doctor.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "longhaul/doctor/coordinate.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/processes.h"

namespace longhaul::run {
namespace {

using namespace std::chrono_literals;

Result<std::vector<net::Address>> addresses_of(const Job& job, const DoctorOptions& options) {
  const auto& given = options.addresses;
  if (!given.empty() && given.size() != job.sites.size())
    return invalid(fmt::format("--addresses: {} given, but {} has {} sites; a doctor is one a site",
                               given.size(), job.file, job.sites.size()));
  std::vector<net::Address> addresses;
  for (std::size_t i = 0; i < job.sites.size(); ++i) {
    const SiteTable& site = job.sites[i];
    const std::string where = given.empty()
                                  ? fmt::format("{}: [site.{}] address", job.file, site.name)
                                  : "--addresses: " + site.name;
    const std::string& text = given.empty() ? site.address : given[i];
    if (text.empty())
      return invalid(where +
                     ": missing; give every site one, such as address = \"10.0.0.1:7000\", or say "
                     "--addresses");
    auto address = net::parse_address(text);
    if (!address) return invalid(where + ": " + address.error().what);
    addresses.push_back(*std::move(address));
  }
  return addresses;
}

Result<doctor::LocalSite> self_of(const Job& job, const DoctorOptions& options) {
  if (job.sites.size() < 2)
    return invalid(job.file + ": has one site: there is no network to examine");
  LH_LET(addresses, addresses_of(job, options));
  std::random_device device;
  doctor::LocalSite self{.site = options.site,
                         .addresses = std::move(addresses),
                         .job_hash = job_hash(job),
                         .release = options.release,
                         .token = std::uint64_t(device()) << 32 | device(),
                         .stop = interrupted};
  for (const SiteTable& site : job.sites) self.names.push_back(site.name);
  LH_LET(credentials, open_credentials(job, self.names[options.site], options.security));
  self.credentials = std::move(credentials);
  return self;
}

// As the run to come will have it.
Result<net::Address> listens_at(const Job& job, const doctor::LocalSite& self) {
  const Members members = job.members();
  for (Rank rank = 0; rank < members.size(); ++rank) {
    if (members[rank].site != self.names[self.site]) continue;
    LH_LET(bind, bind_of(job, rank));
    return bind.value_or(net::listening_address(self.addresses[self.site]));
  }
  return self.addresses[self.site];  // it has no node
}

// A machine that has just started may get its addresses and names later.
Result<std::vector<net::ListeningSocket>> listen(const net::Address& at,
                                                 const DoctorOptions& options) {
  const auto end = std::chrono::steady_clock::now() + options.arrival_timeout;
  for (bool is_noted = false;; is_noted = true) {
    auto opened = net::open_listening_sockets(at);
    const bool may_come = !opened && opened.error().kind == Error::Kind::unavailable;
    if (!may_come || interrupted() || std::chrono::steady_clock::now() >= end) return opened;
    if (!is_noted) options.on_progress(opened.error().what + "; tries again");
    std::this_thread::sleep_for(200ms);
  }
}

double expected_loss(const Job& job) {
  double loss = job.network.usual.loss;
  for (const auto& [way, pair] : job.network.pairs) loss = std::max(loss, pair.loss);
  return loss;
}

// The rest need not end by themselves: one that the first could not reach still waits for it.
constexpr auto kGoodbye = 3s;

void wait_for_first(ChildProcesses& children, Lab* lab) {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> end;
  const InterruptGuard guard;
  bool asked = false;
  while (!children.all_ended()) {
    children.poll(50ms);
    if (!end && children.end(0)) end = Clock::now() + kGoodbye;
    if (!asked && (interrupted() || (lab && !lab->runs()))) {
      children.signal(SIGTERM);
      asked = true;
      if (!end) end = Clock::now() + 2 * kGoodbye;
    }
    if (end && Clock::now() > *end) children.signal(SIGKILL);
  }
}

// A folder for the router's figures, gone with this.
class Scratch {
 public:
  Scratch() {
    std::error_code code;
    const auto base = std::filesystem::temp_directory_path(code);
    std::string name = (base / "longhaul-doctor-XXXXXX").string();
    if (!code && mkdtemp(name.data()) != nullptr) path_ = name;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  std::string file() const { return path_.empty() ? "" : path_ + "/lab.json"; }

 private:
  std::string path_;
};

// What it measured is then not the job's WAN.
void warn_if_limited(Lab& lab, const ChildProcesses::Line& line) {
  const auto figures = lab.stop();
  if (!figures || !figures->router_limited || !line) return;
  line("lab", true,
       fmt::format("note: {:.1f} % of the packets were delayed by the router: these are its rates "
                   "and times, NOT the WAN's",
                   100 * figures->limited_share));
}

}  // namespace

Result<std::uint32_t> find_site(const Job& job, const std::string& name) {
  std::vector<std::string_view> known;
  for (const SiteTable& site : job.sites) {
    if (site.name == name) return std::uint32_t(known.size());
    known.push_back(site.name);
  }
  return invalid(fmt::format("--site {}: no such site{}", name, suggestion(name, known)));
}

Result<doctor::Report> run_doctor_coordinator(const Job& job, const DoctorOptions& options) {
  const InterruptGuard guard;
  LH_LET(self, self_of(job, options));
  LH_LET(listens, listens_at(job, self));
  doctor::Report report{.job = job.job.name,
                        .job_hash = fmt::format("{:016x}", self.job_hash),
                        .plan = options.plan,
                        .dscp = job.net.dscp,
                        .silence_s = job.net.silence_s,
                        .expected_loss = expected_loss(job)};
  if (job.net.congestion != "system") report.plan.congestion = job.net.congestion;
  run_coordinator(
      self,
      {.plan = report.plan,
       .arrival_timeout = options.arrival_timeout,
       .one_by_one = options.one_by_one,
       .facts = doctor::local_facts(options.folder, self.addresses[options.site], listens),
       .on_progress = options.on_progress},
      report);
  return report;
}

Status run_doctor_participant(const Job& job, const DoctorOptions& options) {
  const InterruptGuard guard;
  LH_LET(self, self_of(job, options));
  const net::Address& own = self.addresses[options.site];
  LH_LET(at, listens_at(job, self));
  std::vector<net::ListeningSocket> opened = {{options.listening, own.port}};
  if (options.listening < 0) {
    LH_LET(listening, listen(at, options));
    opened = std::move(listening);
  }
  std::vector<int> sockets;
  for (const net::ListeningSocket& one : opened) {
    sockets.push_back(one.descriptor);
    fcntl(one.descriptor, F_SETFL, fcntl(one.descriptor, F_GETFL) | O_NONBLOCK);
  }
  const Status end = run_participant(self, sockets,
                                     {.arrival_timeout = options.arrival_timeout,
                                      .facts = doctor::local_facts(options.folder, own, at),
                                      .port = opened.front().port,
                                      .on_progress = options.on_progress});
  for (const int one : sockets) ::close(one);
  return end;
}

Result<int> launch_doctors(const Job& job, const DoctorsOptions& options) {
  const Scratch scratch;
  LH_LET(lab, Lab::start_if(options.lab, job,
                            {options.program, options.network, scratch.file(), options.line}));
  ChildProcesses children(options.line);
  const NodeCommand command{options.program, "doctor", options.arguments, {}, options.insecure};
  LH_TRY(NodeProcesses(children, job, command, lab.get(), /*one_a_site=*/true).start_all());
  wait_for_first(children, lab.get());
  if (lab && !lab->runs()) return unavailable(lab->failure());
  if (lab) warn_if_limited(*lab, options.line);
  const ChildExit& first = *children.end(0);
  if (interrupted()) return 130;
  if (first.signal != 0)
    return unavailable(
        fmt::format("the doctor of {}, the first site: {}", children.name(0), to_string(first)));
  return first.code;
}

}  // namespace longhaul::run
