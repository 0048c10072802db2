#pragma once
// What is to be sent to one peer, and what was sent and may have to be sent again.
//
// Reliable means once and in order per class, whatever becomes of connections: messages of a class
// are numbered as they are first written, kept until the peer has acknowledged them, and written
// again on the next connection. Which goes first: the higher priority; within a class what is
// written again, then the lower Service::order, then the earlier push. A connection that writes one
// frame at a time thereby gives way at every chunk.
//
// Bounds: the host pushes at most Credits::kPerClass bulk messages a class; in a class nothing new
// is written while Limits::unacknowledged bytes are out.
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
    visit(Field{.name = "service_class", .max = Service::kClasses - 1}, self.service_class);
    visit(Field{.name = "before"}, self.before);
  }
};

// What an acknowledgement frame holds.
struct Acknowledgement {
  std::vector<Acknowledged> have;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "have", .max = Service::kClasses}, self.have);
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
  // The frame of these to be written now; the caller writes all of it or calls rewind().
  std::optional<Frame> next(Priorities of);
  std::optional<Frame> next() { return next(Priorities{}); }
  // The frames that need not be kept any more. An Error: the peer has what was never written.
  Result<std::vector<Frame>> acknowledged(const Acknowledged&);
  // The connection is gone: whatever is not acknowledged goes again.
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
