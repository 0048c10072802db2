#pragma once
// The send queue and retransmission buffer for one peer.
//
// Reliable means once and in order per class across reconnects: messages of a class get a number
// when they are first written, are kept until the peer acknowledges them, and are written again on
// the next connection. Order: higher priority first; within a class retransmissions, then lower
// Service::order, then earlier push. A connection that writes one frame at a time can therefore
// send a higher class after each chunk.
//
// Bounds: the host pushes at most Credits::kPerClass bulk messages a class; a class writes nothing
// new while Limits::unacknowledged of its bytes are unacknowledged.
// One thread: the peer's event loop.
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/net/frame.h"

namespace longhaul::net {

// "I have all messages of this class before `before`."
struct Acknowledged {
  std::uint8_t service_class = 0;
  std::uint64_t before = 0;
  friend bool operator==(const Acknowledged&, const Acknowledged&) = default;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(service_class, .max = Service::kClasses - 1);
    LONGHAUL_FIELD(before);
  }
};

// What an acknowledgement frame holds.
struct Acknowledgement {
  std::vector<Acknowledged> have;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(have, .max = Service::kClasses);
  }
};

class Outbox {
 public:
  struct Limits {
    std::size_t unacknowledged = 8 * 1024 * 1024;  // bytes a class
  };
  Outbox() : Outbox(Limits{}) {}
  explicit Outbox(Limits limits) : limits_(limits) {}

  void push(const Message&, const Service&);
  struct Priorities {
    unsigned lowest = 0, highest = 7;
  };
  // The next frame of these priorities; the caller writes all of it or calls rewind().
  std::optional<Frame> next(Priorities of);
  std::optional<Frame> next() { return next(Priorities{}); }
  // Returns the frames that are done. Error: the peer acknowledges what was never written.
  Result<std::vector<Frame>> acknowledged(const Acknowledged&);
  // After a lost connection: everything unacknowledged is written again.
  void rewind();

  // Loading: as after rewind().
  void state(Archive&);

  bool idle() const;  // all that was pushed is acknowledged
  std::size_t kept_bytes() const;

 private:
  using Spot = std::pair<std::uint32_t, std::uint64_t>;  // (Service::order, when it was pushed)
  struct Class {
    std::map<Spot, Frame> queued;
    std::deque<Frame> sent;  // from number `first` on, not yet acknowledged
    std::uint64_t first = 0;
    std::size_t again = 0;  // sent[again ..] must be written again
    std::size_t sent_bytes = 0;
  };
  std::optional<Frame> next_of(Class&);

  Limits limits_;
  std::uint64_t pushed_ = 0;
  std::array<Class, Service::kClasses> classes_;
};

}  // namespace longhaul::net
