#pragma once
// The page of a run while it goes on, over HTTP on 127.0.0.1:
//
//   GET /          the page
//   GET /events    server-sent events "runs": the page's data as JSON, whenever they changed
//   GET /metrics   the newest figures as Prometheus text
//
// It reads the run's files only while somebody asks, for the two others once a second at most, on
// threads of its own. Requests must name 127.0.0.1 or localhost as their host.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "longhaul/base/result.h"

namespace longhaul::cli {

class LivePage {
 public:
  static constexpr std::size_t kMaxClients = 12;  // event streams at a time; more are refused

  // `folder`: that of the run, which need not be there yet. `with_plan`: until it is
  // known who sent what, shows the plan of its overlay, for which the job's data are looked at.
  // `nodes`: as RunReader has them.
  LivePage(std::string folder, bool with_plan, std::vector<std::string> nodes = {});
  ~LivePage();  // sends what has come last, then ends
  LivePage(const LivePage&) = delete;
  LivePage& operator=(const LivePage&) = delete;

  // Begins to listen; 0: any free port. Returns the port. Error: it is taken, or the program was
  // built without the chart library.
  Result<std::uint16_t> start(std::uint16_t port);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Of --view: starts it and says where on standard error; null without a port.
Result<std::unique_ptr<LivePage>> view_if_asked(const std::string& folder, int port, bool quiet);

}  // namespace longhaul::cli
