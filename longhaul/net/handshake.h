#pragma once
// A connection until both sides have exchanged hellos; the dialling side sends first. An unfit peer
// gets a refusal with the reason. A silent caller is disconnected after kFirstWord, and a peer
// without a hello after kTimeout, TLS included. Under TLS a hello's site must be one of the peer's
// certificate. One thread: the loop's.
#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "longhaul/net/callers.h"
#include "longhaul/net/connection.h"
#include "longhaul/net/hello.h"
#include "longhaul/net/link.h"
#include "longhaul/net/tcp.h"
#include "longhaul/secure/session.h"

namespace longhaul::net {

class Handshake final : public Connection::Owner, public std::enable_shared_from_this<Handshake> {
  // Returns the refusal of an unacceptable hello of this release. For a member with another job or
  // other inputs, the refusal contains the difference.
  static Refusal refusal_of(const Hello& hello, const Error& why, const Identity& me) {
    Refusal refusal{.reason = why.what};
    if (hello.job_hash != me.job_hash) {
      JobKey differs = first_difference(hello, me);
      return {why.what, RefusalKind::unfit, std::move(differs.name), std::move(differs.value)};
    }
    if (const SharedInput* const other = other_input(hello, me))
      return {why.what, RefusalKind::unfit, other->part, other->text};
    return refusal;
  }

  static bool is_of_member(const Hello& hello, const Identity& me) {
    return hello.rank < me.members->size() && hello.rank != me.self &&
           hello.site == me.members->at(hello.rank).site;
  }

 public:
  static constexpr Time kTimeout = std::chrono::seconds(10);
  static constexpr Time kFirstWord = std::chrono::seconds(2);
  struct Dialled {  // the peer expected at the dialled address
    Rank peer = 0;
    std::uint32_t stream = 0;
    // Or the relay at that address, which must connect this node to the peer, and its time limit.
    std::optional<Rank> relay = {};
    Time patience = kTimeout;
    Rank addressee() const { return relay.value_or(peer); }
  };
  class Host {
   public:
    virtual ~Host() = default;
    virtual Loop& loop() = 0;
    virtual const Identity& identity() const = 0;
    virtual Link& link(Rank) = 0;
    // Returns the reason why the link cannot take this connection now; empty if it can. `incoming`:
    // the peer dialled.
    virtual std::optional<Refusal> accepts(const Hello&, bool incoming) = 0;
    // Returns true if the peer's run may continue without this process. The hello may be old, so
    // this node sends a hello too. A live peer refuses it and reports whether this node may rejoin.
    virtual bool must_ask(const Hello&) = 0;
    // Called with the introductions in an accepted hello.
    virtual void on_introduced(Words) = 0;
    // Called when the peer has not refused: this process is in its run after all, and need not ask
    // again.
    virtual void on_known(const Hello&) = 0;
    // Returns the reason not to relay for the sender of that hello; empty if this node relays.
    virtual std::optional<Refusal> refuses_relay(const Hello&) = 0;
    virtual void on_relay_wanted(Handshake&, const Hello&, std::shared_ptr<Connection>) = 0;
    // Called when the relay has connected this node to the peer. `dials`: this node sends the first
    // hello.
    virtual void on_relayed(Handshake&, std::unique_ptr<Stream>, bool dials) = 0;
    // Exactly one of these calls ends each handshake, which is then destroyed. `refused`: the peer
    // refuses this node.
    virtual void on_handshake_done(Handshake&, Rank, std::uint32_t stream) = 0;
    virtual void on_handshake_failed(Handshake&, std::optional<RefusalKind> refused,
                                     const Error&) = 0;
  };
  // `dialled`: empty for an incoming connection from `caller`. The host owns the handshake and
  // outlives it.
  Handshake(std::optional<Dialled> dialled, Host& host, Caller caller = {})
      : dialled_(dialled), host_(host), caller_(std::move(caller)) {}
  ~Handshake() override {
    if (!connection_) return;
    connection_->detach();
    connection_->end(unavailable("this node has ended"));
  }

  void start(std::unique_ptr<Stream> stream) {
    const auto self = shared_from_this();
    // Accepts nothing but a hello: no stranger can occupy more memory.
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

  const std::optional<Dialled>& dialled() const { return dialled_; }
  Caller caller() const {
    Caller caller = caller_;
    caller.is_silent = is_silent();
    return caller;
  }

  // Ends the connection in favour of another caller.
  void make_room() {
    if (const auto connection = connection_)
      connection->end(
          unavailable("it makes room for another caller: too many others have not said "
                      "hello yet"));
  }

  // Returns the member that the peer claims to be, if it runs another job or has other shared
  // inputs.
  std::optional<Rank> differs() const { return differs_; }
  // Returns true if this node has refused the peer, which may ask again.
  bool refused_for_now() const {
    return refused_ && refused_->kind != RefusalKind::final && !is_of_all(refused_->kind);
  }
  // Returns the reason of a refusal that holds for all sites; "": none.
  const std::string& last_word() const { return last_word_; }

 private:
  void on_frame(Connection& connection, Frame&& frame) override {
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

  std::optional<Frame> to_write(Connection&) override { return std::exchange(out_, std::nullopt); }
  void on_written(Connection& connection, const Frame& frame) override {
    const auto self = shared_from_this();
    if (frame.header.type == FrameHeader::Type::refusal)
      connection.end_after_last_words(malformed(refused_->reason));
    if (inner_ && connection_) pass_on();
  }

  void on_end(Connection& connection, const Error& why) override {
    const auto self = shared_from_this();
    connection_.reset();
    timeout_ = {};
    host_.on_handshake_failed(
        *this, by_peer_,
        {why.kind, connection.stream().peer() + ": " + (refused_ ? refused_->reason : why.what)});
  }

  // Returns true before the peer's first bytes; under TLS, before its first complete message, which
  // this end's answer proves.
  bool is_silent() const {
    if (!connection_) return false;
    const Stream& stream = connection_->stream();
    return (stream.security() != nullptr ? stream.sent() : stream.received()) == 0;
  }

  void wait_for_hello(Time patience) {
    timeout_ = host_.loop().at(host_.loop().now() + patience,
                               [this] { end_late(dialled_ ? dialled_->patience : kTimeout); });
  }

  void end_late(Time patience) {
    if (const auto connection = connection_)
      connection->end(
          {Error::Kind::timed_out,
           fmt::format("{} within {:g} s",
                       dialled_ && dialled_->relay ? "it has not called there" : "no hello came",
                       seconds(patience))});
  }

  void refuse(Refusal why) {
    refused_ = std::move(why);
    out_ = refusal_frame(*refused_);
    connection_->wake();
  }

  std::optional<Refusal> accept_hello(const Hello& hello, const Frame& frame) {
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
    if (!dialled_) {  // own hello, before any frame of the link
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

  // Continues as the relay.
  void relay(const Hello& hello) {
    if (auto refusal = host_.refuses_relay(hello)) return refuse(*std::move(refusal));
    timeout_ = {};
    connection_->pause();
    host_.on_relay_wanted(*this, hello, std::exchange(connection_, nullptr));
  }

  // Continues as the caller of a relay.
  void take_relay_answer(const Hello& hello) {
    const Rank self = host_.identity().self;
    if (hello.relay_to != std::vector{self} && hello.relay_to != std::vector{dialled_->peer})
      return refuse({.reason = "it answers, and relays nothing"});
    connection_->pause();
    inner_ = hello.relay_to.front();
    if (!connection_->writing()) pass_on();
  }

  void pass_on() {
    timeout_ = {};
    const auto connection = std::exchange(connection_, nullptr);
    host_.on_relayed(*this, connection->release(), *inner_ == host_.identity().self);
  }

  const std::optional<Dialled> dialled_;
  Host& host_;
  const Caller caller_;
  std::shared_ptr<Connection> connection_;  // empty: ended
  std::optional<Frame> out_;
  std::optional<Hello> asked_;  // hello of a peer that was asked, see must_ask()
  std::optional<Rank> differs_;
  std::string last_word_;
  std::optional<Refusal> refused_;      // by this node
  std::optional<RefusalKind> by_peer_;  // kind of the peer's refusal of this node
  std::optional<Rank> inner_;           // dialling node of the two that a relay has connected
  Timer timeout_;
};

}  // namespace longhaul::net
