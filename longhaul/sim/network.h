#pragma once
// A Network decides when packets arrive, and whether; it ignores their contents. It has no clock of
// its own: the World passes the time and asks for the next event. So models whose arrival times
// change when flows start or end (fair shares) have the same interface as queues with fixed delays.
#include <optional>

#include "longhaul/base/archive.h"
#include "longhaul/core/message.h"

namespace longhaul::sim {

struct Packet {
  Rank from = 0;
  Rank to = 0;
  std::uint64_t bytes = 0;  // on the wire: frames and their headers, wire_scale applied
  Service service;
  Message message;
  // Number of chunks that a phantom represents. The network treats them as submitted one by one,
  // each when an earlier one departs, at most two in flight (Credits::kPerClass). The packet
  // departs and is delivered with the last chunk.
  std::uint32_t chunks = 1;
  // Size that decides the loss of a best-effort message, in bytes: without wire_scale, which
  // multiplies bytes and not datagrams. 0: `bytes`.
  std::uint64_t unscaled = 0;
  void state(auto& archive) {
    archive(from, to, bytes, service.delivery, service.priority, service.order, message, chunks,
            unscaled);
  }
};

// A network's report to the World.
struct NetworkEvent {
  enum class Kind : std::uint8_t {
    departed,  // a bulk message has left its sender's side; `packet` has no message
    delivered
  };
  Kind kind = Kind::delivered;
  Packet packet;
  void state(auto& archive) { archive(kind, packet); }
};

class Network {
 public:
  virtual ~Network() = default;
  virtual void submit(Packet, Time now) = 0;
  // Returns the time of the next event if nothing else is submitted; never before the last `now`.
  virtual std::optional<Time> next_event() const = 0;
  // Advances to next_event() and reports what happened there; empty if nothing visible did. Only
  // when next_event() has a value.
  virtual std::optional<NetworkEvent> advance() = 0;
  // While (from, to) is cut, packets in flight and new ones are held at the sender; heal() sends
  // them again, in order.
  virtual void cut(Rank from, Rank to, Time now) = 0;
  virtual void heal(Rank from, Rank to, Time now) = 0;
  // Packets that have not left this node are lost, and so are those to it.
  virtual void crash(Rank, Time now) = 0;
  virtual void revive(Rank) = 0;      // a crashed node restarts
  virtual bool has_bulk() const = 0;  // bulk is in flight, so the run is not stuck
  virtual void state(Archive&) = 0;
};

}  // namespace longhaul::sim
