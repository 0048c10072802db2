#include "longhaul/net/tcp.h"

// One thread runs the loop, and the mutex of its queue orders what others post; the fences that
// asio would add beside it are unknown to ThreadSanitizer.
#define ASIO_DISABLE_FENCED_BLOCK

#include <fcntl.h>
#include <poll.h>

#include <asio.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include <fmt/format.h>

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
  std::function<void()> work;  // empty: done, or not wanted any more
};

namespace {

std::string text(const tcp::endpoint& endpoint) {
  const asio::ip::address address = endpoint.address();
  return address.is_v6() ? fmt::format("[{}]:{}", address.to_string(), endpoint.port())
                         : fmt::format("{}:{}", address.to_string(), endpoint.port());
}

// Of one read or write of a socket: the loop turns to the others between two, so that a message of
// control waits for some such pieces of bulk, not for chunks.
constexpr std::size_t kPiece = 64 * 1024;

// Shared by the stream and its operations under way, which may outlive it.
struct Socket : std::enable_shared_from_this<Socket> {
  explicit Socket(tcp::socket s) : socket(std::move(s)) {}

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

  // Serves a read, and those that follow from it, from what is here.
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

  // Long reads go where they belong. For short ones as much is taken as there is room for, so that
  // the end of a frame, the next header and its head are one call of the kernel.
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
  std::string peer;
  std::uint64_t received = 0, sent = 0;
  std::array<std::byte, 4096> store;
  std::span<const std::byte> ahead;  // of the store: come, but not asked for yet
  std::optional<Read> wanted;        // by who is being served
  bool delivering = false;
};

// Small frames must not wait for others (Nagle), and the kernel should hold little that was
// written but not sent: what it holds cannot be overtaken by a higher class.
void tune(tcp::socket& socket) {
  ErrorCode ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  const int unsent = 256 * 1024;
  setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
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
  void write(Parts parts, Done done) override { socket_->write_on(parts, std::move(done)); }
  void close() override {
    ErrorCode ignored;
    socket_->socket.shutdown(tcp::socket::shutdown_both, ignored);
    socket_->socket.close(ignored);
  }
  std::uint64_t received() const override { return socket_->received; }
  std::uint64_t sent() const override { return socket_->sent; }
  bool closed_by_peer() const override {
    pollfd at{socket_->socket.native_handle(), POLLRDHUP, 0};
    return poll(&at, 1, 0) > 0 && (at.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
  }
  // The loopback needs no help: it has no rate to find.
  Status set_congestion(const std::string& name) override {
    ErrorCode error;
    const bool loopback = socket_->socket.remote_endpoint(error).address().is_loopback();
    if (error || loopback) return Ok{};
    const int handle = socket_->socket.native_handle();
    if (setsockopt(handle, IPPROTO_TCP, TCP_CONGESTION, name.data(), socklen_t(name.size())) == 0)
      return Ok{};
    return unavailable(
        fmt::format("this kernel does not offer the congestion control {} ({}); as root: modprobe "
                    "tcp_{}; connections use the system's",
                    name, std::strerror(errno), name));
  }
  void set_dscp(unsigned dscp) override {
    ErrorCode error;
    const bool v6 = socket_->socket.local_endpoint(error).address().is_v6();
    const int value = int(dscp) << 2;  // below it are the two bits of ECN
    const int handle = socket_->socket.native_handle();
    if (v6) setsockopt(handle, IPPROTO_IPV6, IPV6_TCLASS, &value, sizeof value);
    setsockopt(handle, IPPROTO_IP, IP_TOS, &value, sizeof value);
  }
  std::string peer() const override { return socket_->peer; }

 private:
  std::shared_ptr<Socket> socket_;
};

Error no_way(const Address& address, std::string_view what, const std::string& why) {
  return unavailable(fmt::format("{}: {}: {}", to_string(address), what, why));
}

Status open_acceptor(tcp::acceptor& acceptor, const Address& address) {
  ErrorCode error;
  tcp::resolver resolver(acceptor.get_executor());
  const auto found =
      resolver.resolve(address.host, std::to_string(address.port), tcp::resolver::passive, error);
  if (error || found.empty()) return no_way(address, "this name does not resolve", error.message());
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error == asio::error::address_in_use)
    return no_way(address, "cannot listen",
                  "another process has this port; end it, or give "
                  "this site another port in [[site]] address");
  if (error.value() == EADDRNOTAVAIL)
    return no_way(address, "cannot listen",
                  "this machine has no such address; [[site]] bind says where it listens instead, "
                  "as bind = \"0.0.0.0:" +
                      std::to_string(address.port) + "\" at all it has");
  if (error) return no_way(address, "cannot listen", error.message());
  return Ok{};
}

class TcpListener final : public Listener {
 public:
  TcpListener(Loop& loop, std::function<void(std::unique_ptr<Stream>)> accepted)
      : state_(std::make_shared<State>(loop, std::move(accepted))) {}
  ~TcpListener() override {
    ErrorCode ignored;
    state_->acceptor.close(ignored);
  }
  std::uint16_t port() const override { return state_->acceptor.local_endpoint().port(); }

  Status open(const Address& address) {
    LH_TRY(open_acceptor(state_->acceptor, address));
    State::accept(state_);
    return Ok{};
  }
  Status adopt(int descriptor) {
    sockaddr_storage at{};
    socklen_t size = sizeof at;
    int listens = 0;
    socklen_t int_size = sizeof listens;
    const bool good = getsockname(descriptor, reinterpret_cast<sockaddr*>(&at), &size) == 0 &&
                      getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &int_size) == 0;
    if (!good || listens == 0)
      return invalid(fmt::format("descriptor {} is no socket that listens", descriptor));
    ErrorCode error;
    state_->acceptor.assign(at.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), descriptor, error);
    if (error) return unavailable(fmt::format("descriptor {}: {}", descriptor, error.message()));
    State::accept(state_);
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
        // Out of descriptors, say: try again, but not at once.
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
  std::shared_ptr<State> state_;
};

// One attempt to connect; keeps itself alive by its operations.
struct Dial : std::enable_shared_from_this<Dial> {
  Dial(Loop& loop, Address to, std::function<void(Result<std::unique_ptr<Stream>>)> then)
      : address(std::move(to)),
        resolver(loop.impl().context),
        socket(loop.impl().context),
        limit(loop.impl().context),
        done(std::move(then)) {}

  void start(Time within) {
    limit.expires_after(within);
    limit.async_wait([self = shared_from_this()](ErrorCode error) {
      if (!error)
        self->end(no_way(self->address, "no answer",
                         "is it up, and not behind a "
                         "firewall?"));
    });
    resolver.async_resolve(
        address.host, std::to_string(address.port),
        [self = shared_from_this()](ErrorCode error, const tcp::resolver::results_type& found) {
          if (error)
            return self->end(no_way(self->address, "this name does not resolve", error.message()));
          if (self->done) self->connect(found);
        });
  }

  void connect(const tcp::resolver::results_type& found) {
    asio::async_connect(
        socket, found, [self = shared_from_this()](ErrorCode error, const tcp::endpoint&) {
          if (!self->done) return;
          if (error) return self->end(no_way(self->address, "cannot connect", error.message()));
          std::unique_ptr<Stream> stream = std::make_unique<TcpStream>(std::move(self->socket));
          self->end(std::move(stream));
        });
  }

  void end(Result<std::unique_ptr<Stream>> result) {
    if (!done) return;
    const auto then = std::exchange(done, nullptr);
    limit.cancel();
    resolver.cancel();
    ErrorCode ignored;
    socket.close(ignored);
    then(std::move(result));
  }

  Address address;
  tcp::resolver resolver;
  tcp::socket socket;
  asio::steady_timer limit;
  std::function<void(Result<std::unique_ptr<Stream>>)> done;  // empty: called
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

Result<Address> parse_address(std::string_view text) {
  const auto bad = [&] {
    return invalid(
        fmt::format("\"{}\" is no address: expected HOST:PORT, such as \"10.0.0.1:7000\" "
                    "or \"[::1]:7000\"",
                    text));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad();
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad();
  }
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (host.empty() || error != std::errc() || end != digits.data() + digits.size()) return bad();
  return Address{std::string(host), port};
}

std::string to_string(const Address& a) {
  return a.host.find(':') == std::string::npos ? fmt::format("{}:{}", a.host, a.port)
                                               : fmt::format("[{}]:{}", a.host, a.port);
}

Result<std::unique_ptr<Listener>> listen(Loop& loop, const Address& address,
                                         std::function<void(std::unique_ptr<Stream>)> accepted) {
  auto listener = std::make_unique<TcpListener>(loop, std::move(accepted));
  LH_TRY(listener->open(address));
  return std::unique_ptr<Listener>(std::move(listener));
}

Result<std::unique_ptr<Listener>> listen_on(Loop& loop, int descriptor,
                                            std::function<void(std::unique_ptr<Stream>)> accepted) {
  auto listener = std::make_unique<TcpListener>(loop, std::move(accepted));
  LH_TRY(listener->adopt(descriptor));
  return std::unique_ptr<Listener>(std::move(listener));
}

Result<ListeningSocket> open_listening_socket(const Address& address) {
  asio::io_context context;
  tcp::acceptor acceptor(context);
  LH_TRY(open_acceptor(acceptor, address));
  const std::uint16_t port = acceptor.local_endpoint().port();
  const int descriptor = acceptor.release();
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);  // for one process, not for every child
  return ListeningSocket{descriptor, port};
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
    state->stream.release();  // the descriptor stays its owner's
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

bool is_loopback(const Address& address) {
  if (address.host == "localhost") return true;
  ErrorCode error;
  const auto literal = asio::ip::make_address(address.host, error);
  return !error && literal.is_loopback();
}

void connect(Loop& loop, const Address& address, Time within,
             std::function<void(Result<std::unique_ptr<Stream>>)> done) {
  std::make_shared<Dial>(loop, address, std::move(done))->start(within);
}

}  // namespace longhaul::net
