#pragma once
// Frames over one Stream: read, checked and handed up one by one; asked for and written one by one,
// so that a frame of a higher class waits for one chunk at most.
//
// Ends once, with the reason, when the stream breaks, the peer sends what is no frame, or end() is
// called; then the stream is closed and the owner told, from the loop.
// Memory: one frame each way, what the stream reads ahead, and kIdleBodies that were read before.
#include <memory>
#include <optional>

#include "longhaul/net/buffer_pool.h"
#include "longhaul/net/frame.h"
#include "longhaul/net/stream.h"

namespace longhaul::net {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  static constexpr std::size_t kIdleBodies = 4;  // two are under way, and two looked at
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void on_frame(Connection&, Frame&&) = 0;
    virtual std::optional<Frame> to_write(Connection&) = 0;
    virtual void on_written(Connection&, const Frame&) = 0;
    virtual void on_end(Connection&, const Error& why) = 0;
  };
  // The owner outlives the connection, or calls leave().
  static std::shared_ptr<Connection> make(std::unique_ptr<Stream>, Owner&, FrameLimits = {});

  void start();
  void wake();  // to_write() has something, perhaps
  // No frame is read before resume(), but for one under way: what the peer sends waits with it.
  void pause() { paused_ = true; }
  bool paused() const { return paused_; }
  void resume();
  void end(Error why);
  void set_owner(Owner& owner) { owner_ = &owner; }
  void set_limits(FrameLimits limits) { limits_ = limits; }  // from the next frame on
  void detach() { owner_ = nullptr; }                        // nobody is told anything any more

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
  // The callback of a step: ends the connection on an Error, goes on otherwise.
  Stream::Done then(void (Connection::*next)());
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
