#include "longhaul/run/sockets.h"

#include <algorithm>
#include <random>

#include "longhaul/flow/relays.h"
#include "longhaul/net/frame.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/site_index.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/pacing.h"
#include "longhaul/sync/server/setup.h"

namespace longhaul::run {
namespace {

std::uint64_t random_number() {
  std::random_device device;
  return std::uint64_t(device()) << 32 | device();
}

}  // namespace

Result<std::vector<net::Address>> parse_addresses(const Job& job,
                                                  const std::vector<std::string>& texts) {
  const Members members = job.members();
  if (texts.size() != members.size())
    return invalid(fmt::format("{} addresses given, but {} has {} nodes", texts.size(), job.file,
                               members.size()));
  std::vector<net::Address> parsed;
  for (Rank rank = 0; rank < members.size(); ++rank) {
    const std::string& text = texts[rank];
    const std::string whose = "address of " + node_name(members[rank]) + ": ";
    auto address = net::parse_address(text);
    if (!address) return invalid(whose + address.error().what);
    parsed.push_back(*std::move(address));
  }
  return parsed;
}

Status fits_frames(const Job& job, bool faults_are_made) {
  if (!job.faults.empty() && !faults_are_made)
    return invalid(job.file +
                   ": [[fault]]: in the simulator and the emulated WAN alone; remove it, or use "
                   "simulate, or launch --lab as root");
  if (entry_with(*job.sync.entry, job.sync.settings).traits.network_multicast)
    return invalid(
        job.file +
        ": [sync] multicast = \"l3\" leaves copies to the network, which the simulator alone does: "
        "use \"l7\" over sockets");
  constexpr auto kMaxChunk = net::FrameLimits{}.body_bytes / 1024;
  if (job.transfer_common.chunk_kib > kMaxChunk)
    return invalid(fmt::format("{}: [transfer] chunk_kib = {}: over sockets at most {}", job.file,
                               job.transfer_common.chunk_kib, kMaxChunk));
  return Ok{};
}

Result<NodeSockets> node_sockets(const Job& job, Rank self,
                                 const std::vector<std::string>& addresses, int listening,
                                 const Security& security) {
  LH_LET(parsed, parse_addresses(job, addresses));
  LH_LET(bind, bind_of(job, self));
  LH_LET(credentials, open_credentials(job, job.members()[self].site, security));
  return NodeSockets{std::move(parsed), std::move(bind), listening, std::move(credentials)};
}

// Through the first node of a site.
std::map<Rank, std::vector<Rank>> relays_of(const Job& job, Rank self) {
  std::vector<bool> dials_out;
  for (const SiteTable& site : job.sites) dials_out.push_back(site.dial_out);
  const Members members = job.members();
  const SiteIndex index(job.sites);
  std::vector<Rank> first(job.sites.size());
  std::vector<std::uint32_t> site_of;
  for (Rank rank = 0; rank < members.size(); ++rank) {
    site_of.push_back(index.at(members[rank].site));
    if (members[rank].rank_in_site == 0) first[site_of.back()] = rank;
  }
  std::map<Rank, std::vector<Rank>> relays;
  for (Rank rank = 0; rank < members.size(); ++rank) {
    const std::uint32_t here = site_of[self], there = site_of[rank];
    if (here == there || !dials_out[here] || !dials_out[there]) continue;
    for (const std::uint32_t site : flow::relays_of(job.network, dials_out, here, there))
      if (!job.leaves_out(job.sites[site].name)) relays[rank].push_back(first[site]);
  }
  return relays;
}

net::PeersConfig peers_config(const Job& job, Rank self, NodeSockets sockets, std::uint64_t hash) {
  net::PeersConfig config;
  config.job_hash = hash;
  config.process = random_number();
  config.addresses = std::move(sockets.addresses);
  config.bind = std::move(sockets.bind);
  config.listening = sockets.listening;
  config.credentials = std::move(sockets.credentials);
  const SiteIndex sites(job.sites);
  const Members members = job.members();
  for (Rank rank = 0; rank < members.size(); ++rank) {
    config.dials_out.push_back(job.sites[sites.at(members[rank].site)].dial_out);
    if (job.leaves_out(members[rank].site)) config.left_out.insert(rank);
  }
  config.relays = relays_of(job, self);
  for (auto& [name, value] : agreed_keys(job))
    config.job_keys.push_back({std::move(name), std::move(value)});
  config.streams = job.net.streams;
  if (job.net.congestion != "system") config.congestion = job.net.congestion;
  for (const auto& [way, most] : planned_pacing(job))
    if (way.first == self) config.pacing[way.second] = most;
  config.dscp = job.net.dscp;
  config.datagrams = job.net.datagrams;
  config.connect_timeout = from_seconds(job.net.meet_s);
  config.heartbeat = from_seconds(std::min(1.0, job.net.silence_s / 4));
  config.silence_timeout = from_seconds(job.net.silence_s);
  const SyncTraits traits = entry_with(*job.sync.entry, job.sync.settings).traits;
  config.lets_return = traits.lets_return;
  if (traits.served && traits.server_is_needed && job.server_table.standby_every == 0) {
    Place place;
    place.members = std::make_shared<const Members>(members);
    config.servers.insert(sync::server::server_of(job.server(), place));
  }
  return config;
}

}  // namespace longhaul::run
