#ifdef __SANITIZE_ADDRESS__
#endif
#include "longhaul/run/child_processes.h"

#include <fcntl.h>
#include <linux/prctl.h>
#include <poll.h>
#include <sanitizer/lsan_interface.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "longhaul/run/interrupt.h"

namespace longhaul::run {
namespace {

constexpr int kFirstInheritedSocket = 3;  // where LISTEN_FDS begin

// All descriptors from 3 on but these: exec would do it, by their FD_CLOEXEC.
void close_but(std::vector<int> kept) {
  std::sort(kept.begin(), kept.end());
  int from = STDERR_FILENO + 1;
  for (const int one : kept) {
    for (; from < one; ++from) close(from);
    from = std::max(from, one + 1);
  }
  closefrom(from);
}

// Does the work of exec in this process.
int run_instead(const ChildSpec& spec, const char* const* environment) {
  auto kept = spec.keep;
  if (spec.listening_socket >= 0) kept.push_back(kFirstInheritedSocket);
  close_but(std::move(kept));
  forget_signals();
  environ = const_cast<char**>(environment);
  if (!spec.command.empty()) (void)show_command_line(spec.command);
  const int code = spec.instead();
  std::fflush(nullptr);
#ifdef __SANITIZE_ADDRESS__
  __lsan_do_leak_check();  // exit() would, _exit() does not
#endif
  return code;
}

// Runs between fork() and exec(), so it calls only functions that are safe in a signal handler: the
// parent may have threads, unless `instead` is set. All allocations are done before.
[[noreturn]] void become(const ChildSpec& spec, const char* const* argv,
                         const char* const* environment, char* pid_digits, const int (&outputs)[2],
                         pid_t parent) {
  const int listening_socket = spec.listening_socket;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it died in between
  setpgid(0, 0);
  if (spec.network >= 0 && setns(spec.network, CLONE_NEWNET) != 0) _exit(126);
  for (const int kept : spec.keep) fcntl(kept, F_SETFD, 0);
  dup2(outputs[0], STDOUT_FILENO);
  dup2(outputs[1], STDERR_FILENO);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  if (listening_socket == kFirstInheritedSocket)
    fcntl(listening_socket, F_SETFD, 0);
  else if (listening_socket >= 0)
    dup2(listening_socket, kFirstInheritedSocket);
  for (auto [pid, digit] = std::pair(getpid(), pid_digits + 9); digit >= pid_digits; --digit) {
    *digit = char('0' + pid % 10);
    pid /= 10;
  }
  struct sigaction plain = {};
  plain.sa_handler = SIG_DFL;
  sigaction(SIGPIPE, &plain, nullptr);
  if (spec.instead) _exit(run_instead(spec, environment));
  for (const int number : {SIGINT, SIGTERM}) sigaction(number, &plain, nullptr);
  plain.sa_handler = SIG_IGN;  // until the command has a handler
  sigaction(SIGUSR1, &plain, nullptr);
  execve(argv[0], const_cast<char* const*>(argv), const_cast<char* const*>(environment));
  _exit(127);
}

// Fields of /proc/self/stat, counted from 1 as in proc(5).
enum StatField : std::size_t {
  kStartCode = 26,
  kEndCode = 27,
  kStartStack = 28,
  kStartData = 45,
  kEndData = 46,
  kStartBreak = 47,
  kEnvironmentStart = 50,
  kEnvironmentEnd = 51,
  kFields = 53
};

// False: not there, or shorter.
bool read_addresses(std::array<std::uint64_t, kFields>& fields) {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // the name may hold blanks and parentheses
  if (name_end == std::string::npos) return false;
  std::istringstream rest(text.substr(name_end + 1));
  std::string word;
  rest >> word;  // the third: the state, a letter
  for (std::size_t field = 4; field < kFields; ++field) {
    if (!(rest >> word)) return false;
    fields[field] = std::strtoull(word.c_str(), nullptr, 10);
  }
  return true;
}

}  // namespace

std::string to_string(const ChildExit& end) {
  if (end.signal != 0) return fmt::format("killed by signal {}", end.signal);
  return fmt::format("exit code {}", end.code);
}

double memory_mbytes(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/statm", pid));
  double size = 0, resident = 0, shared = 0;  // pages
  if (!(file >> size >> resident >> shared)) return 0;
  return (resident - shared) * double(sysconf(_SC_PAGESIZE)) / 1e6;
}

double processor_s(pid_t pid) {
  clockid_t clock = {};
  timespec used = {};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
  return double(used.tv_sec) + double(used.tv_nsec) / 1e9;
}

ChildProcesses::~ChildProcesses() {
  signal(SIGKILL);
  for (Child& child : children_) {
    if (!child.end) (void)waitpid(child.pid, nullptr, 0);
    for (const Pipe& pipe : child.pipes)
      if (pipe.descriptor >= 0) close(pipe.descriptor);
  }
}

Status ChildProcesses::start(const ChildSpec& spec) {
  LH_LET(child, spawn(spec));
  children_.push_back(std::move(child));
  return Ok{};
}

Status ChildProcesses::restart(std::size_t i, const ChildSpec& spec) {
  LH_CHECK(children_[i].end);
  LH_LET(child, spawn(spec));
  for (Pipe& pipe : children_[i].pipes)
    if (pipe.descriptor >= 0) close(pipe.descriptor);
  children_[i] = std::move(child);
  return Ok{};
}

Result<ChildProcesses::Child> ChildProcesses::spawn(const ChildSpec& spec) {
  std::string listen_pid = "LISTEN_PID=0000000000";  // leading zeros are read as decimal digits
  std::vector<const char*> argv, environment;
  for (const std::string& word : spec.command) argv.push_back(word.c_str());
  argv.push_back(nullptr);
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (std::strncmp(*entry, "LISTEN_", 7) != 0) environment.push_back(*entry);
  if (spec.listening_socket >= 0) {
    environment.push_back("LISTEN_FDS=1");
    environment.push_back(listen_pid.c_str());
  }
  environment.push_back(nullptr);
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0) return unavailable("no pipe: " + std::string(strerror(errno)));
  if (pipe2(err, O_CLOEXEC) != 0) {
    close(out[0]), close(out[1]);
    return unavailable("no pipe: " + std::string(strerror(errno)));
  }
  const int outputs[2] = {out[1], err[1]};
  if (spec.instead) std::fflush(nullptr);  // else both would write what is in the buffers
  const pid_t parent = getpid(), pid = fork();
  if (pid == 0)
    become(spec, argv.data(), environment.data(), listen_pid.data() + 11, outputs, parent);
  const std::string why = strerror(errno);
  close(out[1]), close(err[1]);
  for (const int end : {out[0], err[0]}) fcntl(end, F_SETFL, O_NONBLOCK);
  if (pid < 0) {
    close(out[0]), close(err[0]);
    return unavailable(fmt::format("{}: no process for it: {}", spec.name, why));
  }
  return Child{spec.name, pid, false, {{out[0], ""}, {err[0], ""}}, std::nullopt};
}

void ChildProcesses::flush(Child& child, Pipe& pipe) {
  line_(child.name, &pipe == &child.pipes[1], pipe.begun);
  pipe.begun.clear();
}

void ChildProcesses::read(Child& child, Pipe& pipe) {
  char buffer[4096];
  for (;;) {
    const ssize_t count = ::read(pipe.descriptor, buffer, sizeof buffer);
    if (count < 0) return;  // nothing now
    if (count == 0) break;
    for (const char c : std::string_view(buffer, std::size_t(count))) {
      if (c != '\n') pipe.begun += c;
      if (c == '\n' || pipe.begun.size() >= kMaxLine) flush(child, pipe);
    }
  }
  if (!pipe.begun.empty()) flush(child, pipe);
  close(std::exchange(pipe.descriptor, -1));
}

void ChildProcesses::reap(Child& child) {
  int status = 0;
  if (child.end || waitpid(child.pid, &status, WNOHANG | WUNTRACED | WCONTINUED) != child.pid)
    return;
  if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
    child.stopped = WIFSTOPPED(status);
    return;
  }
  for (Pipe& pipe : child.pipes)
    if (pipe.descriptor >= 0) read(child, pipe);
  child.end = WIFSIGNALED(status) ? ChildExit{0, WTERMSIG(status)} : ChildExit{WEXITSTATUS(status)};
}

void ChildProcesses::poll(std::chrono::milliseconds within) {
  std::vector<pollfd> waits;
  for (const Child& child : children_)
    for (const Pipe& pipe : child.pipes)
      if (pipe.descriptor >= 0) waits.push_back({pipe.descriptor, POLLIN, 0});
  (void)::poll(waits.data(), waits.size(), int(within.count()));
  for (Child& child : children_) {
    for (Pipe& pipe : child.pipes)
      if (pipe.descriptor >= 0) read(child, pipe);
    reap(child);
  }
}

bool ChildProcesses::all_ended() const {
  return std::all_of(children_.begin(), children_.end(),
                     [](const Child& child) { return child.end.has_value(); });
}

std::vector<ChildExit> ChildProcesses::ends() const {
  LH_CHECK(all_ended());
  std::vector<ChildExit> ends;
  for (const Child& child : children_) ends.push_back(*child.end);
  return ends;
}

bool ChildProcesses::rest_is_stopped() const {
  bool some = false, rest = true;
  for (const Child& child : children_) {
    some |= child.end.has_value();
    rest &= child.end || child.stopped;
  }
  return some && rest && !all_ended();
}

void ChildProcesses::signal(int number) {
  for (std::size_t i = 0; i < children_.size(); ++i) signal(i, number);
}

void ChildProcesses::signal(std::size_t i, int number) {
  if (const Child& child = children_.at(i); !child.end) pass_on(child.pid, number);
}

bool show_command_line(const std::vector<std::string>& words) {
  std::array<std::uint64_t, kFields> at{};
  if (!read_addresses(at)) return false;
  static std::vector<char> shown;  // the kernel reads it for as long as this process lives
  std::vector<char> text;
  for (const std::string& word : words)
    text.insert(text.end(), word.c_str(), word.c_str() + word.size() + 1);
  const auto begin = reinterpret_cast<std::uintptr_t>(text.data());
  // Everything but the words stays as it is: the call sets all or nothing.
  prctl_mm_map map = {};
  map.start_code = at[kStartCode];
  map.end_code = at[kEndCode];
  map.start_data = at[kStartData];
  map.end_data = at[kEndData];
  map.start_brk = at[kStartBreak];
  map.brk = reinterpret_cast<std::uintptr_t>(sbrk(0));
  map.start_stack = at[kStartStack];
  map.arg_start = begin;
  map.arg_end = begin + text.size();
  map.env_start = at[kEnvironmentStart];
  map.env_end = at[kEnvironmentEnd];
  map.exe_fd = std::uint32_t(-1);
  if (prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0) != 0) return false;
  shown.swap(text);  // a vector's elements stay where they are
  return true;
}

}  // namespace longhaul::run
