#include "longhaul/net/tcp.h"

// One thread runs the loop, and the mutex of its queue orders posts of other threads. Asio would
// add fences, which ThreadSanitizer does not support.
#define ASIO_DISABLE_FENCED_BLOCK

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <asio.hpp>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "longhaul/core/pacing.h"

namespace longhaul::net {

using asio::ip::tcp;
using ErrorCode = asio::error_code;

struct Loop::Impl {
  asio::io_context context{1};
  std::chrono::steady_clock::time_point born = std::chrono::steady_clock::now();
};

struct Timer::Impl {
  Impl(asio::io_context& context, std::chrono::steady_clock::time_point when,
       std::function<void()> what)
      : clock(context, when), work(std::move(what)) {}
  asio::steady_timer clock;
  std::function<void()> work;  // empty: done or cancelled
};

namespace {

// A socket for both families reports IPv4 addresses as mapped ones.
asio::ip::address address_of(const tcp::endpoint& endpoint) {
  const asio::ip::address address = endpoint.address();
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address;
  return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
}

std::string text(const tcp::endpoint& endpoint) {
  const asio::ip::address address = address_of(endpoint);
  return address.is_v6() ? fmt::format("[{}]:{}", address.to_string(), endpoint.port())
                         : fmt::format("{}:{}", address.to_string(), endpoint.port());
}

// Bytes of one read or write of a socket. The loop serves other sockets in between, so that a
// control message waits for a few such pieces of bulk, not for chunks.
constexpr std::size_t kPiece = 64 * 1024;

// Sockets of this process whose peers still read last words, and the time limit for that.
constexpr int kMostLingering = 64;
constexpr auto kLingers = std::chrono::seconds(2);
constexpr std::uint64_t kMostDropped = 4 << 20;  // received bytes in that time
std::atomic<int> lingering{0};

// Shared by the stream and its pending operations, which may outlive it.
struct Socket : std::enable_shared_from_this<Socket> {
  explicit Socket(tcp::socket s) : socket(std::move(s)), limit(socket.get_executor()) {}
  ~Socket() {
    if (lingers) --lingering;
  }

  // Closes the socket after the peer had time to read. Closing with unread bytes would reset the
  // connection and discard data that the peer has not read yet.
  void linger() {
    if (lingering >= kMostLingering) return close();
    lingers = true;
    ++lingering;
    ErrorCode ignored;
    socket.cancel(ignored);
    socket.shutdown(tcp::socket::shutdown_send, ignored);
    limit.expires_after(kLingers);
    limit.async_wait([self = shared_from_this()](ErrorCode) { self->close(); });
    drop(received + kMostDropped);
  }
  void drop(std::uint64_t until) {
    socket.async_read_some(asio::buffer(store),
                           [self = shared_from_this(), until](ErrorCode error, std::size_t n) {
                             self->received += n;
                             if (!error && self->received < until) return self->drop(until);
                             self->limit.cancel();
                           });
  }
  void close() {
    ErrorCode ignored;
    socket.shutdown(tcp::socket::shutdown_both, ignored);
    socket.close(ignored);
  }

  struct Read {
    std::span<std::byte> left;
    Stream::Done done;
  };

  void read(Read read) {
    if (delivering) {
      wanted = std::move(read);
    } else if (ahead.empty()) {
      fetch(std::move(read));
    } else {
      asio::post(socket.get_executor(),
                 [self = shared_from_this(), read = std::move(read)]() mutable {
                   self->deliver(std::move(read));
                 });
    }
  }

  // Serves a read, and further reads by its callback, from the buffered bytes.
  void deliver(Read read) {
    for (;;) {
      const std::size_t count = std::min(read.left.size(), ahead.size());
      std::copy_n(ahead.begin(), count, read.left.begin());
      read.left = read.left.subspan(count);
      ahead = ahead.subspan(count);
      if (!read.left.empty()) return fetch(std::move(read));
      delivering = true;
      read.done(Ok{});
      delivering = false;
      if (!wanted) return;
      read = *std::exchange(wanted, std::nullopt);
    }
  }

  // Reads long requests directly into their buffer. For short ones it fills the store, so that the
  // end of a frame, the next header and its head need one kernel call.
  void fetch(Read read) {
    const bool direct = read.left.size() >= store.size();
    const auto into =
        direct ? read.left.first(std::min(read.left.size(), kPiece)) : std::span(store);
    socket.async_read_some(asio::buffer(into.data(), into.size()),
                           [self = shared_from_this(), read = std::move(read), direct](
                               ErrorCode error, std::size_t count) mutable {
                             self->received += count;
                             if (error) return read.done(self->broken(error));
                             if (direct)
                               read.left = read.left.subspan(count);
                             else
                               self->ahead = std::span(self->store).first(count);
                             self->deliver(std::move(read));
                           });
  }

  void read_some(std::span<std::byte> into, Stream::DoneSome done) {
    if (!ahead.empty()) {
      const std::size_t count = std::min(into.size(), ahead.size());
      std::copy_n(ahead.begin(), count, into.begin());
      ahead = ahead.subspan(count);
      return asio::post(socket.get_executor(), [self = shared_from_this(), count,
                                                done = std::move(done)] { done(count); });
    }
    socket.async_read_some(
        asio::buffer(into.data(), into.size()),
        [self = shared_from_this(), done = std::move(done)](ErrorCode error, std::size_t count) {
          self->received += count;
          if (error) return done(self->broken(error));
          done(count);
        });
  }

  void write_on(Stream::Parts parts, Stream::Done done) {
    std::array<asio::const_buffer, 3> buffers;
    std::size_t room = kPiece;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      buffers[i] = asio::buffer(parts[i].data(), std::min(parts[i].size(), room));
      room -= buffers[i].size();
    }
    if (room == kPiece) return done(Ok{});
    socket.async_write_some(buffers, [self = shared_from_this(), parts, done = std::move(done)](
                                         ErrorCode error, std::size_t count) mutable {
      self->sent += count;
      if (error) return done(self->broken(error));
      for (auto& part : parts) {
        const std::size_t moved = std::min(count, part.size());
        part = part.subspan(moved);
        count -= moved;
      }
      self->write_on(parts, std::move(done));
    });
  }

  Error broken(ErrorCode error) const {
    if (error == asio::error::eof) return unavailable(peer + " closed the connection");
    return unavailable(fmt::format("connection to {}: {}", peer, error.message()));
  }

  tcp::socket socket;
  asio::steady_timer limit;  // limit for its last words
  bool lingers = false;
  std::string peer;
  std::uint64_t received = 0, sent = 0;
  std::array<std::byte, 4096> store;
  std::span<const std::byte> ahead;  // part of the store: received, but not requested yet
  std::optional<Read> wanted;        // requested by the callback of the current read
  bool delivering = false;
};

// Small frames must not wait for others (Nagle). The kernel should hold few unsent bytes, because a
// higher class cannot overtake them.
void hold_unsent(int handle, int bytes) {
  setsockopt(handle, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

void tune(tcp::socket& socket) {
  ErrorCode ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  hold_unsent(socket.native_handle(), most_unsent(std::numeric_limits<double>::infinity()));
}

class TcpStream final : public Stream {
 public:
  explicit TcpStream(tcp::socket socket) : socket_(std::make_shared<Socket>(std::move(socket))) {
    ErrorCode error;
    const tcp::endpoint remote = socket_->socket.remote_endpoint(error);
    socket_->peer = error ? "a peer that is gone" : text(remote);
    tune(socket_->socket);
  }
  ~TcpStream() override { close(); }

  void read(std::span<std::byte> into, Done done) override {
    socket_->read({into, std::move(done)});
  }
  void read_some(std::span<std::byte> into, DoneSome done) override {
    socket_->read_some(into, std::move(done));
  }
  void write(Parts parts, Done done) override {
    if (is_paced_) renew();
    socket_->write_on(parts, std::move(done));
  }
  void close() override {
    if (!socket_->lingers) socket_->close();
  }
  void finish() override {
    if (!socket_->lingers && socket_->socket.is_open()) socket_->linger();
  }
  std::uint64_t received() const override { return socket_->received; }
  std::uint64_t sent() const override { return socket_->sent; }
  bool closed_by_peer() const override {
    pollfd at{socket_->socket.native_handle(), POLLRDHUP, 0};
    return poll(&at, 1, 0) > 0 && (at.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
  }
  // The loopback has no rate to find and needs no congestion control.
  Status set_congestion(const std::string& name) override {
    ErrorCode error;
    const bool loopback = address_of(socket_->socket.remote_endpoint(error)).is_loopback();
    if (error || loopback) return Ok{};
    if (control(name)) {
      congestion_ = name;
      return Ok{};
    }
    return unavailable(
        fmt::format("this kernel does not offer the congestion control {} ({}); as root: modprobe "
                    "tcp_{}; connections use the system's",
                    name, std::strerror(errno), name));
  }
  void set_dscp(unsigned dscp) override {
    ErrorCode error;
    const bool v6 = socket_->socket.local_endpoint(error).address().is_v6();
    const int value = int(dscp) << 2;  // the two bits below are ECN
    const int handle = socket_->socket.native_handle();
    if (v6) setsockopt(handle, IPPROTO_IPV6, IPV6_TCLASS, &value, sizeof value);
    setsockopt(handle, IPPROTO_IP, IP_TOS, &value, sizeof value);
  }
  void set_pacing(double most) override {
    const bool limits = std::isfinite(most);
    const std::uint64_t rate = limits ? std::uint64_t(most) : ~std::uint64_t{0};
    const int handle = socket_->socket.native_handle();
    setsockopt(handle, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate);
    hold_unsent(handle, most_unsent(most));
    is_paced_ = limits && congestion_ == "bbr";
    renewed_ = std::chrono::steady_clock::now();
  }
  int descriptor() const override { return socket_->socket.native_handle(); }
  std::string peer() const override { return socket_->peer; }

 private:
  bool control(const std::string& name) {
    return setsockopt(socket_->socket.native_handle(), IPPROTO_TCP, TCP_CONGESTION, name.data(),
                      socklen_t(name.size())) == 0;
  }

  // Restarts bbr on an idle paced connection. Every 10 s bbr pauses for 200 ms to measure the round
  // trip without a queue. A paced connection has no queue, and the kernel knows its shortest round
  // trip. If no data is in flight, bbr restarts with that and does not pause in the next 10 s.
  void renew() {
    const auto now = std::chrono::steady_clock::now();
    int waiting = 0;
    if (now - renewed_ < kRenewAfter ||
        ioctl(socket_->socket.native_handle(), SIOCOUTQ, &waiting) != 0 || waiting > 0)
      return;
    renewed_ = now;
    if (control("reno") && !control(congestion_)) is_paced_ = false;
  }

  std::shared_ptr<Socket> socket_;
  std::string congestion_;
  bool is_paced_ = false;
  std::chrono::steady_clock::time_point renewed_ = {};
};

Error no_way(const Address& address, std::string_view what, const std::string& why) {
  return unavailable(fmt::format("{}: {}: {}", to_string(address), what, why));
}

class TcpListener final : public Listener {
 public:
  ~TcpListener() override {
    ErrorCode ignored;
    for (const auto& door : doors_) door->acceptor.close(ignored);
  }
  std::uint16_t port() const override { return addresses_.front().port; }
  std::vector<Address> addresses() const override { return addresses_; }

  Status adopt(Loop& loop, int descriptor, std::function<void(std::unique_ptr<Stream>)> accepted) {
    LH_LET(at, addresses_of_listener(descriptor));
    ErrorCode error;
    auto door = std::make_shared<State>(loop, std::move(accepted));
    const bool is_v6 = at.front().host.find(':') != std::string::npos;
    door->acceptor.assign(is_v6 ? tcp::v6() : tcp::v4(), descriptor, error);
    if (error) return unavailable(fmt::format("descriptor {}: {}", descriptor, error.message()));
    addresses_.insert(addresses_.end(), at.begin(), at.end());
    State::accept(doors_.emplace_back(std::move(door)));
    return Ok{};
  }

 private:
  struct State {
    State(Loop& loop, std::function<void(std::unique_ptr<Stream>)> then)
        : acceptor(loop.impl().context), pause(loop.impl().context), accepted(std::move(then)) {}
    static void accept(const std::shared_ptr<State>& self) {
      self->acceptor.async_accept([self](ErrorCode error, tcp::socket socket) {
        if (error == asio::error::operation_aborted || !self->acceptor.is_open()) return;
        if (!error) {
          self->accepted(std::make_unique<TcpStream>(std::move(socket)));
          return accept(self);
        }
        // For example out of descriptors: try again, but not at once.
        self->pause.expires_after(std::chrono::milliseconds(100));
        self->pause.async_wait([self](ErrorCode) {
          if (self->acceptor.is_open()) accept(self);
        });
      });
    }
    tcp::acceptor acceptor;
    asio::steady_timer pause;
    std::function<void(std::unique_ptr<Stream>)> accepted;
  };
  std::vector<std::shared_ptr<State>> doors_;
  std::vector<Address> addresses_;
};

// One attempt to connect; its pending operations keep it alive.
struct Dial : std::enable_shared_from_this<Dial> {
  Dial(Loop& loop, Address to, std::function<void(Result<std::unique_ptr<Stream>>)> then)
      : address(std::move(to)),
        resolver(loop.impl().context),
        socket(loop.impl().context),
        limit(loop.impl().context),
        share(loop.impl().context),
        done(std::move(then)) {}

  void start(Time within) {
    end_at = std::chrono::steady_clock::now() + within;
    limit.expires_at(end_at);
    limit.async_wait([self = shared_from_this()](ErrorCode error) {
      if (!error)
        self->end(no_way(self->address, "no answer",
                         "is it up, and not behind a "
                         "firewall?"));
    });
    resolver.async_resolve(
        address.host, std::to_string(address.port), tcp::resolver::flags{},
        [self = shared_from_this()](ErrorCode error, const tcp::resolver::results_type& found) {
          if (error)
            return self->end(no_way(self->address, "this name does not resolve", error.message()));
          self->left.assign(found.begin(), found.end());
          self->connect();
        });
  }

  // Tries the next address. An address without an answer leaves time for the rest.
  void connect() {
    if (!done) return;
    const tcp::endpoint next = left.front();
    left.erase(left.begin());
    ErrorCode ignored;
    socket.close(ignored);
    const auto now = std::chrono::steady_clock::now();
    if (!left.empty()) {
      share.expires_at(now + (end_at - now) / (left.size() + 1));
      share.async_wait([self = shared_from_this()](ErrorCode error) {
        if (!error) self->socket.close(error);
      });
    }
    socket.async_connect(next, [self = shared_from_this()](ErrorCode error) {
      self->share.cancel();
      if (!self->done) return;
      if (error && !self->left.empty()) return self->connect();
      if (error) return self->end(no_way(self->address, "cannot connect", error.message()));
      std::unique_ptr<Stream> stream = std::make_unique<TcpStream>(std::move(self->socket));
      self->end(std::move(stream));
    });
  }

  void end(Result<std::unique_ptr<Stream>> result) {
    if (!done) return;
    const auto then = std::exchange(done, nullptr);
    limit.cancel();
    share.cancel();
    resolver.cancel();
    ErrorCode ignored;
    socket.close(ignored);
    then(std::move(result));
  }

  Address address;
  tcp::resolver resolver;
  tcp::socket socket;
  asio::steady_timer limit, share;  // limits for all addresses, and for one
  std::chrono::steady_clock::time_point end_at;
  std::vector<tcp::endpoint> left;
  std::function<void(Result<std::unique_ptr<Stream>>)> done;  // empty: already called
};

}  // namespace

Loop::Loop() : impl_(std::make_unique<Impl>()) {}
Loop::~Loop() = default;

Time Loop::now() const { return std::chrono::steady_clock::now() - impl_->born; }

void Loop::post(std::function<void()> work) { asio::post(impl_->context, std::move(work)); }

Timer Loop::at(Time when, std::function<void()> work) {
  auto timer = std::make_shared<Timer::Impl>(impl_->context, impl_->born + when, std::move(work));
  timer->clock.async_wait([timer](ErrorCode) {
    // Taken out first: the work may drop its own Timer.
    if (const auto due = std::exchange(timer->work, nullptr)) due();
  });
  return Timer(std::move(timer));
}

void Timer::cancel() {
  if (!impl_) return;
  impl_->work = nullptr;
  impl_->clock.cancel();
  impl_.reset();
}

void Loop::run() {
  const auto keep = asio::make_work_guard(impl_->context);
  impl_->context.restart();
  impl_->context.run();
}

bool Loop::run_until(Time end, const std::function<bool()>& done) {
  const auto keep = asio::make_work_guard(impl_->context);
  impl_->context.restart();
  while (!done()) {
    if (now() >= end) return false;
    impl_->context.run_one_until(impl_->born + end);
  }
  return true;
}

void Loop::stop() { impl_->context.stop(); }

Result<std::unique_ptr<Listener>> listen(Loop& loop, const Address& address,
                                         std::function<void(std::unique_ptr<Stream>)> accepted) {
  LH_LET(sockets, open_listening_sockets(address));
  auto listener = std::make_unique<TcpListener>();
  for (const ListeningSocket& one : sockets)
    LH_TRY(listener->adopt(loop, one.descriptor, accepted));
  return std::unique_ptr<Listener>(std::move(listener));
}

Result<std::unique_ptr<Listener>> listen_on(Loop& loop, int descriptor,
                                            std::function<void(std::unique_ptr<Stream>)> accepted) {
  auto listener = std::make_unique<TcpListener>();
  LH_TRY(listener->adopt(loop, descriptor, std::move(accepted)));
  return std::unique_ptr<Listener>(std::move(listener));
}

namespace {
struct DescriptorWatch final : Watch {
  struct State {
    State(Loop& loop, int descriptor, std::function<void()> what)
        : stream(loop.impl().context, descriptor), readable(std::move(what)) {}
    asio::posix::stream_descriptor stream;
    std::function<void()> readable;
    bool is_over = false;
  };
  DescriptorWatch(Loop& loop, int descriptor, std::function<void()> readable)
      : state(std::make_shared<State>(loop, descriptor, std::move(readable))) {
    wait(state);
  }
  ~DescriptorWatch() override {
    state->is_over = true;
    state->stream.release();  // the owner keeps the descriptor
  }
  static void wait(const std::shared_ptr<State>& state) {
    state->stream.async_wait(asio::posix::stream_descriptor::wait_read, [state](ErrorCode error) {
      if (error || state->is_over) return;
      state->readable();
      if (!state->is_over) wait(state);
    });
  }
  std::shared_ptr<State> state;
};
}  // namespace

std::unique_ptr<Watch> watch_readable(Loop& loop, int descriptor, std::function<void()> readable) {
  return std::make_unique<DescriptorWatch>(loop, descriptor, std::move(readable));
}

std::unique_ptr<Stream> adopt(Loop& loop, int descriptor) {
  tcp::socket socket(loop.impl().context);
  ErrorCode ignored;
  socket.assign(tcp::v4(), descriptor, ignored);
  return std::make_unique<TcpStream>(std::move(socket));
}

void resolve(Loop& loop, const std::string& host,
             std::function<void(std::vector<std::string>)> done) {
  const auto resolver = std::make_shared<tcp::resolver>(loop.impl().context);
  resolver->async_resolve(
      host, "", tcp::resolver::flags{},
      [resolver, done = std::move(done)](ErrorCode, const tcp::resolver::results_type& found) {
        std::vector<std::string> hosts;
        for (const auto& one : found) hosts.push_back(address_of(one.endpoint()).to_string());
        done(std::move(hosts));
      });
}

void connect(Loop& loop, const Address& address, Time within,
             std::function<void(Result<std::unique_ptr<Stream>>)> done) {
  std::make_shared<Dial>(loop, address, std::move(done))->start(within);
}

}  // namespace longhaul::net
