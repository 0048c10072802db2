#pragma once
// The page of a run in progress, over HTTP on 127.0.0.1:
//
//   GET /          the page
//   GET /events    server-sent events "runs": the page's data as JSON, whenever they changed
//   GET /metrics   the newest figures as Prometheus text
//
// The run's files are read on requests only, by separate threads: for every page, and for the two
// others at most once in 0.4 s. Requests must name 127.0.0.1 or localhost as their host.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "longhaul/base/result.h"

namespace longhaul::cli {

class LivePage {
 public:
  static constexpr std::size_t kMaxClients = 12;  // event streams at a time; others are refused

  // `folder`: that of the run, which may not exist yet. `with_plan`: shows the plan of the overlay
  // until the sent bytes are known; reads the job's data for it. `nodes`: as in RunReader.
  LivePage(std::string folder, bool with_plan, std::vector<std::string> nodes = {});
  ~LivePage();  // sends the newest data, then ends
  LivePage(const LivePage&) = delete;
  LivePage& operator=(const LivePage&) = delete;

  // Starts to listen and returns the port; 0: any free port. Returns an Error if the port is taken,
  // or if the program was built without the chart library.
  Result<std::uint16_t> start(std::uint16_t port);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Starts the page of --view and prints its address on standard error; null without a port.
Result<std::unique_ptr<LivePage>> view_if_asked(const std::string& folder, int port, bool quiet);

}  // namespace longhaul::cli
