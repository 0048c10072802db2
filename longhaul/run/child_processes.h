#pragma once
// Starts child processes, reads their output and ends them. None outlives this process, even after
// kill -9: the kernel kills each when the thread that started it dies (PR_SET_PDEATHSIG). Used by
// one thread, which must live as long as the children.
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/base/result.h"

namespace longhaul::run {

struct ChildSpec {
  std::string name;                  // for the lines it prints
  std::vector<std::string> command;  // [0]: the program's path
  int listening_socket =
      -1;            // a listening socket to inherit, by systemd's rules: LISTEN_FDS, LISTEN_PID
  int network = -1;  // the network namespace it lives in; -1: this one's
  std::vector<int> keep = {};  // descriptors that it inherits, under the same numbers
  // Runs in a copy of this process in place of the command, and returns the exit code: what is
  // loaded here is loaded there. The copy shows `command`, and inherits what a command would.
  // Threads of this process but the calling one are not copied: none may hold anything.
  std::function<int()> instead = {};
};

struct ChildExit {
  int code = 0;    // exit code, if it exited by itself
  int signal = 0;  // that killed it; 0: none
  bool done() const { return signal == 0 && code <= 1; }
};
std::string to_string(const ChildExit&);

// Memory in MB that a process has: what files back and what it shares is not counted. 0: none such.
double memory_mbytes(pid_t);
// Processor time that it has used, in seconds. 0: none such.
double processor_s(pid_t);

class ChildProcesses {
 public:
  static constexpr std::size_t kMaxLine = 64 * 1024;  // longer lines are split
  // `line`: each line that a child writes, to its standard output or error.
  using Line = std::function<void(const std::string& name, bool is_error, std::string_view)>;
  explicit ChildProcesses(Line line) : line_(std::move(line)) {}
  ~ChildProcesses();  // kills the remaining ones
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  // Each child has its own process group: Ctrl-C reaches it through signal() only.
  Status start(const ChildSpec&);
  // The same in the place of child `i`, which has ended.
  Status restart(std::size_t i, const ChildSpec&);
  // Passes on their output and notices which have ended; waits at most `within`.
  void poll(std::chrono::milliseconds within);
  std::size_t size() const { return children_.size(); }
  const std::string& name(std::size_t i) const { return children_[i].name; }
  const std::optional<ChildExit>& end(std::size_t i) const { return children_[i].end; }
  bool all_ended() const;
  std::vector<ChildExit> ends() const;  // when all_ended()
  pid_t process(std::size_t i) const { return children_[i].pid; }
  // As the functions of these names, of a child.
  double memory_mbytes(std::size_t i) const { return run::memory_mbytes(children_[i].pid); }
  double processor_s(std::size_t i) const { return run::processor_s(children_[i].pid); }
  // Some have ended and all others are stopped (SIGSTOP), so nothing more will happen.
  bool rest_is_stopped() const;
  void signal(int number);                 // to all that live
  void signal(std::size_t i, int number);  // to this one, if it lives
  // Something that the children need; freed after the last has ended.
  void keep(std::shared_ptr<const void> needed) { kept_.push_back(std::move(needed)); }

 private:
  struct Pipe {
    int descriptor = -1;  // -1: at its end
    std::string begun;    // a line that is not whole yet
  };
  struct Child {
    std::string name;
    pid_t pid = 0;
    bool stopped = false;
    Pipe pipes[2];  // output, error
    std::optional<ChildExit> end;
  };
  Result<Child> spawn(const ChildSpec&);
  void read(Child&, Pipe&);
  void flush(Child&, Pipe&);
  void reap(Child&);

  Line line_;
  std::vector<std::shared_ptr<const void>> kept_;
  std::vector<Child> children_;
};

// Shows these words from now on: a copy of a process (ChildSpec::instead) would show its parent's.
// False, and nothing changes: the kernel does not let it (no CONFIG_CHECKPOINT_RESTORE). One
// thread.
bool show_command_line(const std::vector<std::string>& words);

}  // namespace longhaul::run
