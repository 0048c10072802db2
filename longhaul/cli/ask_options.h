#pragma once
// What commands share that ask a site of longhaul serve over its interface (run/focus/api.h).
#include <string>
#include <vector>

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

// Addresses to try in order: --address, that of --site, or of all sites that serve. `file`: of the
// job. Errors: no such site; none serves (unavailable).
Result<std::vector<std::string>> addresses_to_ask(const AskOptions&, const std::string& file,
                                                  const run::Job&);

// Prints an answer, sets the exit code where it is the last one, and returns false then.
bool print_answer(const std::string& line, bool as_json, int& code);

}  // namespace longhaul::cli
