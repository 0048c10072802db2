#pragma once
// What commands share that ask a site of longhaul serve over its interface (run/focus/api.h).
#include <functional>
#include <string>

#include "longhaul/base/result.h"
#include "longhaul/run/job/job.h"

namespace CLI {
class App;
}

namespace longhaul::cli {

struct AskOptions {
  std::string site, out, address;
};
void add_ask_options(CLI::App&, AskOptions&);

// Asks --address, the interface of --site, or one after the other those of all sites that serve
// until one answers, prints its answers (`as_json`: the lines as they are) and returns the exit
// code. `ask` hands each line that comes from the site to `on_line` until that returns false.
// `file`: of the job.
struct AskedSite {
  std::string address, folder;  // folder "": not known, with --address
};
using OnLine = std::function<bool(const std::string& line)>;
int ask_sites(const AskOptions&, const std::string& file, const run::Job&, bool as_json,
              const std::function<Status(const AskedSite&, const OnLine& on_line)>& ask);

}  // namespace longhaul::cli
