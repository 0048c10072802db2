#include "longhaul/net/handshake.h"

#include <fmt/format.h>

#include "longhaul/secure/session.h"

namespace longhaul::net {

Handshake::~Handshake() {
  if (!connection_) return;
  connection_->detach();
  connection_->end(unavailable("this node has ended"));
}

void Handshake::start(std::unique_ptr<Stream> stream) {
  const auto self = shared_from_this();
  // Nothing but a hello comes here: no stranger makes us keep more.
  connection_ = Connection::make(std::move(stream), *this, {.head_bytes = 4096, .body_bytes = 0});
  timeout_ = host_.loop().at(host_.loop().now() + kTimeout, [this] {
    if (const auto connection = connection_)
      connection->end({Error::Kind::timed_out, "no hello came within 5 s"});
  });
  if (dialled_)
    out_ =
        hello_frame(host_.identity(), dialled_->stream, host_.link(dialled_->peer).checkpointed(),
                    host_.link(dialled_->peer).have());
  connection_->start();
  if (connection_) connection_->wake();
}

void Handshake::on_frame(Connection& connection, Frame&& frame) {
  const auto self = shared_from_this();
  if (refused_) return;
  if (frame.header.type == FrameHeader::Type::refusal) {
    by_peer_ = true;
    return connection.end(unavailable("it refuses this node: " + read_refusal(frame)));
  }
  const auto hello = read_hello(frame, host_.identity());
  if (!hello) return refuse(hello.error());
  const secure::Session* const proved = connection.stream().security();
  if (proved != nullptr && !proved->peer_is(hello->site))
    return refuse(malformed(
        fmt::format("it says that it is site {}, and its certificate is not", hello->site)));
  if (dialled_ && (hello->rank != dialled_->peer || hello->stream != dialled_->stream))
    return refuse(malformed("another node of the job is at this address; see [[site]] address"));
  if (const Status good = accept_hello(*hello); !good) refuse(good.error());
}

Status Handshake::accept_hello(const Hello& hello) {
  const auto later = [connection = connection_](const char* why) -> Status {
    connection->end(unavailable(why));
    return Ok{};
  };
  const auto met = host_.accepts(hello);
  if (!met) return met.error();
  if (!*met) return later("its previous process is not declared lost yet; it may dial again");
  Link& link = host_.link(hello.rank);
  LH_TRY(link.check_hello(hello));
  if (!link.can_attach(hello))
    return later("this node is taking a checkpoint; the next call will do");
  if (!dialled_) {  // our hello goes before whatever the link has to say
    out_ = hello_frame(host_.identity(), hello.stream, link.checkpointed(), link.have());
    connection_->wake();
  }
  connection_->set_limits({});
  LH_TRY(link.attach(connection_, hello, host_.loop().now()));
  connection_.reset();
  timeout_ = {};
  host_.on_handshake_done(*this, hello.rank, hello.stream);
  return Ok{};
}

void Handshake::refuse(const Error& why) {
  refused_ = why;
  out_ = refusal_frame(why.what);
  connection_->wake();
}

void Handshake::on_written(Connection& connection, const Frame& frame) {
  if (frame.header.type == FrameHeader::Type::refusal) connection.end(*refused_);
}

void Handshake::on_end(Connection& connection, const Error& why) {
  const auto self = shared_from_this();
  connection_.reset();
  timeout_ = {};
  host_.on_handshake_failed(
      *this, by_peer_,
      {why.kind, connection.stream().peer() + ": " + (refused_ ? *refused_ : why).what});
}

}  // namespace longhaul::net
