#pragma once
// The socket settings of a job, for `longhaul site` and `longhaul perf`.
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "longhaul/net/peers.h"
#include "longhaul/run/job/job.h"
#include "longhaul/secure/credentials.h"

namespace longhaul::run {

struct Security {
  std::string keys = {};  // folder (secure/key_folder.h); "": [net] keys of the job
  // Plain text: any host that reaches the ports can read and change the model, and take part.
  bool insecure = false;
};

// Returns null if insecure. The Error says that keys are missing or unusable, and the remedy.
inline Result<std::shared_ptr<secure::Credentials>> open_credentials(const Job& job,
                                                                     const std::string& site,
                                                                     const Security& security) {
  if (security.insecure) return std::shared_ptr<secure::Credentials>();
  const std::string folder = security.keys.empty() ? job.net.keys : security.keys;
  std::vector<std::string> sites;
  for (const SiteTable& one : job.sites) sites.push_back(one.name);
  auto opened = secure::Credentials::open(secure::KeyFolder(folder), site, std::move(sites));
  if (opened) return std::shared_ptr<secure::Credentials>(*std::move(opened));
  return invalid(opened.error().what +
                 " (docs/security.md; within a network that only you reach, --insecure does "
                 "without keys)");
}

// An authority and keys for all sites of a job, in a temporary folder that the destructor removes.
// The authority's private key is never written.
class ThrowawayKeys {
  static constexpr std::int64_t kHour = 3600, kYear = 365 * 24 * kHour;

 public:
  static Result<std::shared_ptr<ThrowawayKeys>> make(const Job& job) {
    std::error_code code;
    const auto base = std::filesystem::temp_directory_path(code);
    std::string name = (base / "longhaul-keys-XXXXXX").string();
    if (code || mkdtemp(name.data()) == nullptr)
      return Error{Error::Kind::io, fmt::format("{}: no folder for the keys of this run: {}", name,
                                                code ? code.message() : std::strerror(errno))};
    std::shared_ptr<ThrowawayKeys> keys(new ThrowawayKeys(name));
    const std::int64_t now = std::time(nullptr);
    const secure::KeyFolder folder(name);
    LH_LET(authority, secure::make_authority({now - kHour, now + kYear}));
    LH_TRY(folder.write_authority(authority.certificate));
    for (const SiteTable& site : job.sites) {
      LH_LET(pair, secure::issue(authority, site.name, {now - kHour, now + kYear}));
      LH_TRY(folder.write_site(site.name, pair));
    }
    return keys;
  }

  ~ThrowawayKeys() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  ThrowawayKeys(const ThrowawayKeys&) = delete;
  ThrowawayKeys& operator=(const ThrowawayKeys&) = delete;
  const std::string& folder() const { return folder_; }

 private:
  explicit ThrowawayKeys(std::string folder) : folder_(std::move(folder)) {}
  const std::string folder_;
};

// Parses "host:port" of all nodes, by rank. Returns an Error unless there is a valid one per node.
Result<std::vector<net::Address>> parse_addresses(const Job&, const std::vector<std::string>&);
// Returns an Error if the job's chunks exceed the largest frame, or if it has faults or multicasts
// by the network, which only the simulator has.
Status fits_frames(const Job&, bool faults_are_made = false);
// The socket settings of a node.
struct NodeSockets {
  std::vector<net::Address> addresses;                    // by rank
  std::optional<net::Address> bind = {};                  // see PeersConfig
  int listening = -1;                                     // an inherited socket; -1: none
  std::shared_ptr<secure::Credentials> credentials = {};  // null: insecure
};
// Reads the settings from the given texts and keys; errors name them.
Result<NodeSockets> node_sockets(const Job&, Rank self, const std::vector<std::string>& addresses,
                                 int listening, const Security&);
// `hash`: the value on which all nodes must agree; refusals name the job's first key that differs.
net::PeersConfig peers_config(const Job&, Rank self, NodeSockets, std::uint64_t hash);
// Returns, by peer that this node reaches through a third, the nodes that it tries, best first.
std::map<Rank, std::vector<Rank>> relays_of(const Job&, Rank self);

}  // namespace longhaul::run
