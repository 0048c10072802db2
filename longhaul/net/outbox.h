#pragma once
// The send queue and retransmission buffer for one peer.
//
// Reliable means once and in order per class across reconnects. A message gets a number in its
// class when it is first written, is kept until the peer acknowledges it, and is written again on
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

#include <fmt/format.h>

#include "longhaul/base/archive.h"
#include "longhaul/net/frame.h"

namespace longhaul::net {

// "I have all messages of this class before `before`."
struct Acknowledged {
  std::uint8_t service_class = 0;
  std::uint64_t before = 0;
  friend bool operator==(const Acknowledged&, const Acknowledged&) = default;
  LONGHAUL_FIELDS((service_class, .max = Service::kClasses - 1), before)
};

// Content of an acknowledgement frame.
struct Acknowledgement {
  std::vector<Acknowledged> have;
  static void fields(auto& self, auto&& visit) { LONGHAUL_FIELD(have, .max = Service::kClasses); }
};

class Outbox {
 public:
  struct Limits {
    std::size_t unacknowledged = 8 * 1024 * 1024;  // bytes a class
  };
  Outbox() : Outbox(Limits{}) {}
  explicit Outbox(Limits limits) : limits_(limits) {}

  void push(const Message& message, const Service& service) {
    LH_CHECK(message.head.size() <= FrameLimits{}.head_bytes &&
             message.body.size() <= FrameLimits{}.body_bytes);  // no peer would accept it
    classes_[service.service_class()].queued.emplace(Spot{service.order, pushed_++},
                                                     message_frame(message, service));
  }

  struct Priorities {
    unsigned lowest = 0, highest = 7;
  };
  // Returns the next frame of these priorities. The caller must write all of it or call rewind().
  std::optional<Frame> next(Priorities of) {
    for (unsigned priority = of.highest + 1; priority-- > of.lowest;)
      for (const unsigned delivery : {0u, 8u})
        if (auto frame = next_of(classes_[delivery + priority])) return frame;
    return std::nullopt;
  }

  std::optional<Frame> next() { return next(Priorities{}); }
  // Returns the frames that are done, or an Error if the peer acknowledges an unwritten message.
  Result<std::vector<Frame>> acknowledged(const Acknowledged& ack) {
    Class& c = classes_.at(ack.service_class);
    std::vector<Frame> done;
    if (ack.before < c.first) return done;  // older than an earlier acknowledgement
    if (ack.before > c.first + c.sent.size())
      return malformed(fmt::format("acknowledges message {} of class {}; {} were written",
                                   ack.before, ack.service_class, c.first + c.sent.size()));
    for (; c.first < ack.before; ++c.first) {
      c.sent_bytes -= c.sent.front().size();
      done.push_back(std::move(c.sent.front()));
      c.sent.pop_front();
      if (c.again > 0) --c.again;
    }
    return done;
  }

  // Repeats all unacknowledged frames, after a lost connection.
  void rewind() {
    for (Class& c : classes_) c.again = 0;
  }

  // Saves or loads the queue. Loading includes rewind().
  void state(Archive& ar) {
    ar(pushed_);
    for (Class& c : classes_) {
      ar(c.queued, c.sent, c.first);
      if (!ar.loading()) continue;
      c.again = c.sent_bytes = 0;
      for (const Frame& frame : c.sent) c.sent_bytes += frame.size();
    }
  }

  // Returns true if all pushed messages are acknowledged.
  bool idle() const {
    for (const Class& c : classes_)
      if (!c.queued.empty() || !c.sent.empty()) return false;
    return true;
  }

  std::size_t kept_bytes() const {
    std::size_t bytes = 0;
    for (const Class& c : classes_) {
      bytes += c.sent_bytes;
      for (const auto& [spot, frame] : c.queued) bytes += frame.size();
    }
    return bytes;
  }

 private:
  using Spot = std::pair<std::uint64_t, std::uint64_t>;  // (Service::order, number of the push)
  struct Class {
    std::map<Spot, Frame> queued;
    std::deque<Frame> sent;  // from number `first` on, not yet acknowledged
    std::uint64_t first = 0;
    std::size_t again = 0;  // sent[again ..] must be written again
    std::size_t sent_bytes = 0;
  };
  std::optional<Frame> next_of(Class& c) {
    if (c.again < c.sent.size()) return c.sent[c.again++];
    if (c.queued.empty()) return std::nullopt;
    const auto it = c.queued.begin();
    // One frame may always be unacknowledged, whatever the limit.
    if (c.sent_bytes > 0 && c.sent_bytes + it->second.size() > limits_.unacknowledged)
      return std::nullopt;
    Frame frame = std::move(it->second);
    c.queued.erase(it);
    frame.header.number = c.first + c.sent.size();
    c.sent_bytes += frame.size();
    c.sent.push_back(frame);
    c.again = c.sent.size();
    return frame;
  }

  Limits limits_;
  std::uint64_t pushed_ = 0;
  std::array<Class, Service::kClasses> classes_;
};

}  // namespace longhaul::net
