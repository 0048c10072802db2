#pragma once
// One node of a job with [focus] over sockets: what `longhaul serve --site` runs. It indexes the
// stream of its site into FOLDER/index.sqlite, answers the other sites, and its users over HTTP on
// loopback (api.h), whose address is in FOLDER/api.json.
#include "longhaul/run/job/job.h"
#include "longhaul/run/run_folder.h"
#include "longhaul/run/sockets.h"

namespace longhaul::run {

struct ServeOptions {
  Rank rank = 0;
  std::vector<std::string> addresses = {};  // by rank, "host:port"
  int listening = -1;                       // an inherited listening socket; -1: none
  std::string folder = {};                  // of this node; an index that is there is continued
  bool force = false;                       // an index that is there is removed
  bool rejoin = false;                      // into a run that goes on without this node
  std::string program = {};  // this one: given models are tried in a process of it; "": in here
  Security security = {};
  std::uint16_t port = 0;                             // of the interface; 0: any free one
  std::function<void(const std::string&)> note = {};  // for the user, one line
};

struct ServeSummary {
  std::string site, address;
  double time_s = 0;
  std::uint64_t objects = 0, clusters = 0, cheap_objects = 0, accurate_objects = 0, dropped = 0;
  std::uint64_t acknowledged = 0;  // the source need not send objects up to this number again
  std::uint64_t wan_bytes = 0;
  std::uint64_t model = 0,
                indexes_with = 0;  // versions: the newest given, and that in use; 0: none
  std::size_t open_queries = 0;    // of users at any site
  bool interrupted = false;
  LONGHAUL_FIELDS(site, address, time_s, objects, clusters, cheap_objects, accurate_objects,
                  dropped, acknowledged, wan_bytes, model, indexes_with, open_queries)
};

// Serves until [focus] duration_s, or Ctrl-C. Error: it cannot, or failed.
Result<ServeSummary> serve_site(const Job&, const ServeOptions&);

// The address of the interface of the node whose folder that is. Error: it does not serve.
Result<std::string> api_address(const std::string& folder);

}  // namespace longhaul::run
