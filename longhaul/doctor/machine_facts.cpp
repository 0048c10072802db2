#include "longhaul/doctor/coordinate.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

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

bool kernel_has(const std::string& congestion) {  // or can load it
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool has = setsockopt(probe, IPPROTO_TCP, TCP_CONGESTION, congestion.data(),
                              socklen_t(congestion.size())) == 0;
  close(probe);
  return has;
}

// All addresses of this host are of the loopback; "": some are not, or it has none.
std::string loopback_of(const std::string& host) {
  const auto all = net::resolve(host);
  const auto is_here = [](const std::string& one) { return net::is_loopback({one, 0}); };
  return all && std::ranges::all_of(*all, is_here) ? all->front() : "";
}

}  // namespace

MachineFacts local_facts(const std::string& folder, const net::Address& own,
                         const net::Address& listens) {
  const bool bbr = kernel_has("bbr");  // may load it, and so comes before the names
  MachineFacts facts{disk_free(folder), memory_available(), congestion_names(), bbr};
  if (net::is_loopback(own)) return facts;
  if (const std::string at = loopback_of(own.host); !at.empty())
    facts.own_name = cut(own.host + " is " + at);
  facts.is_alone = !loopback_of(listens.host).empty();
  return facts;
}

}  // namespace longhaul::doctor
