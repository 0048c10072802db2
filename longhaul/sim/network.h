#pragma once
// A Network decides when bytes arrive, and whether; it never looks into them. Itself a machine
// without a clock, so that models whose arrivals move when flows start or end (fair shares) fit
// behind the same interface as a queue with a fixed delay.
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
  // A phantom may stand for so many chunks in a row. The network is to treat it as if they were
  // submitted one by one, the next whenever one departs, two at most under way
  // (Credits::kPerClass); it departs and is delivered with the last of them.
  std::uint32_t chunks = 1;
  void state(auto& archive) {
    archive(from, to, bytes, service.delivery, service.priority, service.order, message, chunks);
  }
};

struct NetworkEvent {
  enum class Kind : std::uint8_t {
    departed,  // a bulk message has left its sender's side; the packet has no message any more
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
  // When something happens next, if nothing else is submitted; never before the last `now`.
  virtual std::optional<Time> next_event() const = 0;
  // Goes on to next_event() and tells what happened there: one notice, or none if it was not
  // visible from outside. Only when next_event() has a value.
  virtual std::optional<NetworkEvent> advance() = 0;
  // While a way is cut, what is under way from one node to the other and what is submitted is kept
  // at the sender; it goes out again, in order, when the way is healed.
  virtual void cut(Rank from, Rank to, Time now) = 0;
  virtual void heal(Rank from, Rank to, Time now) = 0;
  // What has not left this node is lost, and so is whatever is for it.
  virtual void crash(Rank, Time now) = 0;
  virtual void revive(Rank) = 0;      // a crashed node begins anew
  virtual bool has_bulk() const = 0;  // bulk is under way, so the run is not stuck
  virtual void state(Archive&) = 0;
};

}  // namespace longhaul::sim
