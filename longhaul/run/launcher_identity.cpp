#include "longhaul/run/launcher_identity.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

namespace longhaul::run {
namespace {

struct Launcher {
  const char *name, *rank, *size;
};
constexpr Launcher kLaunchers[] = {{"torchrun", "RANK", "WORLD_SIZE"},
                                   {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                   {"PMI", "PMI_RANK", "PMI_SIZE"},
                                   {"Slurm", "SLURM_PROCID", "SLURM_NTASKS"}};
constexpr std::uint16_t kBasePort = 29600;

Result<std::uint32_t> number(const Environment& environment, const char* name) {
  const std::string text = environment(name).value_or("");
  std::uint32_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (text.empty() || error != std::errc() || end != last)
    return invalid(
        fmt::format("{}=\"{}\" in the environment: expected a whole number; say --site "
                    "NAME instead",
                    name, text));
  return value;
}

}  // namespace

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* const value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

Result<std::optional<LauncherIdentity>> launcher_identity(const Environment& environment) {
  for (const Launcher& launcher : kLaunchers) {
    if (!environment(launcher.rank)) continue;
    const auto rank = number(environment, launcher.rank), size = number(environment, launcher.size);
    if (!rank) return rank.error();
    if (!size) return size.error();
    if (*rank >= *size)
      return invalid(fmt::format("{}={} and {}={} in the environment: ranks go from 0 to {}",
                                 launcher.rank, *rank, launcher.size, *size, *size - 1));
    return std::optional(LauncherIdentity{launcher.name, *rank, *size});
  }
  return std::optional<LauncherIdentity>();
}

Result<std::vector<std::string>> local_addresses(const Environment& environment, std::size_t nodes,
                                                 std::optional<std::uint16_t> base) {
  std::uint32_t first = base.value_or(kBasePort);
  if (!base && environment("MASTER_PORT")) {
    const auto port = number(environment, "MASTER_PORT");
    if (!port) return port.error();
    first = *port + 1;
  }
  if (first == 0 || first + nodes > 65536)
    return invalid(
        fmt::format("{} nodes do not fit above port {}; choose --base-port", nodes, first));
  std::vector<std::string> addresses;
  for (std::size_t i = 0; i < nodes; ++i)
    addresses.push_back(fmt::format("127.0.0.1:{}", first + i));
  return addresses;
}

int inherited_socket(const Environment& environment) {
  const auto pid = number(environment, "LISTEN_PID"), count = number(environment, "LISTEN_FDS");
  return pid && count && *count == 1 && pid_t(*pid) == getpid() ? 3 : -1;
}

}  // namespace longhaul::run
