#include "longhaul/run/model_trial.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include <fmt/format.h>

#include "longhaul/lab/descriptor.h"
#include "longhaul/run/interrupt.h"

namespace longhaul::run {
namespace {

constexpr int kFound = 0, kRefused = 2;  // exit codes of a trial
constexpr double kBusy = 10;             // a busy machine may take so many times the limit
constexpr auto kLook = std::chrono::milliseconds(20);

// "MemAvailable:  1234 kB" of /proc/meminfo.
double free_mbytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("MemAvailable:")) return std::stod(line.substr(13)) * 1024 / 1e6;
  return 1e6;
}

// "KIND text", as report_trial() writes it.
Status read_report(const std::string& what, const std::string& said, const ChildExit& end) {
  if (end.signal == 0 && end.code == kFound) return Ok{};
  if (end.signal == 0 && end.code == kRefused && said.size() > 1)
    return Error{Error::Kind(said[0] - '0'), said.substr(1)};
  return invalid(
      fmt::format("{} ends the process that tries it ({}): it is damaged, or libtorch "
                  "has an error that it shows",
                  what, to_string(end)));
}

// `own`: memory in MB that the process has at its start.
Status watch(const std::string& what, TrialLimits limits, const ChildSpec& spec, double own,
             const std::stop_token& stop) {
  if (limits.mbytes == 0) limits.mbytes = free_mbytes() / 2;
  std::string said;
  ChildProcesses child([&](const std::string&, bool is_error, std::string_view line) {
    if (!is_error) said = line;
  });
  const auto begun = std::chrono::steady_clock::now();
  LH_TRY(child.start(spec));
  while (!child.all_ended()) {
    child.poll(kLook);  // the end of its output ends the wait
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
    if (stop.stop_requested() || interrupted()) return unavailable(what + ": interrupted");
    if (child.processor_s(0) > limits.seconds || taken.count() > kBusy * limits.seconds)
      return invalid(
          fmt::format("{} took more than {:g} s in a trial on a few samples: does its "
                      "code end? trial_s is the limit",
                      what, limits.seconds));
    if (child.memory_mbytes(0) > own + limits.mbytes)
      return invalid(
          fmt::format("{} took more than {:.0f} MB in a trial on a few samples; trial_mb "
                      "is the limit",
                      what, limits.mbytes));
  }
  return read_report(what, said, *child.end(0));
}

}  // namespace

void run_trial(const std::function<Status()>& body) {
  const rlimit none{0, 0};
  setrlimit(RLIMIT_FSIZE, &none);  // nor a core file, where that is a limit of its own
  setrlimit(RLIMIT_CORE, &none);
  const Status found = body();
  std::string line = found ? "" : char('0' + int(found.error().kind)) + found.error().what + "\n";
  std::replace(line.begin(), line.end() - (line.empty() ? 0 : 1), '\n', ' ');
  for (std::size_t at = 0; at < line.size();) {
    const ssize_t written = ::write(STDOUT_FILENO, line.data() + at, line.size() - at);
    if (written <= 0) break;
    at += std::size_t(written);
  }
  _exit(found ? kFound : kRefused);  // nothing of the process that it is a copy of ends with it
}

Status try_in_copy(const std::string& what, const TrialLimits& limits,
                   const std::function<Status()>& body) {
  ChildSpec spec{.name = "trial", .command = {"longhaul", "(tries " + what + ")"}};
  spec.instead = [&]() -> int { run_trial(body); };
  return watch(what, limits, spec, memory_mbytes(getpid()), {});
}

Status try_in_command(const std::string& what, const TrialLimits& limits,
                      std::vector<std::string> command, const std::string& file,
                      std::stop_token stop) {
  const lab::Descriptor memory(memfd_create("model", MFD_CLOEXEC));
  for (std::size_t at = 0; at < file.size();) {
    const ssize_t written = ::write(memory.get(), file.data() + at, file.size() - at);
    if (written <= 0) return unavailable(what + ": there is no memory to try it");
    at += std::size_t(written);
  }
  command.push_back(fmt::format("/proc/self/fd/{}", memory.get()));
  const ChildSpec spec{.name = "trial", .command = std::move(command), .keep = {memory.get()}};
  return watch(what, limits, spec, 0, stop);
}

std::optional<Status> GivenTrials::result(const Model& model) {
  const std::lock_guard lock(mutex_);
  if (model_ && !result_) return std::nullopt;
  if (model_ == model) {
    model_.reset();
    return std::exchange(result_, std::nullopt);
  }
  model_ = model;
  result_.reset();
  thread_ = std::jthread([this, model](std::stop_token stop) {
    const Status found = attempt_(*model, stop);
    {
      const std::lock_guard lock(mutex_);
      result_ = found;
    }
    if (!stop.stop_requested()) done_();
  });
  return std::nullopt;
}

}  // namespace longhaul::run
