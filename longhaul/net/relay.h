#pragma once
// Connections between two nodes that cannot be dialled (PeersConfig::dials_out). Both dial a third
// node, their relay, and send the rank that they want to reach (Hello::relay_to). When both have
// called, the relay names the one that must dial, and copies bytes in both directions from
// then on. The bytes are the connection of the two nodes: with credentials it uses TLS, which the
// relay cannot read.
//
// Owned by the Peers of the relay; the loop's thread. Memory: at most kMostWaiting connections
// (kMostOfOne per node) that wait for their counterpart, each for at most kPatience, and
// kMostCopied pairs of connections with a buffer of 64 KiB per direction.
#include <algorithm>
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

  explicit Relay(const Identity& me) : me_(me) {}  // must outlive the relay
  ~Relay() override {
    for (auto& [side, caller] : waiting_) {
      caller.connection->detach();
      caller.connection->end(unavailable("the relay has ended"));
    }
    for (auto& [key, splice] : copied_) splice->end();
  }

  // Returns the reason why this node does not relay for the sender of that hello; empty if it does.
  std::optional<Refusal> refuses(const Hello& hello) const {
    const Rank to = hello.relay_to.front();
    if (to >= me_.members->size() || to == hello.rank || to == me_.self)
      return Refusal{"it wants to be relayed to a node that cannot be"};
    std::size_t own = 0;
    for (const auto& [side, caller] : waiting_)
      own += (side.second ? side.first.high : side.first.low) == hello.rank;
    if (own >= kMostOfOne || waiting_.size() >= kMostWaiting || copied_.size() >= kMostCopied)
      return Refusal{"this relay has no room for more connections", RefusalKind::later};
    return std::nullopt;
  }

  // Adds the connection of an accepted hello. The connection is paused and writes nothing.
  void add(const Hello& hello, std::shared_ptr<Connection> connection, Time now) {
    const Rank to = hello.relay_to.front();
    const Key key{std::min(hello.rank, to), std::max(hello.rank, to), hello.stream};
    const Side side{key, hello.rank > to};
    forget(side, unavailable("it has called again"));
    sides_[connection.get()] = side;
    connection->set_owner(*this);
    waiting_[side] = {std::move(connection), hello.incarnation, now};
    answer(key);
  }

  // Ends connections that have waited too long or were closed. Called periodically.
  void tick(Time now) {
    std::vector<Side> gone;
    for (const auto& [side, caller] : waiting_)
      if (now - caller.since > kPatience || caller.connection->stream().closed_by_peer())
        gone.push_back(side);
    for (const Side& side : gone) forget(side, unavailable("nobody came for it"));
    std::erase_if(copied_, [this](const auto& one) {
      if (!one.second->over) return false;
      over_[{one.first.low, one.first.high}] += one.second->bytes;
      return true;
    });
  }

  std::size_t waiting() const { return waiting_.size(); }
  bool idle() const { return copied_.empty(); }
  // Returns the pairs that were joined since the last call, lower rank first.
  std::vector<std::pair<Rank, Rank>> joined() { return std::exchange(joined_, {}); }
  // Returns the bytes copied per pair, in both directions, on ended and open connections.
  std::map<std::pair<Rank, Rank>, std::uint64_t> copied() const {
    auto all = over_;
    for (const auto& [key, splice] : copied_) all[{key.low, key.high}] += splice->bytes;
    return all;
  }

 private:
  // Two streams, each copied to the other. Its reads and writes keep it alive. When one stream
  // ends, the splice ends the other.
  struct Splice : std::enable_shared_from_this<Splice> {
    Splice(std::unique_ptr<Stream> one, std::unique_ptr<Stream> other)
        : streams{std::move(one), std::move(other)} {}

    void start() {
      for (const std::size_t from : {0u, 1u}) {
        buffers[from].resize(64 * 1024);
        copy(from);
      }
    }
    void copy(std::size_t from) {
      if (over) return;
      streams[from]->read_some(
          buffers[from], [self = shared_from_this(), from](const Result<std::size_t>& count) {
            if (!count) return self->end();
            if (self->over) return;
            self->bytes += *count;
            const auto here = std::span<const std::byte>(self->buffers[from]).first(*count);
            self->streams[1 - from]->write({here, {}, {}}, [self, from](const Status& written) {
              written ? self->copy(from) : self->end();
            });
          });
    }
    void end() {
      if (std::exchange(over, true)) return;
      for (const auto& stream : streams) stream->close();
    }

    std::array<std::unique_ptr<Stream>, 2> streams;
    std::array<Buffer, 2> buffers;
    std::uint64_t bytes = 0;
    bool over = false;
  };
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
    bool is_answered = false;  // the answer exists
    bool told = false;         // the answer is written
  };
  using Side = std::pair<Key, bool>;  // true: side of the higher rank

  // Connection::Owner
  // The connection is paused after the hello, so a further frame is an error.
  void on_frame(Connection& connection, Frame&&) override {
    connection.end(malformed("it says more than a hello to its relay"));
  }

  std::optional<Frame> to_write(Connection& connection) override {
    Caller* const caller = find(connection);
    return caller ? std::exchange(caller->answer, std::nullopt) : std::nullopt;
  }

  void on_written(Connection& connection, const Frame&) override {
    const Side side = sides_.at(&connection);
    waiting_.at(side).told = true;
    join(side.first);
  }

  void on_end(Connection& connection, const Error& why) override {
    const auto side = sides_.find(&connection);
    if (side != sides_.end()) forget(Side(side->second), why);
  }

  Caller* find(const Connection& connection) {
    const auto side = sides_.find(const_cast<Connection*>(&connection));
    return side == sides_.end() ? nullptr : &waiting_.at(side->second);
  }

  // Makes the node with the higher incarnation dial, because a returned node dials all others; else
  // the lower rank.
  void answer(const Key& key) {
    const auto low = waiting_.find({key, false}), high = waiting_.find({key, true});
    if (low == waiting_.end() || high == waiting_.end()) return;
    for (const auto& one : {low, high})
      if (one->second.connection->stream().closed_by_peer())
        return forget(one->first, unavailable("it has gone"));
    const bool higher = high->second.incarnation > low->second.incarnation;
    for (const auto& one : {low, high}) {
      if (std::exchange(one->second.is_answered, true)) continue;
      one->second.answer = hello_frame(me_, key.stream, {}, {}, higher ? key.high : key.low);
      one->second.connection->wake();
    }
  }

  void join(const Key& key) {
    const auto low = waiting_.find({key, false}), high = waiting_.find({key, true});
    if (low == waiting_.end() || high == waiting_.end()) return;
    if (!low->second.told || !high->second.told) return;
    std::array<std::unique_ptr<Stream>, 2> streams;
    std::size_t next = 0;
    for (const auto& one : {low, high}) {
      const auto connection = std::move(one->second.connection);
      sides_.erase(connection.get());
      streams[next++] = connection->release();
      waiting_.erase(one);
    }
    const auto splice = std::make_shared<Splice>(std::move(streams[0]), std::move(streams[1]));
    copied_.emplace_back(key, splice);
    joined_.emplace_back(key.low, key.high);
    splice->start();
  }

  void forget(Side side, const Error& why) {
    const auto caller = waiting_.find(side);
    if (caller == waiting_.end()) return;
    const auto connection = std::move(caller->second.connection);
    sides_.erase(connection.get());
    waiting_.erase(caller);
    connection->detach();
    connection->end(why);
    // The other side has an answer that announces both, and must not wait in vain.
    const Side other{side.first, !side.second};
    const auto partner = waiting_.find(other);
    if (partner != waiting_.end() && partner->second.is_answered) forget(other, why);
  }

  const Identity& me_;
  std::map<Side, Caller> waiting_;
  std::map<Connection*, Side> sides_;
  std::vector<std::pair<Key, std::shared_ptr<Splice>>> copied_;
  std::map<std::pair<Rank, Rank>, std::uint64_t> over_;  // bytes of ended connections
  std::vector<std::pair<Rank, Rank>> joined_;
};

}  // namespace longhaul::net
