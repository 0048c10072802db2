#pragma once
// The interface of a serving site to its users: HTTP on loopback.
//
//   GET /query?class=3&from=0&to=60&limit=5&follow=1   answers as JSON lines, as they are confirmed
//   POST /model?classes=3,7&K=2&T=0.5&ms=0.4          the body is a cheap model for all sites
//   GET /status                                       one JSON object
//
// Times are seconds; without a parameter there is no limit. Every local program may ask, but no
// page of another site in a local browser: Host and Origin are checked. A POST needs the site's
// token (below) as `Authorization: Bearer TOKEN`. At most 32 answers are open at a time.
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json_fwd.hpp>

#include "longhaul/base/result.h"
#include "longhaul/core/action.h"
#include "longhaul/core/input.h"
#include "longhaul/core/place.h"
#include "longhaul/focus/messages.h"
#include "longhaul/lab/descriptor.h"
#include "longhaul/run/atomic_file.h"

namespace longhaul::run {

// Returns FOLDER/api.token: the file in the site's folder with the secret that users need to change
// its work (POST). Only the owner can read it, because programs of other users reach loopback, too.
inline std::string token_file(const std::string& folder) { return folder + "/api.token"; }

// Draws a token and replaces the file with it, mode 0600.
inline Result<std::string> make_token(const std::string& path) {
  std::array<unsigned char, 32> drawn = {};
  LH_CHECK(getrandom(drawn.data(), drawn.size(), 0) == ssize_t(drawn.size()));
  const std::string token = fmt::format("{:02x}", fmt::join(drawn, "")), line = token + "\n";
  unlink(path.c_str());  // may have another mode, or be a link
  const lab::Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return io_failed(path, "creating it");
  if (::write(file.get(), line.data(), line.size()) != ssize_t(line.size()))
    return io_failed(path, "writing it");
  return token;
}

inline Result<std::string> read_token(const std::string& path) {
  auto token = read_text(path);
  if (!token)
    return Error{token.error().kind,
                 token.error().what +
                     "; it is the token of a serving site, which only the user who "
                     "runs longhaul serve may read"};
  while (token->ends_with('\n')) token->pop_back();
  return token;
}

// Returns true for the right token, in equal time for all headers of one length.
inline bool has_token(const std::string& authorization, const std::string& token) {
  const std::string expected = "Bearer " + token;
  if (authorization.size() != expected.size()) return false;
  unsigned char difference = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    difference |= (unsigned char)(authorization[i] ^ expected[i]);
  return difference == 0;
}

class QueryApi {
 public:
  // `give`: feeds the node; called from other threads.
  QueryApi(std::shared_ptr<const Members>, std::string token, std::function<void(Input)> give);
  ~QueryApi();  // ends open answers
  // Starts to listen and returns the port; 0: any free port.
  Result<std::uint16_t> start(std::uint16_t port);
  void reply(const Reply&);           // from any thread
  void set_status(std::string json);  // answer of /status

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns an Error unless the address is "host:port".
Status check_api_address(const std::string& address);

// A query to a site's interface. `line` receives each answer and returns false to end the query.
// `patience_s`: maximum time without an answer; 0: unlimited. Errors: no answer, or a refusal.
struct QueryRequest {
  std::uint32_t cls = 0;
  std::optional<double> from_s, to_s;
  std::uint32_t limit = 0;
  bool follow = false;
};
// Sends a site's interface a model for all sites, with its token; otherwise like ask_site().
Status give_site(const std::string& address, const std::string& token, const focus::GivenModel&,
                 double patience_s, const std::function<bool(const std::string& line)>& line);
Status ask_site(const std::string& address, const QueryRequest&, double patience_s,
                const std::function<bool(const std::string& line)>& line);

nlohmann::ordered_json to_json(const focus::Answer&, const Members&);

// Returns the JSON of another process as text for a user; may be empty. Lines end with \n.
std::string answer_text(const nlohmann::ordered_json&);

}  // namespace longhaul::run
