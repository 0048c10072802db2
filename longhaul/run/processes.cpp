#include "longhaul/run/processes.h"

#include <algorithm>
#include <csignal>
#include <optional>

#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/site_index.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/sockets.h"

namespace longhaul::run {
namespace {

using namespace std::chrono_literals;

constexpr auto kQuickEnd = 2s;  // a note names longer ones

}  // namespace

NodeProcesses::NodeProcesses(ChildProcesses& children, const Job& job, const NodeCommand& command,
                             const Lab* lab, bool one_a_site)
    : children_(children), job_(job), command_(command), lab_(lab) {
  const SiteIndex index(job.sites);
  if (one_a_site)
    for (const SiteTable& site : job.sites) names_.push_back(site.name);
  else
    for (const Member& member : job.members()) names_.push_back(node_name(member));
  for (const std::string& name : names_) sites_.push_back(index.at(name.substr(0, name.find('/'))));
}

ChildSpec NodeProcesses::spec(Rank rank) const {
  const std::string& name = names_[rank];
  ChildSpec spec{name, command_.program, sockets_.descriptor(rank)};
  if (lab_) spec.network = lab_->network(sites_[rank]);
  const auto add = [&](const std::vector<std::string>& words) {
    spec.command.insert(spec.command.end(), words.begin(), words.end());
  };
  add({command_.subcommand});
  add(command_.arguments);
  add({"--site", name, "--addresses", sockets_.addresses()});
  add(keys_ ? std::vector<std::string>{"--keys", keys_->folder()}
            : std::vector<std::string>{"--insecure"});
  if (command_.own) add(command_.own(rank));
  if (command_.run_in_copy)
    spec.instead =
        [this, words = std::vector(spec.command.begin() + std::ptrdiff_t(command_.program.size()),
                                   spec.command.end())] { return command_.run_in_copy(words); };
  return spec;
}

Status NodeProcesses::start_all() {
  LH_TRY(sockets_.open(sites_, lab_));
  if (!command_.insecure) {
    LH_LET(made, ThrowawayKeys::make(job_));
    keys_ = made;
    children_.keep(std::move(made));
  }
  for (Rank rank = 0; rank < names_.size(); ++rank) LH_TRY(children_.start(spec(rank)));
  return Ok{};
}

Status NodeProcesses::restart(Rank rank) { return children_.restart(rank, spec(rank)); }

void Restarts::schedule(std::size_t node, Time now) {
  Node& one = nodes_[node];
  if (one.at || one.restarts >= most_) return;
  one.at = now + kFirstPause * (1u << std::min(one.restarts, 5u));
}

Restarts::Due Restarts::look(const std::vector<std::optional<ChildExit>>& ends, bool resumable,
                             Time now) {
  const auto lives = [](const auto& end) { return !end.has_value(); };
  const bool none_live = std::none_of(ends.begin(), ends.end(), lives);
  // all_done and any consider all nodes in mode `together`, else only nodes that were never lost.
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
    LH_LET(more, plan.each_turn());
    waits |= more;
  }
  return waits;
}

// Between asking processes to end and their end.
class Ending {
 public:
  Ending(ChildProcesses& children, const EndPatience& patience)
      : children_(children), patience_(patience) {
    children_.signal(SIGTERM);
    children_.signal(SIGCONT);  // one that is stopped cannot end
  }
  void look() {
    std::string at_work, late;
    for (std::size_t i = 0; i < children_.size(); ++i) {
      if (children_.end(i)) continue;
      late += (late.empty() ? "" : ", ") + children_.name(i);
      if (const std::string what = patience_.writes ? patience_.writes(i) : ""; !what.empty())
        at_work += fmt::format("{}{}: {}", at_work.empty() ? "" : ", ", children_.name(i), what);
    }
    const auto now = Clock::now();
    if (!at_work.empty()) idle_since_ = now;
    if (!at_work.empty() && !told_ && now > begun_ + kQuickEnd)
      note(fmt::format("stops, and waits for what is being written ({}); Ctrl-C ends all at once",
                       at_work));
    if (now <= idle_since_ + patience_.within) return;
    if (!killed_)
      note(fmt::format("{}: not ended within {:g} s, and killed", late, patience_.within.count()));
    killed_ = true;
    children_.signal(SIGKILL);
  }

 private:
  using Clock = std::chrono::steady_clock;
  void note(const std::string& text) {
    told_ = true;
    if (patience_.note) patience_.note(text);
  }

  ChildProcesses& children_;
  const EndPatience& patience_;
  const Clock::time_point begun_ = Clock::now();
  Clock::time_point idle_since_ = begun_;
  bool told_ = false, killed_ = false;
};

}  // namespace

bool wait_for_nodes(ChildProcesses& children, Lab* lab, const RestartPlan* plan,
                    const EndPatience& patience) {
  std::optional<Ending> ending;
  CheckpointRequests checkpoints;
  const InterruptGuard guard;
  bool waits = false;
  while (!children.all_ended() || waits) {
    children.poll(50ms);
    bool end = interrupted() || children.rest_is_stopped() || (lab && !lab->runs());
    for (std::size_t i = 0; i < children.size(); ++i)
      end |=
          children.end(i) && ends_all(*children.end(i)) && !(plan && plan->restarts.count(i) > 0);
    waits = false;
    if (plan && !end && !ending) {
      const auto more = restart_due(children, *plan, end);
      waits = more && *more;
      end |= !more;
    }
    if (checkpoints.take()) children.signal(SIGUSR1);
    if (end && !ending) ending.emplace(children, patience);
    if (ending) ending->look();
  }
  return ending.has_value();
}

}  // namespace longhaul::run
