#pragma once
// One node of a job with [focus] over sockets, as run by `longhaul serve --site`. The node indexes
// the stream of its site into FOLDER/index.sqlite. It answers the other sites, and its users over
// HTTP on loopback (api.h), with the address in FOLDER/api.json.
#include "longhaul/run/job/job.h"
#include "longhaul/run/run_folder.h"
#include "longhaul/run/sockets.h"

namespace longhaul::run {

struct ServeOptions {
  Rank rank = 0;
  std::vector<std::string> addresses = {};  // by rank, "host:port"
  int listening = -1;                       // an inherited listening socket; -1: none
  std::string folder = {};                  // this node's; an existing index is continued
  bool force = false;                       // removes an existing index
  bool rejoin = false;                      // into a run that continues without this node
  std::string program = {};  // this one: tries given models in a process of it; "": in this process
  Security security = {};
  std::uint16_t port = 0;                             // port of the interface; 0: any free one
  std::function<void(const std::string&)> note = {};  // for the user, one line
};

struct ServeSummary {
  std::string site, address;
  double time_s = 0;
  std::uint64_t objects = 0, clusters = 0, cheap_objects = 0, accurate_objects = 0, dropped = 0;
  std::uint64_t acknowledged = 0;  // the source sends only objects after this number again
  std::uint64_t wan_bytes = 0;
  std::uint64_t model = 0,
                indexes_with = 0;  // versions: newest given, in use; 0: none
  std::size_t open_queries = 0;    // from users at any site
  bool interrupted = false;
  LONGHAUL_FIELDS(site, address, time_s, objects, clusters, cheap_objects, accurate_objects,
                  dropped, acknowledged, wan_bytes, model, indexes_with, open_queries)
};

// Serves until [focus] duration_s, or Ctrl-C. Returns an Error if it cannot serve, or has failed.
Result<ServeSummary> serve_site(const Job&, const ServeOptions&);

// Returns the address of the interface of that folder's node. Returns an Error if it does not
// serve.
Result<std::string> api_address(const std::string& folder);

}  // namespace longhaul::run
