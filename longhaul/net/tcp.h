#pragma once
// Streams over TCP, and the loop that drives them. Asio stays inside tcp.cpp.
// One thread calls all of it, but post(), which any thread may call.
#include <chrono>
#include <memory>

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

  Time now() const;                                     // since the loop was made; never goes back
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

// While it lives, the loop calls back whenever the descriptor can be read.
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

class Listener {
 public:
  virtual ~Listener() = default;  // stops listening
  virtual std::uint16_t port() const = 0;
};
// Whether the address always names this machine.
bool is_loopback(const Address&);

// A listening socket for a child process to inherit.
struct ListeningSocket {
  int descriptor = -1;  // the caller's to close
  std::uint16_t port = 0;
};
Result<ListeningSocket> open_listening_socket(const Address&);

// Port 0: any that is free. Errors: the port is taken, the address is not this machine's.
Result<std::unique_ptr<Listener>> listen(Loop&, const Address&,
                                         std::function<void(std::unique_ptr<Stream>)> accepted);
// On a listening socket that this process inherited.
Result<std::unique_ptr<Listener>> listen_on(Loop&, int descriptor,
                                            std::function<void(std::unique_ptr<Stream>)> accepted);
// One attempt. Error: the address and what failed (name look-up, route, refused, time-out).
void connect(Loop&, const Address&, Time within,
             std::function<void(Result<std::unique_ptr<Stream>>)> done);

}  // namespace longhaul::net
