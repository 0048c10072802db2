#pragma once
// The handshake between doctors: only sites of one job may talk to each other.
#include <string>
#include <vector>

#include "longhaul/doctor/channel.h"
#include "longhaul/secure/credentials.h"

namespace longhaul::doctor {

// What a doctor knows of its own site and the others. Constant while it runs; shared by threads.
struct LocalSite {
  std::uint32_t site = 0;               // index
  std::vector<std::string> names = {};  // of all sites, as the job has them
  std::vector<net::Address> addresses = {};
  std::uint64_t job_hash = 0;
  std::string release = {};  // of the program
  std::uint64_t token = 0;   // random: strangers cannot guess it
  // Null: everything goes in plain text. Shared by threads; nobody refreshes it.
  std::shared_ptr<secure::Credentials> credentials = {};
  Stop stop = {};

  Hello hello(Purpose, std::uint16_t udp_port = 0) const;
};

// Error: the reason to refuse this hello, for both sides. Another release is accepted and reported.
Status check(const Hello&, const LocalSite&);

struct PeerSession {
  Channel channel;
  Hello hello;  // the peer's
};
// Dials a site and introduces itself. Errors: nobody there, or no doctor of this job's site.
Result<PeerSession> connect_to(const LocalSite&, std::uint32_t site, Purpose, const Deadline&);
// Receives the hello of an incoming connection; refuses it with the reason if it does not fit.
Result<PeerSession> accept_peer(Channel, const LocalSite&, const Deadline&);

}  // namespace longhaul::doctor
