#include "longhaul/run/processes.h"

#include <chrono>
#include <csignal>
#include <optional>

#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/site_index.h"
#include "longhaul/run/listening_sockets.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/security.h"

namespace longhaul::run {
namespace {

using namespace std::chrono_literals;

constexpr auto kEndPatience = 10s;  // between asking processes to end and killing them

}  // namespace

Status start_nodes(ChildProcesses& children, const Job& job, const NodeCommand& command,
                   const Lab* lab) {
  const Members members = job.members();
  const SiteIndex index(job.sites);
  std::vector<std::uint32_t> sites;
  for (const Member& member : members) sites.push_back(index.at(member.site));
  ListeningSockets sockets;
  LH_TRY(sockets.open(sites, lab));
  std::optional<std::shared_ptr<ThrowawayKeys>> keys;
  if (!command.insecure) {
    auto made = ThrowawayKeys::make(job);
    if (!made) return made.error();
    keys = *made;
    children.keep(*std::move(made));
  }
  for (Rank rank = 0; rank < members.size(); ++rank) {
    const std::string name = node_name(members[rank]);
    ChildSpec spec{name, {command.program, command.subcommand}, sockets.descriptor(rank)};
    if (lab) spec.network = lab->network(sites[rank]);
    const auto add = [&](const std::vector<std::string>& words) {
      spec.command.insert(spec.command.end(), words.begin(), words.end());
    };
    add(command.arguments);
    add({"--site", name, "--addresses", sockets.addresses()});
    add(keys ? std::vector<std::string>{"--keys", (*keys)->folder()}
             : std::vector<std::string>{"--insecure"});
    if (command.own) add(command.own(rank));
    LH_TRY(children.start(spec));
  }
  return Ok{};
}

bool ends_all(const ChildExit& end) {
  return end.signal == 0 && !end.done() && end.code != 3 && end.code != 130;
}

bool wait_for_nodes(ChildProcesses& children, Lab* lab) {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> asked;
  const InterruptGuard guard;
  while (!children.all_ended()) {
    children.poll(50ms);
    bool end = interrupted() || children.rest_is_stopped() || (lab && !lab->runs());
    for (std::size_t i = 0; i < children.size(); ++i)
      end |= children.end(i) && ends_all(*children.end(i));
    if (end && !asked) {
      asked = Clock::now();
      children.signal(SIGTERM);
      children.signal(SIGCONT);  // one that is stopped cannot end
    }
    if (asked && Clock::now() > *asked + kEndPatience) children.signal(SIGKILL);
  }
  return asked.has_value();
}

}  // namespace longhaul::run
