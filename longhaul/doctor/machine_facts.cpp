#include "longhaul/doctor/machine_facts.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "longhaul/doctor/socket.h"

namespace longhaul::doctor {
namespace {

std::uint64_t disk_free(const std::string& folder) {
  std::error_code code;
  std::filesystem::path at = std::filesystem::absolute(folder, code);
  while (!code && !std::filesystem::exists(at, code) && at.has_parent_path() &&
         at != at.parent_path()) {
    code.clear();
    at = at.parent_path();
  }
  const auto space = std::filesystem::space(at, code);
  return code ? 0 : std::uint64_t(space.available);
}

std::uint64_t memory_available() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kib = 0;
    if (words >> name >> kib && name == "MemAvailable:") return kib * 1024;
  }
  return 0;
}

std::string congestion_names() {
  std::ifstream file("/proc/sys/net/ipv4/tcp_available_congestion_control");
  std::string line;
  std::getline(file, line);
  return cut(line);
}

}  // namespace

MachineFacts local_facts(const std::string& folder) {
  const bool bbr = kernel_has("bbr");  // may load it, and so comes before the names
  return {disk_free(folder), memory_available(), congestion_names(), bbr};
}

}  // namespace longhaul::doctor
