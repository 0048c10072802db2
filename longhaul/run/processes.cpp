#include "longhaul/run/processes.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>

#include <fmt/format.h>

#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/site_index.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/security.h"

namespace longhaul::run {
namespace {

using namespace std::chrono_literals;

constexpr auto kEndPatience = 10s;  // between asking processes to end and killing them

}  // namespace

NodeProcesses::NodeProcesses(ChildProcesses& children, const Job& job, const NodeCommand& command,
                             const Lab* lab)
    : children_(children), job_(job), command_(command), lab_(lab), members_(job.members()) {
  const SiteIndex index(job.sites);
  for (const Member& member : members_) sites_.push_back(index.at(member.site));
}

ChildSpec NodeProcesses::spec(Rank rank) const {
  const std::string name = node_name(members_[rank]);
  ChildSpec spec{name, {command_.program, command_.subcommand}, sockets_.descriptor(rank)};
  if (lab_) spec.network = lab_->network(sites_[rank]);
  const auto add = [&](const std::vector<std::string>& words) {
    spec.command.insert(spec.command.end(), words.begin(), words.end());
  };
  add(command_.arguments);
  add({"--site", name, "--addresses", sockets_.addresses()});
  add(keys_ ? std::vector<std::string>{"--keys", keys_->folder()}
            : std::vector<std::string>{"--insecure"});
  if (command_.own) add(command_.own(rank));
  if (command_.run_in_copy)
    spec.instead = [this, words = std::vector(spec.command.begin() + 1, spec.command.end())] {
      return command_.run_in_copy(words);
    };
  return spec;
}

Status NodeProcesses::start_all() {
  LH_TRY(sockets_.open(sites_, lab_));
  if (!command_.insecure) {
    auto made = ThrowawayKeys::make(job_);
    if (!made) return made.error();
    keys_ = *made;
    children_.keep(*std::move(made));
  }
  for (Rank rank = 0; rank < members_.size(); ++rank) LH_TRY(children_.start(spec(rank)));
  return Ok{};
}

Status NodeProcesses::restart(Rank rank) { return children_.restart(rank, spec(rank)); }

Status start_nodes(ChildProcesses& children, const Job& job, const NodeCommand& command,
                   const Lab* lab) {
  return NodeProcesses(children, job, command, lab).start_all();
}

void Restarts::schedule(std::size_t node, Time now) {
  Node& one = nodes_[node];
  if (one.at || one.restarts >= most_) return;
  one.at = now + kFirstPause * (1u << std::min(one.restarts, 5u));
}

Restarts::Due Restarts::look(const std::vector<std::optional<ChildExit>>& ends, bool resumable,
                             Time now) {
  const auto lives = [](const auto& end) { return !end.has_value(); };
  const bool none_live = std::none_of(ends.begin(), ends.end(), lives);
  // Of those that count: where a node comes back alone, those that were never lost.
  bool done = false, all_done = true, any = false;
  bool all_died = true;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    done |= ends[i] && ends[i]->done();
    if (mode_ == Mode::together || (nodes_[i].restarts == 0 && !nodes_[i].at)) {
      any = true;
      all_done &= ends[i].has_value();
    }
    all_died &= ends[i] && died(*ends[i]);
  }
  Due due;
  if (done && any && all_done) {
    for (Node& node : nodes_) node.at.reset();
    if (!over_) over_ = now;
    due.give_up = now >= *over_ + kGrace;
    return due;
  }
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const bool alone = mode_ == Mode::alone && ends[i] && died(*ends[i]) && !none_live;
    if (alone || (all_died && resumable)) schedule(i, now);
    if (nodes_[i].at && now >= *nodes_[i].at) {
      nodes_[i].at.reset();
      ++nodes_[i].restarts;
      due.nodes.push_back(i);
    }
    due.waits |= nodes_[i].at.has_value();
  }
  return due;
}

bool ends_all(const ChildExit& end) {
  return end.signal == 0 && !end.done() && end.code != 3 && end.code != 130;
}

namespace {

// Starts the nodes that are due. True: wait on, although all may have ended.
Result<bool> restart_due(ChildProcesses& children, const RestartPlan& plan, bool& give_up) {
  std::vector<std::optional<ChildExit>> ends;
  for (std::size_t i = 0; i < children.size(); ++i) ends.push_back(children.end(i));
  const auto due = plan.restarts.look(ends, plan.resumable(), std::chrono::steady_clock::now());
  give_up |= due.give_up;
  for (const std::size_t node : due.nodes) {
    if (plan.note)
      plan.note(fmt::format("{} has ended ({}); starts it again, {} of {} times",
                            children.name(node), to_string(*ends[node]), plan.restarts.count(node),
                            plan.restarts.most()));
    LH_TRY(plan.nodes.restart(Rank(node)));
  }
  bool waits = due.waits || !due.nodes.empty();
  if (plan.each_turn) {
    const auto more = plan.each_turn();
    if (!more) return more.error();
    waits |= *more;
  }
  return waits;
}

}  // namespace

bool wait_for_nodes(ChildProcesses& children, Lab* lab, const RestartPlan* plan) {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> asked;
  const InterruptGuard guard;
  bool waits = false;
  while (!children.all_ended() || waits) {
    children.poll(50ms);
    bool end = interrupted() || children.rest_is_stopped() || (lab && !lab->runs());
    for (std::size_t i = 0; i < children.size(); ++i)
      end |=
          children.end(i) && ends_all(*children.end(i)) && !(plan && plan->restarts.count(i) > 0);
    waits = false;
    if (plan && !end && !asked) {
      const auto more = restart_due(children, *plan, end);
      waits = more && *more;
      end |= !more;
    }
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
