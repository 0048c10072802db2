#pragma once
// Streams over TCP, and the loop that drives them. Asio stays inside tcp.cpp.
// All calls come from one thread, except post(), which any thread may call.
#include <cerrno>
#include <chrono>
#include <memory>
#include <system_error>
#include <vector>

#include "longhaul/core/types.h"
#include "longhaul/net/stream.h"

namespace longhaul::net {

// A pending call of Loop::at(); destroying it cancels the call.
class Timer {
 public:
  struct Impl;
  Timer() = default;
  explicit Timer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  Timer(Timer&&) = default;
  Timer& operator=(Timer&& other) {
    cancel();
    impl_ = std::move(other.impl_);
    return *this;
  }
  ~Timer() { cancel(); }

 private:
  void cancel();
  std::shared_ptr<Impl> impl_;
};

class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  Time now() const;                                     // since the loop was made; never decreases
  void post(std::function<void()>);                     // runs it on the loop's thread
  [[nodiscard]] Timer at(Time, std::function<void()>);  // not earlier
  void run();                                           // until stop()
  bool run_until(Time, const std::function<bool()>& done);  // false: the time came first
  void stop();

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// Calls back while it lives, each time the descriptor can be read.
class Watch {
 public:
  virtual ~Watch() = default;
};
std::unique_ptr<Watch> watch_readable(Loop&, int descriptor, std::function<void()>);

struct Address {
  std::string host;  // a name or a literal
  std::uint16_t port = 0;
};
// "10.0.0.1:7000", "[::1]:7000" or "name:7000".
Result<Address> parse_address(std::string_view);
std::string to_string(const Address&);

// Returns true if the address always names this machine.
bool is_loopback(const Address&);
// A host for listening: all addresses of this machine, including IPv4.
inline constexpr const char* kEverywhere = "::";
// Returns the default listening address of a node: everywhere, because its name may resolve to
// another address on its own machine. A loopback address listens there only.
Address listening_address(const Address& own);
// Returns the numerical addresses of a name, or an Error if it has none now.
Result<std::vector<std::string>> resolve(const std::string& host);

class Listener {
 public:
  virtual ~Listener() = default;  // stops listening
  virtual std::uint16_t port() const = 0;
  virtual std::vector<Address> addresses() const = 0;  // numerical
};

// A listening socket, also for a child process to inherit.
struct ListeningSocket {
  int descriptor = -1;  // the caller's to close
  std::uint16_t port = 0;
};
// Opens one socket for each address of the host that this machine has. Port 0: any free port, equal
// for all sockets. Errors: unavailable while the name does not resolve or the machine has none of
// its addresses; io if the port is in use.
Result<std::vector<ListeningSocket>> open_listening_sockets(const Address&);
Result<ListeningSocket> open_listening_socket(const Address&);  // for a numerical address
// Returns the addresses of an inherited socket.
Result<std::vector<Address>> addresses_of_listener(int descriptor);

// Errors: see open_listening_sockets().
Result<std::unique_ptr<Listener>> listen(Loop&, const Address&,
                                         std::function<void(std::unique_ptr<Stream>)> accepted);
// Listens on a socket that this process inherited.
Result<std::unique_ptr<Listener>> listen_on(Loop&, int descriptor,
                                            std::function<void(std::unique_ptr<Stream>)> accepted);
// Returns the stream of a connection that other code has accepted.
std::unique_ptr<Stream> adopt(Loop&, int descriptor);
// Resolves a name and passes its addresses to `done`; empty if it has none. A loop looks up one
// name at a time, also for connect().
void resolve(Loop&, const std::string& host, std::function<void(std::vector<std::string>)> done);
// Tries each address of the name in turn; none takes more than its share of the time. Error: the
// address and the failed step (name look-up, route, refused, time-out).
void connect(Loop&, const Address&, Time within,
             std::function<void(Result<std::unique_ptr<Stream>>)> done);
// Returns true if connect() failed because no process listens there, on a machine that answers.
inline bool was_refused(const Error& error) {
  return error.what.ends_with(std::generic_category().message(ECONNREFUSED));
}

}  // namespace longhaul::net
