#pragma once
// Reads and writes frames over one Stream. It reads and checks one frame at a time and passes it to
// the owner; it asks the owner for one frame at a time to write, so that a frame of a higher class
// waits for one chunk at most.
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
  static std::shared_ptr<Connection> make(std::unique_ptr<Stream>, Owner&, FrameLimits = {});

  void start();
  void wake();  // asks the owner for a frame to write, unless one is being written
  // Reads no further frame until resume(); one being read is still delivered.
  void pause() { paused_ = true; }
  bool paused() const { return paused_; }
  void resume();
  void end(Error why);
  void end_after_last_words(Error why);  // the peer gets the rest of the written bytes
  // Its stream, for other uses, between a frame and the next, at most while paused, and with
  // nothing to write. It has ended without a call to the owner.
  std::unique_ptr<Stream> release();
  bool writing() const { return out_.has_value(); }
  void set_owner(Owner& owner) { owner_ = &owner; }
  void set_limits(FrameLimits limits) { limits_ = limits; }  // from the next frame on
  void detach() { owner_ = nullptr; }                        // no further calls to the owner

  bool ended() const { return ended_; }
  const Stream& stream() const { return *stream_; }
  void set_dscp(unsigned dscp) { stream_->set_dscp(dscp); }

 private:
  Connection(std::unique_ptr<Stream>, Owner&, FrameLimits);
  void read_header();
  void read_head();
  void read_body();
  void take_frame();
  void read_next();
  // The callback of a read or write: ends the connection on an Error, else calls `next`.
  Stream::Done then(void (Connection::*next)());
  void end(Error why, void (Stream::*how)());
  void written();

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
