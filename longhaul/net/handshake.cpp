#include "longhaul/net/handshake.h"

#include <algorithm>

#include <fmt/format.h>

#include "longhaul/secure/session.h"

namespace longhaul::net {
namespace {

// A hello of this release that cannot be accepted; of a member that runs another job, or has other
// inputs: which.
Refusal refusal_of(const Hello& hello, const Error& why, const Identity& me) {
  Refusal refusal{.reason = why.what};
  if (hello.job_hash != me.job_hash) {
    JobKey differs = first_difference(hello, me);
    return {why.what, RefusalKind::unfit, std::move(differs.name), std::move(differs.value)};
  }
  if (const SharedInput* const other = other_input(hello, me))
    return {why.what, RefusalKind::unfit, other->part, other->text};
  return refusal;
}

bool is_of_member(const Hello& hello, const Identity& me) {
  return hello.rank < me.members->size() && hello.rank != me.self &&
         hello.site == me.members->at(hello.rank).site;
}

}  // namespace

Handshake::~Handshake() {
  if (!connection_) return;
  connection_->detach();
  connection_->end(unavailable("this node has ended"));
}

void Handshake::start(std::unique_ptr<Stream> stream) {
  const auto self = shared_from_this();
  // Nothing but a hello comes here: no stranger makes us keep more.
  const bool introduces = !host_.identity().words.empty();
  connection_ = Connection::make(
      std::move(stream), *this,
      {.head_bytes = kMaxHelloBytes, .body_bytes = introduces ? kMaxIntroductionBytes : 0});
  if (dialled_)
    wait_for_hello(dialled_->patience);
  else
    timeout_ = host_.loop().at(host_.loop().now() + kFirstWord, [this] {
      if (is_silent()) return end_late(kFirstWord);
      wait_for_hello(kTimeout - kFirstWord);
    });
  if (dialled_ && dialled_->relay)
    out_ = hello_frame(host_.identity(), dialled_->stream, {}, {}, dialled_->peer);
  else if (dialled_)
    out_ =
        hello_frame(host_.identity(), dialled_->stream, host_.link(dialled_->peer).checkpointed(),
                    host_.link(dialled_->peer).have());
  connection_->start();
  if (connection_) connection_->wake();
}

void Handshake::wait_for_hello(Time patience) {
  timeout_ = host_.loop().at(host_.loop().now() + patience,
                             [this] { end_late(dialled_ ? dialled_->patience : kTimeout); });
}

void Handshake::end_late(Time patience) {
  if (const auto connection = connection_)
    connection->end(
        {Error::Kind::timed_out,
         fmt::format("{} within {:g} s",
                     dialled_ && dialled_->relay ? "it has not called there" : "no hello came",
                     seconds(patience))});
}

// Under TLS an answer shows that the first message is complete.
bool Handshake::is_silent() const {
  if (!connection_) return false;
  const Stream& stream = connection_->stream();
  return (stream.security() != nullptr ? stream.sent() : stream.received()) == 0;
}

Caller Handshake::caller() const {
  Caller caller = caller_;
  caller.is_silent = is_silent();
  return caller;
}

void Handshake::make_room() {
  if (const auto connection = connection_)
    connection->end(
        unavailable("it makes room for another caller: too many others have not said "
                    "hello yet"));
}

void Handshake::on_frame(Connection& connection, Frame&& frame) {
  const auto self = shared_from_this();
  if (refused_) return;
  if (frame.header.type == FrameHeader::Type::refusal) {
    if (!dialled_ && !asked_)
      return connection.end(malformed("it refuses a node that has not said hello"));
    const Refusal refusal = parse_refusal(frame);
    by_peer_ = refusal.kind;
    const Rank by = dialled_ ? dialled_->addressee() : asked_->rank;
    const std::string text = text_of(refusal, host_.identity(), by);
    if (is_of_all(refusal.kind)) last_word_ = text;
    return connection.end(unavailable("it refuses this node: " + text));
  }
  if (asked_) {
    host_.on_known(*asked_);
    return connection.end(unavailable("this node was not sure to be in the run; it dials again"));
  }
  const secure::Session* const proved = connection.stream().security();
  const auto hello = read_hello(frame, host_.identity());
  if (!hello) {
    const auto said = from_wire<Hello>(frame.head.view());
    if (!said || frame.header.kind != kVersion) return refuse({.reason = hello.error().what});
    Refusal refusal = refusal_of(*said, hello.error(), host_.identity());
    const bool is_proved = proved == nullptr || proved->peer_is(said->site);
    if (is_of_all(refusal.kind) && is_proved && is_of_member(*said, host_.identity()))
      differs_ = said->rank;
    return refuse(std::move(refusal));
  }
  if (proved != nullptr && !proved->peer_is(hello->site))
    return refuse({.reason = fmt::format("it says that it is site {}, and its certificate is not",
                                         hello->site)});
  if (dialled_ && (hello->rank != dialled_->addressee() || hello->stream != dialled_->stream))
    return refuse({.reason = "another node of the job is at this address; see [[site]] address"});
  if (dialled_ && dialled_->relay) return take_relay_answer(*hello);
  if (!hello->relay_to.empty()) return relay(*hello);
  if (auto refusal = accept_hello(*hello, frame)) refuse(*std::move(refusal));
}

// This node is the relay.
void Handshake::relay(const Hello& hello) {
  if (auto refusal = host_.refuses_relay(hello)) return refuse(*std::move(refusal));
  timeout_ = {};
  connection_->pause();
  host_.on_relay_wanted(*this, hello, std::exchange(connection_, nullptr));
}

// It was dialled.
void Handshake::take_relay_answer(const Hello& hello) {
  const Rank self = host_.identity().self;
  if (hello.relay_to != std::vector{self} && hello.relay_to != std::vector{dialled_->peer})
    return refuse({.reason = "it answers, and relays nothing"});
  connection_->pause();
  inner_ = hello.relay_to.front();
  if (!connection_->writing()) pass_on();
}

void Handshake::pass_on() {
  timeout_ = {};
  const auto connection = std::exchange(connection_, nullptr);
  host_.on_relayed(*this, connection->release(), *inner_ == host_.identity().self);
}

std::optional<Refusal> Handshake::accept_hello(const Hello& hello, const Frame& frame) {
  if (host_.must_ask(hello)) {
    asked_ = hello;
    if (!dialled_) out_ = hello_frame(host_.identity(), hello.stream, {}, {});
    connection_->wake();
    return std::nullopt;
  }
  auto said = read_introductions(frame, hello, host_.identity());
  if (!said) return Refusal{.reason = said.error().what};
  if (auto refusal = host_.accepts(hello, !dialled_)) return refusal;
  Link& link = host_.link(hello.rank);  // accepts() may have replaced it
  if (const Status good = link.check_hello(hello); !good)
    return Refusal{.reason = good.error().what};
  if (!link.can_attach(hello))
    return Refusal{"this node is taking a checkpoint; the next call will do", RefusalKind::later};
  if (!dialled_) {  // our hello goes before whatever the link has to say
    out_ = hello_frame(host_.identity(), hello.stream, link.checkpointed(), link.have());
    connection_->wake();
  }
  connection_->set_limits({});
  if (const Status attached = link.attach(connection_, hello, host_.loop().now()); !attached)
    return Refusal{.reason = attached.error().what};
  connection_.reset();
  timeout_ = {};
  host_.on_introduced(*std::move(said));
  host_.on_handshake_done(*this, hello.rank, hello.stream);
  return std::nullopt;
}

void Handshake::refuse(Refusal why) {
  refused_ = std::move(why);
  out_ = refusal_frame(*refused_);
  connection_->wake();
}

void Handshake::on_written(Connection& connection, const Frame& frame) {
  const auto self = shared_from_this();
  if (frame.header.type == FrameHeader::Type::refusal)
    connection.end_after_last_words(malformed(refused_->reason));
  if (inner_ && connection_) pass_on();
}

void Handshake::on_end(Connection& connection, const Error& why) {
  const auto self = shared_from_this();
  connection_.reset();
  timeout_ = {};
  host_.on_handshake_failed(
      *this, by_peer_,
      {why.kind, connection.stream().peer() + ": " + (refused_ ? refused_->reason : why.what)});
}

}  // namespace longhaul::net
