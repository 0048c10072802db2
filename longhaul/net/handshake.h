#pragma once
// A connection until both sides have exchanged hellos; the dialling side sends first. An unfit peer
// gets a refusal with the reason. A caller that is silent is disconnected after kFirstWord, a peer
// whose hello does not come after kTimeout, TLS included. Under TLS a hello's site must be one of
// the peer's certificate. One thread: the loop's.
#include <memory>

#include "longhaul/net/callers.h"
#include "longhaul/net/connection.h"
#include "longhaul/net/hello.h"
#include "longhaul/net/link.h"
#include "longhaul/net/tcp.h"

namespace longhaul::net {

class Handshake final : public Connection::Owner, public std::enable_shared_from_this<Handshake> {
 public:
  static constexpr Time kTimeout = std::chrono::seconds(10);
  static constexpr Time kFirstWord = std::chrono::seconds(2);
  struct Dialled {  // the peer expected at the dialled address
    Rank peer = 0;
    std::uint32_t stream = 0;
    // Or the relay at that address, which is to bring this node to the peer; how long it waits.
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
    // Why the link cannot take this connection (now); nothing: it can. `incoming`: the peer
    // dialled.
    virtual std::optional<Refusal> accepts(const Hello&, bool incoming) = 0;
    // The peer's run may go on without this process. Its hello may be old: this node says hello,
    // too, and the peer, if it lives, refuses it and says whether it may rejoin.
    virtual bool must_ask(const Hello&) = 0;
    // What the sender of an accepted hello says of itself, and of others.
    virtual void on_introduced(Words) = 0;
    // The peer did not refuse: this process is in its run after all, and need not ask again.
    virtual void on_known(const Hello&) = 0;
    // May this node relay for the sender of that hello? Nothing: it may.
    virtual std::optional<Refusal> refuses_relay(const Hello&) = 0;
    virtual void on_relay_wanted(Handshake&, const Hello&, std::shared_ptr<Connection>) = 0;
    // The relay has brought this node to the peer; `dials`: it is this node that says hello first.
    virtual void on_relayed(Handshake&, std::unique_ptr<Stream>, bool dials) = 0;
    // Every handshake ends with one of these calls and is then destroyed. `refused`: the peer
    // refuses this node.
    virtual void on_handshake_done(Handshake&, Rank, std::uint32_t stream) = 0;
    virtual void on_handshake_failed(Handshake&, std::optional<RefusalKind> refused,
                                     const Error&) = 0;
  };
  // `dialled`: empty for an incoming connection, of which `caller` says where from. The host owns
  // the handshake and outlives it.
  Handshake(std::optional<Dialled> dialled, Host& host, Caller caller = {})
      : dialled_(dialled), host_(host), caller_(std::move(caller)) {}
  ~Handshake() override;
  void start(std::unique_ptr<Stream>);
  const std::optional<Dialled>& dialled() const { return dialled_; }
  Caller caller() const;
  void make_room();  // for another caller: it ends
  // The member that the peer claims to be, if it runs another job or has other shared inputs.
  std::optional<Rank> differs() const { return differs_; }
  // This node has refused the peer, which may ask again.
  bool refused_for_now() const {
    return refused_ && refused_->kind != RefusalKind::final && !is_of_all(refused_->kind);
  }
  // The reason of a refusal that holds for all sites; "": none.
  const std::string& last_word() const { return last_word_; }

 private:
  void on_frame(Connection&, Frame&&) override;
  std::optional<Frame> to_write(Connection&) override { return std::exchange(out_, std::nullopt); }
  void on_written(Connection&, const Frame&) override;
  void on_end(Connection&, const Error&) override;
  bool is_silent() const;
  void wait_for_hello(Time patience);
  void end_late(Time patience);
  void refuse(Refusal);
  std::optional<Refusal> accept_hello(const Hello&, const Frame&);
  void relay(const Hello&);
  void take_relay_answer(const Hello&);
  void pass_on();

  const std::optional<Dialled> dialled_;
  Host& host_;
  const Caller caller_;
  std::shared_ptr<Connection> connection_;  // empty: over
  std::optional<Frame> out_;
  std::optional<Hello> asked_;  // of a peer that was asked, see must_ask()
  std::optional<Rank> differs_;
  std::string last_word_;
  std::optional<Refusal> refused_;      // by this node
  std::optional<RefusalKind> by_peer_;  // this node, by the peer
  std::optional<Rank> inner_;           // who dials, of the two that a relay has brought together
  Timer timeout_;
};

}  // namespace longhaul::net
