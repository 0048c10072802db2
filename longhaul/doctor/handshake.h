#pragma once
// The handshake between doctors, which accepts only sites of the same job.
#include <string>
#include <vector>

#include "longhaul/doctor/channel.h"
#include "longhaul/secure/credentials.h"

namespace longhaul::doctor {

// A doctor's knowledge of all sites. Constant while it runs; shared by threads.
struct LocalSite {
  std::uint32_t site = 0;               // index
  std::vector<std::string> names = {};  // one per site, in job order
  std::vector<net::Address> addresses = {};
  std::uint64_t job_hash = 0;
  std::string release = {};  // the program's
  std::uint64_t token = 0;   // random, so that strangers cannot guess it
  // Null: all traffic is plain text. Shared by threads; never refreshed.
  std::shared_ptr<secure::Credentials> credentials = {};
  Stop stop = {};

  Hello hello(Purpose, std::uint16_t udp_port = 0) const;
};

// Returns an Error with the reason to refuse this hello, for both sides. Accepts and reports
// another release.
Status check(const Hello&, const LocalSite&);

struct PeerSession {
  Channel channel;
  Hello hello;  // the peer's
};
// Dials a site and introduces itself. Errors: no answer, or no doctor of this job's site.
Result<PeerSession> connect_to(const LocalSite&, std::uint32_t site, Purpose, const Deadline&);
// Receives the hello of an incoming connection. Refuses it with the reason if it does not fit.
Result<PeerSession> accept_peer(Channel, const LocalSite&, const Deadline&);

}  // namespace longhaul::doctor
