#pragma once
// A connection until both sides have said hello: who dialled speaks first. A stranger is told why
// and shut out; one that says nothing is shut out after kPatience.
// One thread: the loop's.
#include <functional>
#include <memory>

#include "longhaul/net/connection.h"
#include "longhaul/net/hello.h"
#include "longhaul/net/link.h"
#include "longhaul/net/tcp.h"

namespace longhaul::net {

class Greeting final : public Connection::Owner, public std::enable_shared_from_this<Greeting> {
 public:
  static constexpr Time kPatience = std::chrono::seconds(5);
  struct Host {
    Loop& loop;
    const Identity& identity;
    std::function<Link*(Rank)> link;
    // Ended before it became a link's connection. `peer`: whom we dialled; `refused`: it does not
    // want us, so there is no sense in asking again.
    std::function<void(std::optional<Rank> peer, bool refused, const Error&)> failed;
    std::function<void(Rank)> connected;
  };
  // `dialled`: who should be there; nobody: it is the other who called. Keeps itself alive.
  static void begin(std::unique_ptr<Stream>, std::optional<Rank> dialled, const Host&);

 private:
  Greeting(std::optional<Rank> dialled, const Host& host) : dialled_(dialled), host_(host) {}
  void on_frame(Connection&, Frame&&) override;
  std::optional<Frame> to_write(Connection&) override { return std::exchange(out_, std::nullopt); }
  void on_written(Connection&, const Frame&) override;
  void on_end(Connection&, const Error&) override;
  void refuse(const Error&);
  Status welcome(const Hello&);

  const std::optional<Rank> dialled_;
  const Host host_;
  std::shared_ptr<Connection> connection_;  // empty: over
  std::optional<Frame> out_;
  std::optional<Error> refused_;
  bool by_peer_ = false;
};

}  // namespace longhaul::net
