#include "longhaul/run/status_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/run/atomic_file.h"
#include "longhaul/run/job/json.h"

namespace longhaul::run {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr auto kEvery = std::chrono::seconds(1);
constexpr std::size_t kMostNames = 8;

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

double unix_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

double WaitClock::waited_s(const NodeStatus& status) {
  const auto now = Clock::now();
  if (std::string what = fmt::format("{} {} {}", status.state, status.rounds, status.waits_for);
      what != what_) {
    what_ = std::move(what);
    since_ = now;
  }
  return status.waits_for.empty() ? 0 : std::chrono::duration<double>(now - since_).count();
}

std::string names_text(const std::vector<std::string>& names, std::size_t of) {
  if (names.empty()) return "";
  const std::size_t shown = std::min(names.size(), kMostNames);
  std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + std::ptrdiff_t(shown), ", "));
  if (shown < names.size()) text += " ...";
  return fmt::format("{} ({} of {})", text, names.size(), of);
}

bool StatusFile::due() const { return Clock::now() - written_ >= kEvery; }

void StatusFile::write(NodeStatus status) {
  status.host = host_name();
  status.process = getpid();
  status.written_s = unix_time();
  written_ = Clock::now();
  replace_file(path_,
               json_of<json>(status).dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
}

namespace {

Result<NodeStatus> status_at(const std::string& path) {
  LH_LET(text, read_text(path));
  try {
    json read = parse_json(text);
    for (const char* added : {"wan_bytes", "wan_messages", "computing_s"})
      if (read.is_object()) read.emplace(added, 0);  // earlier releases had none
    NodeStatus status;
    read_json(read, status);
    return status;
  } catch (const json::exception& error) {
    return invalid(path + ": not what longhaul writes there: " + error.what());
  }
}

}  // namespace

std::optional<NodeStatus> read_status(const std::string& folder) {
  auto status = status_at(folder + "/status.json");
  return status ? std::optional(*std::move(status)) : std::nullopt;
}

Result<std::vector<NodeStatus>> read_statuses(const std::string& run) {
  std::error_code error;
  if (!fs::is_directory(run, error)) return invalid(run + ": no folder of a run");
  std::vector<std::string> paths = {run + "/status.json"};
  for (const auto& entry : fs::directory_iterator(run, error))
    if (entry.is_directory(error)) paths.push_back((entry.path() / "status.json").string());
  std::vector<NodeStatus> statuses;
  for (const std::string& path : paths) {
    if (!fs::exists(path, error)) continue;
    LH_LET(status, status_at(path));
    statuses.push_back(std::move(status));
  }
  if (statuses.empty())
    return invalid(run +
                   ": holds no status.json; is it the folder that --out named, on this "
                   "machine, and has the run begun?");
  std::sort(statuses.begin(), statuses.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return statuses;
}

}  // namespace longhaul::run
