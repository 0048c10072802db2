#pragma once
// All nodes of a job as local processes, over loopback or an emulated WAN: the common part of
// `longhaul launch` and `longhaul perf`.
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

// Listening sockets for local child processes, so that all ports are known before any child starts.
// Closes its own copies when destroyed.
class ListeningSockets {
 public:
  ListeningSockets() = default;
  ListeningSockets(const ListeningSockets&) = delete;
  ListeningSockets& operator=(const ListeningSockets&) = delete;
  ~ListeningSockets() {
    for (const net::ListeningSocket& listening_socket : sockets_)
      close(listening_socket.descriptor);
  }

  // Opens a socket for each process, given the index of its site. `lab`: each in its site's
  // network; null: on loopback.
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
  const std::string& addresses() const { return addresses_; }  // comma-separated

 private:
  std::vector<net::ListeningSocket> sockets_;
  std::string addresses_;
};

class ThrowawayKeys;  // run/sockets.h

struct NodeCommand {
  std::vector<std::string> program = {};                   // command that starts each process
  std::string subcommand = {};                             // runs one node
  std::vector<std::string> arguments = {};                 // for all nodes: the job file, --set ...
  std::function<std::vector<std::string>(Rank)> own = {};  // for one node; may be empty
  bool insecure = false;  // without TLS; else with keys of this run only
  // Runs such a command in a copy of this process, which has loaded libtorch once for all nodes
  // (ChildSpec::instead). Empty: `program` is started for each node.
  std::function<int(const std::vector<std::string>&)> run_in_copy = {};
};

// The processes of the nodes, by rank. Dead nodes can restart: the listening sockets stay open for
// them, at the same addresses. Each node gets --site, --addresses, --keys or --insecure, an
// inherited listening socket, and with `lab` its site's network namespace; null: all use loopback.
// The keys live as long as `children`.
class NodeProcesses {
 public:
  // All references must outlive this object. `one_a_site`: a process per site, not per node.
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
  std::vector<std::string> names_;    // node names, by rank
  std::vector<std::uint32_t> sites_;  // by rank
  ListeningSockets sockets_;
  std::shared_ptr<ThrowawayKeys> keys_;  // null: insecure
};

// The rule when a node restarts after it was killed or lost its peers, and after which pause. The
// caller provides the time; one thread.
class Restarts {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Mode : std::uint8_t {
    alone,    // a returned node rejoins the running ones
    together  // running nodes accept no returned node; when all have ended, all resume
  };
  static constexpr std::chrono::seconds kFirstPause{1}, kGrace{10};
  // `most`: maximum restarts per node.
  Restarts(std::size_t nodes, unsigned most, Mode mode) : nodes_(nodes), most_(most), mode_(mode) {}

  struct Due {
    std::vector<std::size_t> nodes;  // nodes to start now
    bool waits = false;              // some nodes start later
    bool give_up = false;            // the other nodes have finished, so restarted ones must end
  };
  // Returns the nodes that are due. `ends`: exit of each node; nothing: it lives. `resumable`: the
  // nodes have a state to resume from.
  Due look(const std::vector<std::optional<ChildExit>>& ends, bool resumable, Time now);
  // Excludes the node from restarts.
  void leave(std::size_t node) { nodes_[node] = {.restarts = most_ + 1, .at = {}}; }
  unsigned count(std::size_t node) const { return nodes_[node].restarts; }
  unsigned most() const { return most_; }

 private:
  struct Node {
    unsigned restarts = 0;
    std::optional<Time> at;  // time of its next start
  };
  bool died(const ChildExit& end) const { return end.signal != 0 || end.code == 3; }
  void schedule(std::size_t node, Time now);

  std::vector<Node> nodes_;
  const unsigned most_;
  const Mode mode_;
  std::optional<Time> over_;  // time when the nodes that were never lost had finished
};

// The parts with which wait_for_nodes() restarts nodes.
struct RestartPlan {
  NodeProcesses& nodes;
  Restarts& restarts;
  std::function<bool()> resumable;                         // true: a state to resume from exists
  std::function<void(const std::string& text)> note = {};  // for the user, one line
  // Called between two checks of the processes. Returns true to wait even if all may have ended.
  std::function<Result<bool>()> each_turn = {};
};

// The time that processes have to end before they are killed. A process that is writing to disk is
// not killed.
struct EndPatience {
  std::chrono::duration<double> within = std::chrono::seconds(10);
  // Returns the name of the file that the living node writes now, "checkpoint 3"; "": none.
  std::function<std::string(std::size_t node)> writes = {};
  std::function<void(const std::string& text)> note = {};  // for the user, one line
};

// Waits until all have ended. Ends them after a stop signal, after the end of a node that the
// others need, when the remaining ones are stopped, or after the end of the emulated WAN. Kills
// those that do not end. Passes SIGUSR1 on. Returns true if it has asked them to end. `plan`:
// restarts dead nodes; null: does not.
bool wait_for_nodes(ChildProcesses&, Lab* lab, const RestartPlan* plan = nullptr,
                    const EndPatience& patience = {});

// Returns true if this exit of one node ends all nodes: it could not start, or has a bug.
bool ends_all(const ChildExit&);

}  // namespace longhaul::run
