#pragma once
// Reads and writes frames over one Stream. It reads and checks one frame at a time and passes it to
// the owner. It requests one frame at a time to write from the owner, so that a frame of a higher
// class waits for one chunk at most.
//
// A connection ends once: when the stream breaks, the peer sends an invalid frame, or end() is
// called. It then closes the stream and calls Owner::on_end() with the reason.
// Threads: the loop's. Memory: one frame each way, the stream's read-ahead, kIdleBodies buffers.
#include <memory>
#include <optional>

#include "longhaul/net/buffer_pool.h"
#include "longhaul/net/frame.h"
#include "longhaul/net/stream.h"

namespace longhaul::net {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  static constexpr std::size_t kIdleBodies = 4;  // two being read, two being processed
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void on_frame(Connection&, Frame&&) = 0;
    virtual std::optional<Frame> to_write(Connection&) = 0;
    virtual void on_written(Connection&, const Frame&) = 0;
    virtual void on_end(Connection&, const Error& why) = 0;
  };
  // The owner outlives the connection, or calls detach().
  static std::shared_ptr<Connection> make(std::unique_ptr<Stream> stream, Owner& owner,
                                          FrameLimits limits = {}) {
    return std::shared_ptr<Connection>(new Connection(std::move(stream), owner, limits));
  }

  void start() { read_next(); }

  // asks the owner for a frame to write, unless one is being written
  void wake() {
    if (out_ || ended_ || !owner_) return;
    out_ = owner_->to_write(*this);
    if (!out_) return;
    out_header_ = seal(*out_);
    stream_->write({out_header_, out_->head.view(), out_->body.view()}, then(&Connection::written));
  }

  // Reads no further frame until resume(); one being read is still delivered.
  void pause() { paused_ = true; }
  bool paused() const { return paused_; }
  void resume() {
    paused_ = false;
    if (waiting_ && !ended_) read_next();
  }

  void end(Error why) { end(std::move(why), &Stream::close); }

  // the peer gets the rest of the written bytes
  void end_after_last_words(Error why) { end(std::move(why), &Stream::finish); }

  // Releases the stream for other uses, between two frames. The connection must be paused with
  // nothing to write. It ends without a call to the owner.
  std::unique_ptr<Stream> release() {
    LH_CHECK(paused_ && !out_ && !ended_);
    ended_ = true;
    owner_ = nullptr;
    return std::move(stream_);
  }

  bool writing() const { return out_.has_value(); }
  void set_owner(Owner& owner) { owner_ = &owner; }
  void set_limits(FrameLimits limits) { limits_ = limits; }  // from the next frame on
  void detach() { owner_ = nullptr; }                        // no further calls to the owner

  bool ended() const { return ended_; }
  const Stream& stream() const { return *stream_; }
  void set_dscp(unsigned dscp) { stream_->set_dscp(dscp); }
  void set_pacing(double most) { stream_->set_pacing(most); }

 private:
  Connection(std::unique_ptr<Stream> stream, Owner& owner, FrameLimits limits)
      : stream_(std::move(stream)), owner_(&owner), limits_(limits) {}
  void read_header() { stream_->read(header_bytes_, then(&Connection::read_head)); }

  void read_head() {
    const auto header = decode_header(header_bytes_, limits_);
    if (!header) return end(header.error());
    header_ = *header;
    head_.resize(header_.head_bytes);
    if (head_.empty()) return read_body();
    stream_->read(head_, then(&Connection::read_body));
  }

  void read_body() {
    if (header_.body_bytes == 0) return take_frame();
    body_ = bodies_->take(header_.body_bytes);
    stream_->read(body_, then(&Connection::take_frame));
  }

  void take_frame() {
    if (const Status good = check(header_, head_, body_); !good) return end(good.error());
    Frame frame{header_, {}, {}};
    if (!head_.empty()) frame.head = Payload(share(std::exchange(head_, {})));
    if (!body_.empty()) frame.body = Payload(bodies_->share(std::exchange(body_, {})));
    const auto self = shared_from_this();
    if (owner_) owner_->on_frame(*this, std::move(frame));
    if (!ended_) read_next();
  }

  void read_next() {
    waiting_ = paused_;
    if (!paused_) read_header();
  }

  // The callback of a read or write: ends the connection on an Error, else calls `next`.
  Stream::Done then(void (Connection::*next)()) {
    return [self = shared_from_this(), next](const Status& status) {
      if (self->ended_) return;
      if (!status) return self->end(status.error());
      ((*self).*next)();
    };
  }

  void end(Error why, void (Stream::*how)()) {
    if (std::exchange(ended_, true)) return;
    const auto self = shared_from_this();
    ((*stream_).*how)();
    if (Owner* owner = std::exchange(owner_, nullptr)) owner->on_end(*this, why);
  }

  void written() {
    const Frame frame = *std::exchange(out_, std::nullopt);
    if (owner_) owner_->on_written(*this, frame);
    wake();
  }

  std::unique_ptr<Stream> stream_;
  Owner* owner_;
  FrameLimits limits_;
  HeaderBytes header_bytes_{};
  FrameHeader header_;
  Buffer head_, body_;
  std::shared_ptr<BufferPool> bodies_ = BufferPool::make(kIdleBodies);
  HeaderBytes out_header_{};
  std::optional<Frame> out_;               // being written
  bool paused_ = false, waiting_ = false;  // waiting: for resume()
  bool ended_ = false;
};

}  // namespace longhaul::net
