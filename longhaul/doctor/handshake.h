#pragma once
// Who may speak with whom: doctors of sites of one job.
#include <string>
#include <vector>

#include "longhaul/doctor/channel.h"

namespace longhaul::doctor {

// A site as its doctor knows itself and the others. Constant while it works; shared by threads.
struct LocalSite {
  std::uint32_t site = 0;               // index
  std::vector<std::string> names = {};  // of all sites, as the job has them
  std::vector<net::Address> addresses = {};
  std::uint64_t job_hash = 0;
  std::string release = {};  // of the program
  std::uint64_t token = 0;   // drawn by whoever made this: strangers cannot guess it
  Stop stop = {};

  Hello hello(Purpose, std::uint16_t udp_port = 0) const;
};

// Why the one who says this hello is turned away; an Error for both sides, in words of our own.
// Another release is let in: the report tells.
Status check(const Hello&, const LocalSite&);

struct PeerSession {
  Channel channel;
  Hello hello;  // the other's
};
// Dials a site and introduces itself. Errors: nobody there, or no doctor of this job's site.
Result<PeerSession> connect_to(const LocalSite&, std::uint32_t site, Purpose, const Deadline&);
// The hello of one who has dialled; turns him away with the reason if it does not fit.
Result<PeerSession> accept_peer(Socket, const LocalSite&, const Deadline&);

}  // namespace longhaul::doctor
