#pragma once
// All nodes of a job as processes of this machine, over loopback or an emulated WAN: what
// `longhaul launch` and `longhaul perf` have in common.
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "longhaul/run/child_processes.h"
#include "longhaul/run/lab.h"
#include "longhaul/run/listening_sockets.h"

namespace longhaul::run {

class ThrowawayKeys;  // run/security.h

struct NodeCommand {
  std::string program = {};                                // the longhaul that each process is
  std::string subcommand = {};                             // that runs one node
  std::vector<std::string> arguments = {};                 // for all: the job file, --set ...
  std::function<std::vector<std::string>(Rank)> own = {};  // for one node alone; may be empty
  bool insecure = false;  // without TLS; else with keys of this run alone
  // Carries out such a command in a copy of this process, which has loaded libtorch once for all
  // nodes (ChildSpec::instead). Empty: `program` is started for each.
  std::function<int(const std::vector<std::string>&)> run_in_copy = {};
};

// Starts the nodes by rank. Each gets --site, --addresses, --keys or --insecure, an inherited
// listening socket, and with `lab` its site's network namespace; null: all use this machine's
// loopback. The keys live as long as `children`.
Status start_nodes(ChildProcesses&, const Job&, const NodeCommand&, const Lab* lab);

// Starts nodes again that have died. The listening sockets stay open for them, at the same
// addresses.
class NodeProcesses {
 public:
  // All outlive this.
  NodeProcesses(ChildProcesses& children, const Job& job, const NodeCommand& command,
                const Lab* lab);
  Status start_all();
  Status restart(Rank);

 private:
  ChildSpec spec(Rank) const;

  ChildProcesses& children_;
  const Job& job_;
  const NodeCommand& command_;
  const Lab* const lab_;
  const Members members_;
  std::vector<std::uint32_t> sites_;  // by rank
  ListeningSockets sockets_;
  std::shared_ptr<ThrowawayKeys> keys_;  // null: insecure
};

// When a node is started again after it was killed or lost the others, and after which pause.
// Times are the caller's; one thread.
class Restarts {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Mode : std::uint8_t {
    alone,    // a node that comes back rejoins those that go on
    together  // those that go on take none back; when all have ended, all resume
  };
  static constexpr std::chrono::seconds kFirstPause{1}, kGrace{10};
  // `most`: times for each node.
  Restarts(std::size_t nodes, unsigned most, Mode mode) : nodes_(nodes), most_(most), mode_(mode) {}

  struct Due {
    std::vector<std::size_t> nodes;  // to be started now
    bool waits = false;              // some are to be started later
    bool give_up = false;  // the others have come to the end; those started again are to end, too
  };
  // `ends`: of all nodes; nothing: it lives. `resumable`: they have a state to resume from.
  Due look(const std::vector<std::optional<ChildExit>>& ends, bool resumable, Time now);
  // The node is not started again from now on.
  void leave(std::size_t node) { nodes_[node] = {.restarts = most_ + 1, .at = {}}; }
  unsigned count(std::size_t node) const { return nodes_[node].restarts; }
  unsigned most() const { return most_; }

 private:
  struct Node {
    unsigned restarts = 0;
    std::optional<Time> at;  // it is due then
  };
  bool died(const ChildExit& end) const { return end.signal != 0 || end.code == 3; }
  void schedule(std::size_t node, Time now);

  std::vector<Node> nodes_;
  const unsigned most_;
  const Mode mode_;
  std::optional<Time> over_;  // those that were never lost have come to the end
};

// What wait_for_nodes() needs to start nodes again.
struct RestartPlan {
  NodeProcesses& nodes;
  Restarts& restarts;
  std::function<bool()> resumable;                         // is there a state to resume from?
  std::function<void(const std::string& text)> note = {};  // for the user, one line
  // Called between two looks at the processes; true: wait on, although all may have ended.
  std::function<Result<bool>()> each_turn = {};
};

// How long processes that were asked to end may take before they are killed. One whose disk is at
// work is not killed.
struct EndPatience {
  std::chrono::duration<double> within = std::chrono::seconds(10);
  // Names the file that the living node writes now, "checkpoint 3"; "": none.
  std::function<std::string(std::size_t node)> writes = {};
  std::function<void(const std::string& text)> note = {};  // for the user, one line
};

// Waits until all have ended. Ends them after a stop signal, when a node without which the others
// cannot continue has ended, when the remaining ones are stopped, or when the emulated WAN has
// ended; kills those that do not end. Passes SIGUSR1 on. True: it has asked them to end.
// `plan`: starts those again that die; null: does not.
bool wait_for_nodes(ChildProcesses&, Lab* lab, const RestartPlan* plan = nullptr,
                    const EndPatience& patience = {});

// Whether such an end of one node ends all: it could not start, or has a bug.
bool ends_all(const ChildExit&);

}  // namespace longhaul::run
