#pragma once
// A connection until both sides have exchanged hellos; the dialling side sends first. An unfit peer
// gets a refusal with the reason. A peer that sends nothing is disconnected after kTimeout, TLS
// included. Under TLS a hello's site must be one of the peer's certificate.
// One thread: the loop's.
#include <memory>

#include "longhaul/net/connection.h"
#include "longhaul/net/hello.h"
#include "longhaul/net/link.h"
#include "longhaul/net/tcp.h"

namespace longhaul::net {

class Handshake final : public Connection::Owner, public std::enable_shared_from_this<Handshake> {
 public:
  static constexpr Time kTimeout = std::chrono::seconds(5);
  struct Dialled {  // the peer expected at the dialled address
    Rank peer = 0;
    std::uint32_t stream = 0;
  };
  class Host {
   public:
    virtual ~Host() = default;
    virtual Loop& loop() = 0;
    virtual const Identity& identity() const = 0;
    virtual Link& link(Rank) = 0;
    // Whether the link can take this connection now. False: not yet, the peer may dial again soon.
    // Error: refuse it.
    virtual Result<bool> accepts(const Hello&) = 0;
    // Every handshake ends with one of these calls and is then destroyed. `refused`: the peer
    // refuses this node, so dialling again is useless.
    virtual void on_handshake_done(Handshake&, Rank, std::uint32_t stream) = 0;
    virtual void on_handshake_failed(Handshake&, bool refused, const Error&) = 0;
  };
  // `dialled`: empty for an incoming connection. The host owns the handshake and outlives it.
  Handshake(std::optional<Dialled> dialled, Host& host) : dialled_(dialled), host_(host) {}
  ~Handshake() override;
  void start(std::unique_ptr<Stream>);
  const std::optional<Dialled>& dialled() const { return dialled_; }

 private:
  void on_frame(Connection&, Frame&&) override;
  std::optional<Frame> to_write(Connection&) override { return std::exchange(out_, std::nullopt); }
  void on_written(Connection&, const Frame&) override;
  void on_end(Connection&, const Error&) override;
  void refuse(const Error&);
  Status accept_hello(const Hello&);

  const std::optional<Dialled> dialled_;
  Host& host_;
  std::shared_ptr<Connection> connection_;  // empty: over
  std::optional<Frame> out_;
  std::optional<Error> refused_;
  bool by_peer_ = false;
  Timer timeout_;
};

}  // namespace longhaul::net
