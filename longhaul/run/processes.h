#pragma once
// All nodes of a job as processes of this machine, over loopback or an emulated WAN: what
// `longhaul launch` and `longhaul perf` have in common.
#include <unistd.h>

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "longhaul/net/tcp.h"
#include "longhaul/run/child_processes.h"
#include "longhaul/run/lab.h"

namespace longhaul::run {

// Listening sockets for child processes on this machine, so that all ports are known before any
// child starts. Closes its own copies when destroyed.
class ListeningSockets {
 public:
  ListeningSockets() = default;
  ListeningSockets(const ListeningSockets&) = delete;
  ListeningSockets& operator=(const ListeningSockets&) = delete;
  ~ListeningSockets() {
    for (const net::ListeningSocket& listening_socket : sockets_)
      close(listening_socket.descriptor);
  }

  // One for each process, given the index of its site. `lab`: each in its site's network; null: on
  // the loopback.
  Status open(std::span<const std::uint32_t> sites, const Lab* lab) {
    for (const std::uint32_t site : sites) {
      LH_LET(listening_socket,
             lab ? lab->open_listening_socket(site) : net::open_listening_socket({"127.0.0.1", 0}));
      sockets_.push_back(listening_socket);
      addresses_ += fmt::format("{}{}:{}", addresses_.empty() ? "" : ",",
                                lab ? Lab::address(site) : "127.0.0.1", listening_socket.port);
    }
    return Ok{};
  }

  int descriptor(std::size_t i) const { return sockets_[i].descriptor; }
  const std::string& addresses() const { return addresses_; }  // of all, with commas

 private:
  std::vector<net::ListeningSocket> sockets_;
  std::string addresses_;
};

class ThrowawayKeys;  // run/sockets.h

struct NodeCommand {
  std::vector<std::string> program = {};    // the words that start what each process is
  std::string subcommand = {};              // that runs one node
  std::vector<std::string> arguments = {};  // for all: the job file, --set ...
  std::function<std::vector<std::string>(Rank)> own = {};  // for one node alone; may be empty
  bool insecure = false;  // without TLS; else with keys of this run alone
  // Carries out such a command in a copy of this process, which has loaded libtorch once for all
  // nodes (ChildSpec::instead). Empty: `program` is started for each.
  std::function<int(const std::vector<std::string>&)> run_in_copy = {};
};

// Starts the nodes by rank, and again when they have died: the listening sockets stay open for
// them, at the same addresses. Each gets --site, --addresses, --keys or --insecure, an inherited
// listening socket, and with `lab` its site's network namespace; null: all use this machine's
// loopback. The keys live as long as `children`.
class NodeProcesses {
 public:
  // All outlive this. `one_a_site`: a process for each site, not for each node.
  NodeProcesses(ChildProcesses& children, const Job& job, const NodeCommand& command,
                const Lab* lab, bool one_a_site = false);
  Status start_all();
  Status restart(Rank);

 private:
  ChildSpec spec(Rank) const;

  ChildProcesses& children_;
  const Job& job_;
  const NodeCommand& command_;
  const Lab* const lab_;
  std::vector<std::string> names_;    // of the nodes, by rank
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
