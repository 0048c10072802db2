#pragma once
// Connections between two nodes that nobody can dial (PeersConfig::dials_out). Both dial a third,
// their relay, and say whom they want to reach (Hello::relay_to). When both are there the relay
// tells them which one is to dial the other, and copies bytes both ways from then on. These are the
// connection of the two: with credentials it is one of TLS, which the relay cannot read.
//
// Owned by the Peers of the relay; the loop's thread. Memory: at most kMostWaiting connections
// (kMostOfOne of one node) that
// wait for the other one, each for kPatience at most, and kMostCopied pairs of connections with a
// buffer of 64 KiB for each way.
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "longhaul/net/connection.h"
#include "longhaul/net/hello.h"

namespace longhaul::net {

class Relay final : private Connection::Owner {
 public:
  static constexpr std::size_t kMostWaiting = 4096, kMostOfOne = 512, kMostCopied = 8192;
  static constexpr Time kPatience = std::chrono::seconds(30);

  explicit Relay(const Identity& me) : me_(me) {}  // which outlives it
  ~Relay() override;

  // Why this node does not relay for the sender of that hello; nothing: it does.
  std::optional<Refusal> refuses(const Hello&) const;
  // The connection of a hello that is not refused. It is paused, and writes nothing.
  void add(const Hello&, std::shared_ptr<Connection>, Time now);
  // Lets go of what has waited for too long, or was closed. Called periodically.
  void tick(Time now);

  std::size_t waiting() const { return waiting_.size(); }
  bool idle() const { return copied_.empty(); }
  // Pairs that were joined since the last call, the lower rank first.
  std::vector<std::pair<Rank, Rank>> joined() { return std::exchange(joined_, {}); }
  // Bytes copied between them, both ways, of connections that are over or under way.
  std::map<std::pair<Rank, Rank>, std::uint64_t> copied() const;

  struct Splice;

 private:
  struct Key {
    Rank low = 0, high = 0;
    std::uint32_t stream = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Caller {
    std::shared_ptr<Connection> connection;
    std::uint32_t incarnation = 0;
    Time since{0};
    std::optional<Frame> answer = {};
    bool is_answered = false;  // the answer is made
    bool told = false;         // and written
  };
  using Side = std::pair<Key, bool>;  // true: the one of the higher rank

  // Connection::Owner
  void on_frame(Connection&, Frame&&) override;
  std::optional<Frame> to_write(Connection&) override;
  void on_written(Connection&, const Frame&) override;
  void on_end(Connection&, const Error& why) override;

  Caller* find(const Connection&);
  void answer(const Key&);
  void join(const Key&);
  void forget(Side, const Error& why);

  const Identity& me_;
  std::map<Side, Caller> waiting_;
  std::map<Connection*, Side> sides_;
  std::vector<std::pair<Key, std::shared_ptr<Splice>>> copied_;
  std::map<std::pair<Rank, Rank>, std::uint64_t> over_;  // bytes of connections that are over
  std::vector<std::pair<Rank, Rank>> joined_;
};

}  // namespace longhaul::net
