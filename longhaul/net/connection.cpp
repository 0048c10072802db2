#include "longhaul/net/connection.h"

namespace longhaul::net {

Connection::Connection(std::unique_ptr<Stream> stream, Owner& owner, FrameLimits limits)
    : stream_(std::move(stream)), owner_(&owner), limits_(limits) {}

std::shared_ptr<Connection> Connection::make(std::unique_ptr<Stream> stream, Owner& owner,
                                             FrameLimits limits) {
  return std::shared_ptr<Connection>(new Connection(std::move(stream), owner, limits));
}

void Connection::start() { read_next(); }

void Connection::read_next() {
  waiting_ = paused_;
  if (!paused_) read_header();
}

void Connection::resume() {
  paused_ = false;
  if (waiting_ && !ended_) read_next();
}

Stream::Done Connection::then(void (Connection::*next)()) {
  return [self = shared_from_this(), next](const Status& status) {
    if (self->ended_) return;
    if (!status) return self->end(status.error());
    ((*self).*next)();
  };
}

void Connection::read_header() { stream_->read(header_bytes_, then(&Connection::read_head)); }

void Connection::read_head() {
  const auto header = decode_header(header_bytes_, limits_);
  if (!header) return end(header.error());
  header_ = *header;
  head_.resize(header_.head_bytes);
  if (head_.empty()) return read_body();
  stream_->read(head_, then(&Connection::read_body));
}

void Connection::read_body() {
  if (header_.body_bytes == 0) return take_frame();
  body_ = bodies_->take(header_.body_bytes);
  stream_->read(body_, then(&Connection::take_frame));
}

void Connection::take_frame() {
  if (const Status good = check(header_, head_, body_); !good) return end(good.error());
  Frame frame{header_, {}, {}};
  if (!head_.empty()) frame.head = Payload(share(std::exchange(head_, {})));
  if (!body_.empty()) frame.body = Payload(bodies_->share(std::exchange(body_, {})));
  const auto self = shared_from_this();
  if (owner_) owner_->on_frame(*this, std::move(frame));
  if (!ended_) read_next();
}

void Connection::wake() {
  if (out_ || ended_ || !owner_) return;
  out_ = owner_->to_write(*this);
  if (!out_) return;
  out_header_ = seal(*out_);
  stream_->write({out_header_, out_->head.view(), out_->body.view()}, then(&Connection::written));
}

void Connection::written() {
  const Frame frame = *std::exchange(out_, std::nullopt);
  if (owner_) owner_->on_written(*this, frame);
  wake();
}

std::unique_ptr<Stream> Connection::release() {
  LH_CHECK(paused_ && !out_ && !ended_);
  ended_ = true;
  owner_ = nullptr;
  return std::move(stream_);
}

void Connection::end(Error why) { end(std::move(why), &Stream::close); }
void Connection::end_after_last_words(Error why) { end(std::move(why), &Stream::finish); }

void Connection::end(Error why, void (Stream::*how)()) {
  if (std::exchange(ended_, true)) return;
  const auto self = shared_from_this();
  ((*stream_).*how)();
  if (Owner* owner = std::exchange(owner_, nullptr)) owner->on_end(*this, why);
}

}  // namespace longhaul::net
