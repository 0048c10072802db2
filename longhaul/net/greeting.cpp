#include "longhaul/net/greeting.h"

namespace longhaul::net {

void Greeting::begin(std::unique_ptr<Stream> stream, std::optional<Rank> dialled,
                     const Host& host) {
  const std::shared_ptr<Greeting> self(new Greeting(dialled, host));
  // Nothing but a hello comes here: no stranger makes us keep more.
  self->connection_ =
      Connection::make(std::move(stream), *self, {.head_bytes = 4096, .body_bytes = 0});
  host.loop.at(host.loop.now() + kPatience, [self] {
    if (self->connection_)
      self->connection_->end({Error::Kind::timed_out, "no hello came within 5 s"});
  });
  if (dialled) self->out_ = hello_frame(host.identity, host.link(*dialled)->have());
  self->connection_->start();
  if (self->connection_) self->connection_->wake();
}

void Greeting::on_frame(Connection& connection, Frame&& frame) {
  const auto self = shared_from_this();
  if (refused_) return;
  if (frame.header.type == FrameHeader::Type::refusal) {
    by_peer_ = true;
    return connection.end(unavailable("it refuses this node: " + read_refusal(frame)));
  }
  const auto hello = read_hello(frame, host_.identity);
  if (!hello) return refuse(hello.error());
  if (dialled_ && hello->rank != *dialled_)
    return refuse(malformed("another node of the job is at this address; see [[site]] address"));
  if (const Status good = welcome(*hello); !good) refuse(good.error());
}

Status Greeting::welcome(const Hello& hello) {
  Link& link = *host_.link(hello.rank);
  LH_TRY(link.fits(hello));
  if (!dialled_) {  // our hello goes before whatever the link has to say
    out_ = hello_frame(host_.identity, link.have());
    connection_->wake();
  }
  connection_->expect({});
  LH_TRY(link.attach(connection_, hello, host_.loop.now()));
  connection_.reset();
  host_.connected(hello.rank);
  return Ok{};
}

void Greeting::refuse(const Error& why) {
  refused_ = why;
  out_ = refusal_frame(why.what);
  connection_->wake();
}

void Greeting::on_written(Connection& connection, const Frame& frame) {
  if (frame.header.type == FrameHeader::Type::refusal) connection.end(*refused_);
}

void Greeting::on_end(Connection& connection, const Error& why) {
  const auto self = shared_from_this();
  connection_.reset();
  host_.failed(dialled_, by_peer_,
               {why.kind, connection.stream().peer() + ": " + (refused_ ? *refused_ : why).what});
}

}  // namespace longhaul::net
