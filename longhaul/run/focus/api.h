#pragma once
// The interface of a serving site to its users: HTTP on loopback.
//
//   GET /query?class=3&from=0&to=60&limit=5&follow=1   answers as JSON lines, as they are confirmed
//   POST /model?classes=3,7&K=2&T=0.5&ms=0.4          the body is a cheap model for all sites
//   GET /status                                       one JSON object
//
// Times are seconds; without a parameter there is no limit. Anybody on this machine may ask, but no
// page of another site in a browser here: Host and Origin are checked. A POST needs the site's
// token (api_token.h) as `Authorization: Bearer TOKEN`. At most 32 answers are open at a time.
#include <functional>
#include <memory>
#include <string>

#include "longhaul/core/action.h"
#include "longhaul/core/input.h"
#include "longhaul/core/place.h"
#include "longhaul/focus/messages.h"

namespace longhaul::run {

class QueryApi {
 public:
  // `give`: feeds the node; called from other threads.
  QueryApi(std::shared_ptr<const Members>, std::string token, std::function<void(Input)> give);
  ~QueryApi();  // ends what is open
  // Begins to listen; 0: any free port. Returns the port.
  Result<std::uint16_t> start(std::uint16_t port);
  void reply(const Reply&);           // from any thread
  void set_status(std::string json);  // what /status answers

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Is it "host:port"?
Status check_api_address(const std::string& address);

// Asks a site's interface; `line` gets each answer and returns false to end the query.
// `patience_s`: without an answer for so long it fails; 0: never. Errors: nobody answers there, or
// a refusal.
struct QueryRequest {
  std::uint32_t cls = 0;
  std::optional<double> from_s, to_s;
  std::uint32_t limit = 0;
  bool follow = false;
};
// Gives a site's interface a model for all sites, with its token; otherwise as ask_site().
Status give_site(const std::string& address, const std::string& token, const focus::GivenModel&,
                 double patience_s, const std::function<bool(const std::string& line)>& line);
Status ask_site(const std::string& address, const QueryRequest&, double patience_s,
                const std::function<bool(const std::string& line)>& line);

}  // namespace longhaul::run
