#pragma once
// The options that simulate and compare share.
#include <string>
#include <vector>

#include "longhaul/run/experiment.h"

namespace CLI {
class App;
}

namespace longhaul::cli {

struct RunOptions {
  std::string job;
  std::vector<std::string> sets;
  std::string out;
  unsigned threads = 0;
  bool quiet = false, force = false, json = false;

  void add_to(CLI::App&);
  // Reads the job with --set applied, and `more` settings after them.
  Result<run::Job> load(const std::vector<std::string>& more = {}) const;
  run::SimulateOptions simulate(std::string folder) const;
};

}  // namespace longhaul::cli
