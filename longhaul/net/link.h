#pragma once
// All there is between this node and one peer: what is to be sent, what has come, and the
// connection of the moment. Connections come and go; a Link loses and doubles nothing.
// One thread: the loop's.
#include <memory>
#include <optional>
#include <string>

#include "longhaul/net/connection.h"
#include "longhaul/net/hello.h"
#include "longhaul/net/inbox.h"
#include "longhaul/net/outbox.h"

namespace longhaul::net {

class Link final : public Connection::Owner {
 public:
  class Events {
   public:
    virtual ~Events() = default;
    virtual void on_message(Rank from, const Message&) = 0;
    virtual void on_writable(Rank peer, unsigned service_class) = 0;  // bulk only
    virtual void on_disconnected(Rank peer, const Error& why) = 0;
  };
  Link(Rank peer, Events& events) : peer_(peer), events_(events) {}
  ~Link() override;

  void send(const Message&, const Service&);
  // A connection on which the peer has said this hello; ends the one before it. An Error: the peer
  // has what it cannot have, or another process of it is known: the caller refuses it.
  Status fits(const Hello&) const;
  Status attach(std::shared_ptr<Connection>, const Hello&, Time now);
  std::vector<Acknowledged> have() const { return inbox_.all(); }

  // Every now and then: notes progress, and has a ping sent after `heartbeat` without a frame.
  void tick(Time now, Time heartbeat);
  Time last_heard() const { return last_heard_; }
  void heard(Time now) { last_heard_ = now; }
  bool connected() const { return connection_ != nullptr; }
  void disconnect(const Error& why);

  // Nothing more is to be said; both have it all once settled() on either side.
  void say_bye();
  bool settled() const { return gone_ || (outbox_.idle() && bye_written_); }
  bool peer_is_done() const { return gone_; }

 private:
  void on_frame(Connection&, Frame&&) override;
  std::optional<Frame> to_write(Connection&) override;
  void on_written(Connection&, const Frame&) override;
  void on_end(Connection&, const Error& why) override;
  Status take(Frame&&);

  const Rank peer_;
  Events& events_;
  Outbox outbox_;
  Inbox inbox_;
  std::shared_ptr<Connection> connection_;
  std::optional<std::uint64_t> process_;
  std::array<std::uint64_t, Service::kClasses> written_{};  // numbers told on_writable
  Time last_heard_{0}, last_written_{0};
  std::uint64_t seen_ = 0;  // bytes received over this connection, at the last tick
  bool news_ = false, ping_ = false;
  bool bye_ = false, bye_written_ = false, gone_ = false;
};

}  // namespace longhaul::net
