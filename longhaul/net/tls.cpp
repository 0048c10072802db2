#include "longhaul/net/tls.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

namespace longhaul::net {
namespace {

constexpr std::size_t kTlsPiece = 64 * 1024, kPieceOfHandshake = 4096;

// Shared by the stream and its pending operations, which may outlive it.
struct TlsState : std::enable_shared_from_this<TlsState> {
  TlsState(Loop& l, std::unique_ptr<Stream> b, std::unique_ptr<secure::Session> s, TlsOptions o)
      : loop(l), below(std::move(b)), session(std::move(s)), options(std::move(o)) {}

  struct Read {
    std::span<std::byte> left;
    Stream::DoneSome done;
    bool some = false;  // ends with the first bytes
    std::size_t size = left.size();
  };
  struct Write {
    Stream::Parts left;
    Stream::Done done;
    bool is_taken() const {
      return std::all_of(left.begin(), left.end(), [](const auto part) { return part.empty(); });
    }
  };

  // Does all pending work; callbacks may call read(), write() and close().
  void work() {
    if (working) return;
    working = true;
    const auto self = shared_from_this();
    finish_write();
    if (!failure && shake_hands()) {
      deliver();
      encrypt();
    }
    flush();
    fetch();
    if (is_closed)
      report_soon();
    else if (failure && !flushing)
      report();
    working = false;
  }

  void work_soon() {
    if (std::exchange(scheduled, true)) return;
    loop.post([self = shared_from_this()] {
      self->scheduled = false;
      self->work();
    });
  }

  // Writes without calling callbacks: the caller may itself be in one.
  void write_now() {
    if (!session->is_established()) return work_soon();
    encrypt();
    flush();
    if (failure) work_soon();
  }

  bool shake_hands() {
    if (session->is_established()) return true;
    const auto done = session->handshake();
    if (done) return *done;
    fail(done.error());
    if (!has_received_tls && !session->has_dialled() && below->received() > 0)
      session->outgoing() = std::move(options.plain_refusal);
    return false;
  }

  // Serves reads of a callback in the loop: many small frames must not nest.
  void deliver() {
    while (read && !failure && !is_clogged()) {
      const auto count = session->read(read->left);
      if (!count) return fail(count.error());
      read->left = read->left.subspan(*count);
      const std::size_t filled = read->size - read->left.size();
      if (!read->left.empty() && !(read->some && filled > 0)) return;
      const auto done = std::move(std::exchange(read, std::nullopt)->done);
      done(filled);
    }
  }

  // Encrypts the bytes of one call to the layer below, so that the loop serves other streams in
  // between.
  void encrypt() {
    if (!write || failure || is_closed || flushing || is_clogged()) return;
    std::size_t room = kTlsPiece;
    for (auto& part : write->left) {
      const auto piece = part.first(std::min(part.size(), room));
      if (const Status written = session->write(piece); !written) return fail(written.error());
      part = part.subspan(piece.size());
      room -= piece.size();
    }
  }

  void finish_write() {
    if (!write || !write->is_taken() || failure || flushing || !session->outgoing().empty()) return;
    const auto done = std::move(std::exchange(write, std::nullopt)->done);
    done(Ok{});
  }

  void flush() {
    if (flushing || is_closed || session->outgoing().empty()) return;
    flushing = true;
    going = std::exchange(session->outgoing(), std::move(going));
    session->outgoing().clear();
    below->write({std::span<const std::byte>(going), {}, {}},
                 [self = shared_from_this()](const Status& status) { self->flushed(status); });
  }

  void flushed(const Status& status) {
    flushing = false;
    if (!status) {
      going.clear();
      // An alert from the peer before the end explains more than the end of the connection.
      if (fetching && !is_closed) {
        write_failure = status.error();
        return;
      }
      fail(status.error());
    }
    work();
  }

  void fetch() {
    const bool wants = read || !session->is_established();
    if (!wants || fetching || failure || is_closed || is_clogged() || !session->wants_bytes())
      return;
    fetching = true;
    const std::size_t size = session->is_established() ? kTlsPiece : kPieceOfHandshake;
    if (incoming.size() < size) incoming.resize(size);
    below->read_some(incoming, [self = shared_from_this()](const Result<std::size_t>& count) {
      self->fetched(count);
    });
  }

  void fetched(const Result<std::size_t>& count) {
    fetching = false;
    if (failure) return;  // later bytes are of no use
    if (count) {
      session->receive(std::span<const std::byte>(incoming).first(*count));
      has_received_tls = has_received_tls || incoming.front() == std::byte{0x16};
    } else {
      fail(write_failure && !session->is_established() ? *write_failure : described(count.error()));
    }
    work();
    // The peer has ended the connection without an alert.
    if (write_failure && !failure && !fetching) {
      fail(*write_failure);
      work();
    }
  }

  Error described(const Error& error) const {
    if (session->is_established()) return error;
    // A peer that has sent TLS bytes is only slow or gone, and so is a caller: one without TLS
    // would have sent other bytes.
    const bool may_lack_tls = session->has_dialled() && !has_received_tls;
    return {error.kind, error.what + " during the TLS handshake" +
                            (may_lack_tls ? "; start all sites alike: with --keys, or all with "
                                            "--insecure"
                                          : "")};
  }

  void fail(Error why) {
    if (!failure) failure = std::move(why);
  }

  // Reports the failure after the outgoing bytes, which may be an alert with the reason.
  void report() {
    const auto self = shared_from_this();
    if (auto one = std::exchange(read, std::nullopt)) one->done(*failure);
    if (auto one = std::exchange(write, std::nullopt)) one->done(*failure);
  }

  // The callbacks may own this stream: a stopped loop frees them.
  void report_soon() {
    if (!read && !write) return;
    loop.post(
        [waiting = std::pair(std::exchange(read, std::nullopt), std::exchange(write, std::nullopt)),
         why = *failure] {
          if (waiting.first) waiting.first->done(why);
          if (waiting.second) waiting.second->done(why);
        });
  }

  // Returns true if TLS answers wait for a peer that does not read. Then its bytes are not read
  // either.
  bool is_clogged() const { return session->outgoing().size() > kTlsPiece; }

  Loop& loop;
  std::unique_ptr<Stream> below;
  std::unique_ptr<secure::Session> session;
  TlsOptions options;
  Buffer incoming, going;  // bytes from and to the layer below
  std::optional<Read> read;
  std::optional<Write> write;
  std::optional<Error> failure, write_failure;
  bool working = false, scheduled = false, fetching = false, flushing = false;
  bool is_closed = false, has_received_tls = false;
};

class TlsStream final : public Stream {
 public:
  TlsStream(Loop& loop, std::unique_ptr<Stream> below, std::unique_ptr<secure::Session> session,
            TlsOptions options)
      : state_(std::make_shared<TlsState>(loop, std::move(below), std::move(session),
                                          std::move(options))) {}
  ~TlsStream() override { close(); }

  void read(std::span<std::byte> into, Done done) override {
    start({into, [done = std::move(done)](const Result<std::size_t>& count) {
             count ? done(Ok{}) : done(count.error());
           }});
  }
  void read_some(std::span<std::byte> into, DoneSome done) override {
    start({into, std::move(done), true});
  }
  void write(Parts parts, Done done) override {
    LH_CHECK(!state_->write);
    state_->write = {parts, std::move(done)};
    if (!state_->working) state_->write_now();
  }
  // After a failure, finish() lets the peer read the reason: an alert or a plain refusal.
  void close() override { end(state_->failure ? &Stream::finish : &Stream::close); }
  void finish() override { end(&Stream::finish); }
  std::uint64_t received() const override { return state_->below->received(); }
  std::uint64_t sent() const override { return state_->below->sent(); }
  bool closed_by_peer() const override { return state_->below->closed_by_peer(); }
  Status set_congestion(const std::string& name) override {
    return state_->below->set_congestion(name);
  }
  void set_dscp(unsigned dscp) override { state_->below->set_dscp(dscp); }
  void set_pacing(double most) override { state_->below->set_pacing(most); }
  int descriptor() const override { return state_->below->descriptor(); }
  std::string peer() const override { return state_->below->peer(); }
  const secure::Session* security() const override { return state_->session.get(); }

 private:
  void end(void (Stream::*how)()) {
    if (std::exchange(state_->is_closed, true)) return;
    ((*state_->below).*how)();
    state_->fail(unavailable("closed"));
    if (!state_->working) state_->report_soon();
  }
  void start(TlsState::Read read) {
    LH_CHECK(!state_->read);
    state_->read = std::move(read);
    if (!state_->working) state_->work_soon();
  }

  std::shared_ptr<TlsState> state_;
};

}  // namespace

std::unique_ptr<Stream> make_tls_stream(Loop& loop, std::unique_ptr<Stream> below,
                                        std::unique_ptr<secure::Session> session,
                                        TlsOptions options) {
  return std::make_unique<TlsStream>(loop, std::move(below), std::move(session),
                                     std::move(options));
}

}  // namespace longhaul::net
