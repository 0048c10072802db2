#pragma once
// Streams over TCP, and the loop that drives them. Asio stays inside tcp.cpp.
// One thread calls all of it, but post(), which any thread may call.
#include <chrono>
#include <memory>

#include "longhaul/core/types.h"
#include "longhaul/net/stream.h"

namespace longhaul::net {

class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  Time now() const;                      // since the loop was made; never goes back
  void post(std::function<void()>);      // runs it on the loop's thread
  void at(Time, std::function<void()>);  // not earlier; cannot be taken back
  void run();                            // until stop()
  bool run_until(Time, const std::function<bool()>& done);  // false: the time came first
  void stop();

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

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
// Port 0: any that is free. Errors: the port is taken, the address is not this machine's.
Result<std::unique_ptr<Listener>> listen(Loop&, const Address&,
                                         std::function<void(std::unique_ptr<Stream>)> accepted);
// One attempt; an Error names the address and what failed: the name, the way there, or the door.
void connect(Loop&, const Address&, Time within,
             std::function<void(Result<std::unique_ptr<Stream>>)> done);

}  // namespace longhaul::net
