#pragma once
// Messages over a connection: a head of 12 bytes (magic, version, kind, size), then the message.
// A wait lasts to its Deadline and blocks its thread. Used by one thread at a time. Every Error
// names the peer and the expected message.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <functional>
#include <span>

#include <fmt/format.h>

#include "longhaul/base/wire.h"
#include "longhaul/doctor/messages.h"
#include "longhaul/net/tls.h"

namespace longhaul::doctor {

using Clock = std::chrono::steady_clock;
using Stop = std::function<bool()>;  // asked from any thread, several times a second

// The end of a wait: a time, or a stop request.
struct Deadline {
  Clock::time_point end;
  Stop stop;

  static Deadline within(Time time, Stop stop) { return {Clock::now() + time, std::move(stop)}; }
  // The same with an earlier end.
  Deadline at_most(Time time) const { return {std::min(end, Clock::now() + time), stop}; }
  bool stopped() const { return stop && stop(); }
};

inline constexpr std::uint32_t kMagic = 0x5244484c;      // "LHDR" on the wire
inline constexpr std::uint32_t kMaxMessage = 64 * 1024;  // also of bulk
inline constexpr std::size_t kHead = 12;

struct Head {
  Kind kind = Kind::bye;
  std::uint32_t size = 0;  // bytes of the message
};
inline std::array<std::byte, kHead> encode(const Head& head) {
  ByteWriter writer;
  writer.put(kMagic);
  writer.put(kVersion);
  writer.put(head.kind);
  writer.put(head.size);
  const Buffer bytes = writer.take();
  std::array<std::byte, kHead> out;
  LH_CHECK(bytes.size() == out.size());
  std::copy(bytes.begin(), bytes.end(), out.begin());
  return out;
}

// Errors: not a longhaul message, another version, an unknown kind, or too long.
inline Result<Head> decode(std::span<const std::byte, kHead> bytes) {
  ByteReader reader(bytes);
  std::uint32_t magic = 0;
  std::uint16_t version = 0, kind = 0;
  Head head;
  reader.get({}, magic);
  reader.get({}, version);
  reader.get({}, kind);
  reader.get({}, head.size);
  LH_CHECK(!reader.failed());
  if (magic != kMagic)
    return malformed(
        "it does not speak as longhaul doctor does: a training run or another program has this "
        "port; say there: longhaul doctor JOB --site NAME");
  if (version != kVersion)
    return malformed(fmt::format(
        "it speaks version {} of the doctor's protocol, this site version {}; install the same "
        "release on all sites",
        version, kVersion));
  if (kind < std::uint16_t(Kind::hello) || kind > std::uint16_t(Kind::last))
    return malformed(fmt::format("message of unknown kind {}", kind));
  if (head.size > kMaxMessage)
    return malformed(
        fmt::format("message of {} bytes; at most {} are taken", head.size, kMaxMessage));
  head.kind = Kind(kind);
  return head;
}

inline std::string_view name_of(Kind kind) {
  static constexpr std::string_view kNames[] = {
      "hello", "refusal",  "facts",    "ping",  "pong",  "count",  "counted", "upload",
      "bulk",  "bulk_end", "received", "fetch", "probe", "result", "bye"};
  return kNames[std::size_t(kind) - 1];
}

class Channel {
 public:
  // Tries every address of the name, each for its share of the time.
  static Result<Channel> dial(const net::Address& address, std::string peer,
                              const Deadline& deadline) {
    Channel made(std::move(peer));
    using Dialled = std::unique_ptr<net::Stream>;
    const Deadline after{deadline.end + kSlice, deadline.stop};  // connect() says why it failed
    LH_LET(stream, made.wait<Dialled>(after, [&](std::function<void(Result<Dialled>)> done) {
      net::connect(*made.loop_, address, deadline.end - Clock::now(), std::move(done));
    }));
    made.own(std::move(stream));
    return made;
  }
  // Takes over the descriptor of an accepted connection.
  explicit Channel(int descriptor, std::string peer = {}) : Channel(std::move(peer)) {
    own(net::adopt(*loop_, descriptor));
    if (peer_.empty()) peer_ = stream_->peer();
  }
  Channel(Channel&&) = default;
  Channel& operator=(Channel&& other) {
    std::swap(loop_, other.loop_);
    std::swap(stream_, other.stream_);
    std::swap(peer_, other.peer_);
    return *this;
  }

  // From now on all bytes go under TLS; the first message says whether the peer is taken.
  void start_tls(std::unique_ptr<secure::Session> session) {
    stream_ = net::make_tls_stream(*loop_, std::move(stream_), std::move(session));
  }

  template <Fielded T>
  Status send(Kind kind, const T& message, const Deadline& deadline) {
    const Buffer body = to_wire(message);
    LH_CHECK(body.size() <= kMaxMessage);
    const auto head = encode({kind, std::uint32_t(body.size())});
    const Status sent = write({head, body, {}}, deadline);
    if (sent) return Ok{};
    return Error{sent.error().kind,
                 fmt::format("{}: sending {}: {}", peer_, name_of(kind), sent.error().what)};
  }
  // The next message, which must be of this kind. A refusal is an Error with the peer's reason.
  template <Fielded T>
  Result<T> receive(Kind kind, const Deadline& deadline) {
    const auto any = receive_any(deadline);
    if (!any)
      return Error{any.error().kind,
                   fmt::format("{}: waiting for {}: {}", peer_, name_of(kind), any.error().what)};
    if (any->kind == Kind::refusal) {
      const auto reason = from_wire<Text>(any->body);
      return malformed(fmt::format("{} refuses: {}", peer_,
                                   reason ? ascii(reason->text) : "without a readable reason"));
    }
    if (any->kind != kind)
      return malformed(
          fmt::format("{}: expected {}, but {} came", peer_, name_of(kind), name_of(any->kind)));
    return read<T>(kind, any->body);
  }
  struct Any {
    Kind kind = Kind::bye;
    Buffer body;
  };
  Result<Any> receive_any(const Deadline& deadline) {
    LH_LET(head, receive_head(deadline));
    Any any{head.kind, Buffer(head.size)};
    for (std::span<std::byte> left = any.body; !left.empty();) {
      LH_LET(count, read_some(left, deadline));
      left = left.subspan(count);
    }
    return any;
  }
  template <Fielded T>
  Result<T> read(Kind kind, const Buffer& body) const {
    auto message = from_wire<T>(body);
    if (!message) return wrong(kind, message.error().what);
    return message;
  }
  // An Error that names the peer and the kind of message.
  Error wrong(Kind kind, const std::string& what) const {
    return malformed(fmt::format("{}: {}: {}", peer_, name_of(kind), what));
  }

  Result<Head> receive_head(const Deadline& deadline) {
    std::array<std::byte, kHead> bytes;
    LH_TRY(
        wait<Ok>(deadline, [&](net::Stream::Done done) { stream_->read(bytes, std::move(done)); }));
    return decode(bytes);
  }
  // Reads at least one byte.
  Result<std::size_t> read_some(std::span<std::byte> into, const Deadline& deadline) {
    return wait<std::size_t>(
        deadline, [&](net::Stream::DoneSome done) { stream_->read_some(into, std::move(done)); });
  }
  Status write(net::Stream::Parts parts, const Deadline& deadline) {
    return wait<Ok>(deadline,
                    [&](net::Stream::Done done) { stream_->write(parts, std::move(done)); });
  }
  // Nothing more is written, and the peer has a second to read what was.
  void finish() {
    stream_->finish();
    (void)loop_->run_until(loop_->now() + std::chrono::seconds(1),
                           [&] { return stream_->closed_by_peer(); });
  }

  net::Loop& loop() const { return *loop_; }
  net::Stream& stream() const { return *stream_; }
  const std::string& peer() const { return peer_; }
  void rename(std::string peer) { peer_ = std::move(peer); }

 private:
  static constexpr Time kSlice = std::chrono::milliseconds(100);  // between looks for a stop

  explicit Channel(std::string peer)
      : loop_(std::make_unique<net::Loop>()), peer_(std::move(peer)) {}

  // A machine without power sends nothing: keep-alive probes end the wait after half a minute.
  void own(std::unique_ptr<net::Stream> stream) {
    stream_ = std::move(stream);
    const int at = stream_->descriptor(), on = 1, idle_s = 10, between_s = 5, probes = 4;
    setsockopt(at, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(at, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(at, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
    setsockopt(at, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  }

  // Starts an operation of the stream and waits for its end. One that does not end in time breaks
  // the connection.
  template <class T, class Start>
  Result<T> wait(const Deadline& deadline, Start&& start) {
    const auto end = std::make_shared<std::optional<Result<T>>>();
    start([end](auto&& result) { end->emplace(std::forward<decltype(result)>(result)); });
    const auto ended = [&] { return end->has_value(); };
    const auto run = [&](Time time) { return loop_->run_until(loop_->now() + time, ended); };
    for (Time left{0}; left = deadline.end - Clock::now(), !run(std::min(left, kSlice));) {
      const bool stopped = deadline.stopped();
      if (!stopped && left > kSlice) continue;
      if (stream_) stream_->close();
      (void)run(kSlice);
      return stopped ? unavailable("stopped")
                     : Error{Error::Kind::timed_out, "nothing came in time"};
    }
    return std::move(**end);
  }

  std::unique_ptr<net::Loop> loop_;  // outlives the stream
  std::unique_ptr<net::Stream> stream_;
  std::string peer_;
};

}  // namespace longhaul::doctor
