#include "longhaul/run/nodes.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "longhaul/run/job/site_index.h"

namespace longhaul::run {
std::string node_name(const Member& member) {
  if (member.rank_in_site == 0) return member.site;
  return fmt::format("{}/{}", member.site, member.rank_in_site);
}

Result<Rank> find_node(const Job& job, const std::string& name) {
  const std::size_t slash = name.find('/');
  const std::string site = name.substr(0, slash);
  std::uint32_t node = 0;
  if (slash != std::string::npos) {
    const char* const end = name.data() + name.size();
    const auto [last, bad] = std::from_chars(name.data() + slash + 1, end, node);
    if (bad != std::errc() || last != end)
      return invalid(fmt::format("--site {}: expected NAME or NAME/K, K a number from 0", name));
  }
  const Members members = job.members();
  std::uint32_t nodes = 0;
  std::vector<std::string_view> known;
  for (Rank rank = 0; rank < members.size(); ++rank) {
    known.push_back(members[rank].site);
    if (members[rank].site != site) continue;
    if (members[rank].rank_in_site == node) return rank;
    ++nodes;
  }
  if (nodes > 0)
    return invalid(fmt::format("--site {}: {} has the nodes 0 to {}", name, site, nodes - 1));
  return invalid(fmt::format("--site {}: no such site{}", name, suggestion(site, known)));
}

std::string node_folder(const std::string& run, const Member& member) {
  if (member.rank_in_site == 0) return fmt::format("{}/{}", run, member.site);
  return fmt::format("{}/{}-{}", run, member.site, member.rank_in_site);
}

namespace {

// "host:port" of a site, for its node of that number.
Result<net::Address> of_node(const std::string& where, const std::string& text,
                             std::uint32_t node) {
  auto address = net::parse_address(text);
  if (!address) return invalid(where + ": " + address.error().what);
  const std::uint32_t port = address->port + node;
  if (port > 65535)
    return invalid(fmt::format("{}: node {} would need port {}", where, node, port));
  address->port = std::uint16_t(port);
  return address;
}

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

Result<std::optional<net::Address>> bind_of(const Job& job, Rank rank) {
  const Member member = job.members().at(rank);
  const SiteTable& site = job.sites[SiteIndex(job.sites).at(member.site)];
  if (site.bind.empty()) return std::optional<net::Address>{};
  LH_LET(address, of_node(fmt::format("{}: [site.{}] bind", job.file, site.name), site.bind,
                          member.rank_in_site));
  return std::optional(std::move(address));
}

Result<std::vector<std::string>> addresses_of(const Job& job) {
  std::vector<std::string> addresses;
  const SiteIndex sites(job.sites);
  for (const Member& member : job.members()) {
    const SiteTable& site = job.sites[sites.at(member.site)];
    const std::string where = fmt::format("{}: [site.{}] address", job.file, site.name);
    if (site.address.empty() && site.dial_out) {
      addresses.emplace_back("0.0.0.0:0");  // the site listens, but no site dials it
      continue;
    }
    if (site.address.empty())
      return invalid(where +
                     ": missing; give every site one, such as address = \"10.0.0.1:7000\", or say "
                     "--addresses");
    LH_LET(address, of_node(where, site.address, member.rank_in_site));
    addresses.push_back(net::to_string(address));
  }
  return addresses;
}

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* const value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

Result<std::optional<LauncherIdentity>> launcher_identity(const Environment& environment) {
  for (const Launcher& launcher : kLaunchers) {
    if (!environment(launcher.rank)) continue;
    LH_LET(rank, number(environment, launcher.rank));
    LH_LET(size, number(environment, launcher.size));
    if (rank >= size)
      return invalid(fmt::format("{}={} and {}={} in the environment: ranks go from 0 to {}",
                                 launcher.rank, rank, launcher.size, size, size - 1));
    return std::optional(LauncherIdentity{launcher.name, rank, size});
  }
  return std::optional<LauncherIdentity>();
}

Result<std::vector<std::string>> local_addresses(const Environment& environment, std::size_t nodes,
                                                 std::optional<std::uint16_t> base) {
  std::uint32_t first = base.value_or(kBasePort);
  if (!base && environment("MASTER_PORT")) {
    LH_LET(port, number(environment, "MASTER_PORT"));
    first = port + 1;
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
