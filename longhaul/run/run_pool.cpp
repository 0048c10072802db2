#include "longhaul/run/run_pool.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "longhaul/run/interrupt.h"

namespace longhaul::run {
namespace {

using PoolClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kUsualEnd{2};  // a note names longer ones

// The state of all runs in one line, redrawn on a terminal; else a line for each run that ends.
class PoolProgress {
 public:
  PoolProgress(const PoolOptions& options, std::size_t runs)
      : style_(options.progress), before_(options.done_before), runs_(runs) {}
  ~PoolProgress() { clear(); }

  void begun(const std::string& label) {
    under_way_.push_back(label);
    ++begun_;
    if (style_ == Progress::Style::plain) print(text(label));
  }
  void ended(const std::string& label) {
    std::erase(under_way_, label);
    ++ended_;
  }
  void says(const std::string& line) {
    latest_ = line;
    draw();
  }
  void stops() {
    clear();
    print(fmt::format("longhaul: stops, and waits for {}; a second Ctrl-C ends all at once",
                      fmt::join(under_way_, " + ")));
  }
  void draw() {
    if (style_ != Progress::Style::live || under_way_.empty()) return;
    constexpr std::size_t kColumns = 110;
    std::string line = text(fmt::format("{}", fmt::join(under_way_, " + "))) +
                       (latest_.empty() ? "" : "  | " + latest_);
    fmt::print(stderr, "\r{}\033[K", line.substr(0, kColumns));
    std::fflush(stderr);
    on_screen_ = true;
  }

 private:
  std::string text(const std::string& label) const {
    std::string line = fmt::format("{} of {}, {}", before_ + begun_, before_ + runs_, label);
    if (ended_ == 0) return line;
    const double passed = std::chrono::duration<double>(PoolClock::now() - begin_).count();
    return line + fmt::format(", {} left",
                              duration_text(passed / double(ended_) * double(runs_ - ended_)));
  }
  void print(const std::string& line) { fmt::print(stderr, "{}\n", line); }
  void clear() {
    if (on_screen_) fmt::print(stderr, "\r\033[K");
  }

  const Progress::Style style_;
  const std::size_t before_, runs_;
  const PoolClock::time_point begin_ = PoolClock::now();
  std::vector<std::string> under_way_;
  std::string latest_;
  std::size_t begun_ = 0, ended_ = 0;
  bool on_screen_ = false;
};

std::vector<std::string> command_of(const PoolRun& run, unsigned threads) {
  std::vector<std::string> words = {
      "simulate", run.job, "--out", run.folder, "--threads", std::to_string(threads), "--json"};
  if (run.until_s) words.insert(words.end(), {"--until", fmt::format("{}", *run.until_s)});
  if (run.resume) words.push_back("--resume");
  if (run.force) words.push_back("--force");
  return words;
}

// Finds the first traceback of a child in Python: its indented lines, the line that names the
// exception, and those of its causes.
class FirstTraceback {
 public:
  // Appends the line to `trace` and returns true if it belongs to the traceback.
  bool take(std::string_view line, std::string& trace) {
    const bool indented = line.front() == ' ' || line.front() == '\t';
    if (at_ == At::before && line.starts_with("Traceback (most recent call last)"))
      at_ = At::frames;
    else if (at_ == At::frames && !indented && !line.starts_with("Traceback"))
      at_ = At::exception;
    else if (at_ == At::exception && is_chain(line))
      at_ = At::frames;
    else if (at_ == At::exception && !indented)
      at_ = At::after;
    if (at_ == At::before || at_ == At::after) return false;
    if (trace.size() < PoolEnd::kMaxTrace)
      trace += std::string(line.substr(0, PoolEnd::kMaxTrace - trace.size())) + "\n";
    return true;
  }

 private:
  static bool is_chain(std::string_view line) {
    return line.starts_with("The above exception was the direct cause") ||
           line.starts_with("During handling of the above exception");
  }

  enum class At : std::uint8_t { before, frames, exception, after } at_ = At::before;
};

class Pool {
 public:
  Pool(const std::vector<PoolRun>& runs, const PoolOptions& options)
      : runs_(runs), options_(options), ends_(runs.size()), progress_(options, runs.size()) {}

  std::vector<PoolEnd> run() {
    const InterruptGuard guard;
    std::optional<PoolClock::time_point> ending;  // since
    bool told = false;
    for (;;) {
      while (!ending && next_ < runs_.size() && under_way() < std::max(1u, options_.at_once))
        start(next_++);
      if (under_way() == 0) break;
      children_.poll(std::chrono::milliseconds(100));
      note_ends();
      progress_.draw();
      if (!ending && (interrupted() || (options_.stop && options_.stop()))) {
        ending = PoolClock::now();
        children_.signal(SIGINT);
      }
      if (ending && !told && PoolClock::now() > *ending + kUsualEnd) {
        told = true;
        progress_.stops();
      }
      if (checkpoints_.take()) children_.signal(SIGUSR1);
    }
    return std::move(ends_);
  }

 private:
  std::size_t under_way() const { return child_of_.size() - ended_; }

  unsigned threads() const {
    if (options_.threads > 0) return options_.threads;
    const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
    return std::max(1u, cores / std::max(1u, options_.at_once));
  }

  void start(std::size_t i) {
    const auto words = command_of(runs_[i], threads());
    ChildSpec spec = {.name = std::to_string(i), .command = {"longhaul"}};
    if (options_.simulate)
      spec.instead = [this, &words] { return options_.simulate(words); };
    else if (auto program = own_program())
      spec.command = *std::move(program);
    spec.command.insert(spec.command.end(), words.begin(), words.end());
    if (const Status started = children_.start(spec); !started) {
      ends_[i].message = started.error().what;
      ends_[i].exit.code = 4;
      return;
    }
    ends_[i].started = true;
    child_of_.push_back(i);
    progress_.begun(runs_[i].label);
  }

  void on_line(const std::string& name, bool is_error, std::string_view line) {
    if (!is_error || line.empty()) return;
    constexpr std::string_view kOurs = "longhaul: ";
    const std::size_t run = std::stoul(name);
    if (line.starts_with(kOurs))
      ends_[run].message = line.substr(kOurs.size());
    else if (!traces_[run].take(line, ends_[run].trace))
      progress_.says(std::string(line));
  }

  void note_ends() {
    for (std::size_t child = 0; child < child_of_.size(); ++child) {
      PoolEnd& end = ends_[child_of_[child]];
      if (!children_.end(child) || seen_[child]) continue;
      seen_[child] = true;
      ++ended_;
      end.exit = *children_.end(child);
      if (end.exit.done()) end.message.clear();
      // Python ends with code 1 by an exception before the run, and by SIGINT after Ctrl-C there.
      if (end.exit.code == 0 || end.exit.signal != 0) end.trace.clear();
      progress_.ended(runs_[child_of_[child]].label);
    }
  }

  const std::vector<PoolRun>& runs_;
  const PoolOptions& options_;
  std::vector<PoolEnd> ends_;
  CheckpointRequests checkpoints_;
  PoolProgress progress_;
  std::map<std::size_t, FirstTraceback> traces_;  // by run
  ChildProcesses children_{[this](const std::string& name, bool is_error, std::string_view line) {
    on_line(name, is_error, line);
  }};
  std::vector<std::size_t> child_of_;  // by number of the child: of which run it is
  std::map<std::size_t, bool> seen_;
  std::size_t next_ = 0, ended_ = 0;
};

}  // namespace

std::vector<PoolEnd> run_all(const std::vector<PoolRun>& runs, const PoolOptions& options) {
  return Pool(runs, options).run();
}

namespace {

std::vector<std::string>& said_program() {
  static std::vector<std::string> words;
  return words;
}

}  // namespace

void set_own_program(std::vector<std::string> words) { said_program() = std::move(words); }

Result<std::vector<std::string>> own_program() {
  if (!said_program().empty()) return said_program();
  std::error_code code;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", code);
  if (code) return unavailable("/proc/self/exe: " + code.message());
  return std::vector{program.string()};
}

}  // namespace longhaul::run
