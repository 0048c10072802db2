#include "longhaul/run/status_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "longhaul/run/atomic_file.h"

namespace longhaul::run {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr auto kEvery = std::chrono::seconds(1);

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

double unix_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

json to_json(const NodeStatus& status) {
  json silent = json::array();
  for (const auto& one : status.silent)
    silent.push_back({{"peer", one.peer}, {"silent_s", one.silent_s}});
  return {{"site", status.site},
          {"rank", status.rank},
          {"state", status.state},
          {"waits_for", status.waits_for},
          {"waited_s", status.waited_s},
          {"rounds", status.rounds},
          {"max_rounds", status.max_rounds},
          {"time_s", status.time_s},
          {"members", status.members},
          {"live", status.live},
          {"silent", silent},
          {"host", status.host},
          {"process", status.process},
          {"written_s", status.written_s}};
}

Result<NodeStatus> parse_status(const std::string& path, const json& of) {
  try {
    NodeStatus status{.site = of.at("site"),
                      .rank = of.at("rank"),
                      .state = of.at("state"),
                      .waits_for = of.at("waits_for"),
                      .waited_s = of.at("waited_s"),
                      .rounds = of.at("rounds"),
                      .max_rounds = of.at("max_rounds"),
                      .time_s = of.at("time_s"),
                      .members = of.at("members"),
                      .live = of.at("live"),
                      .silent = {},
                      .host = of.at("host"),
                      .process = of.at("process"),
                      .written_s = of.at("written_s")};
    for (const json& one : of.at("silent"))
      status.silent.push_back({one.at("peer"), one.at("silent_s")});
    return status;
  } catch (const json::exception& error) {
    return invalid(path + ": not what longhaul writes there: " + error.what());
  }
}

bool StatusFile::due() const { return Clock::now() - written_ >= kEvery; }

void StatusFile::write(NodeStatus status) {
  const auto now = Clock::now();
  if (std::string what = status.state + " " + status.waits_for; what != what_) {
    what_ = std::move(what);
    since_ = now;
  }
  status.waited_s = std::chrono::duration<double>(now - since_).count();
  status.host = host_name();
  status.process = getpid();
  status.written_s = unix_time();
  written_ = now;
  replace_file(path_, to_json(status).dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
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
    const auto bytes = read_file(path);
    if (!bytes) return bytes.error();
    const auto text = std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    auto status = parse_status(path, json::parse(text, nullptr, /*allow_exceptions=*/false));
    if (!status) return status.error();
    statuses.push_back(*std::move(status));
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
