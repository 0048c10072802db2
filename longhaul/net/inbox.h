#pragma once
// Puts the messages of one peer in order: delivers every message once, in the order of its class,
// whichever stream carried it. Messages that arrive early over parallel streams are kept, within a
// bound.
// One thread: the peer's event loop.
#include <array>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "longhaul/net/outbox.h"

namespace longhaul::net {

class Inbox {
 public:
  struct Limits {
    std::size_t early_bytes =
        8 * 1024 * 1024;  // a class; at least what a peer's Outbox may send unacknowledged
  };
  Inbox() : Inbox(Limits{}) {}
  explicit Inbox(Limits limits) : limits_(limits) {}

  // The messages that may be delivered now, in order; none for a duplicate. Error: more early bytes
  // than a correct peer can send.
  Result<std::vector<Frame>> accept(Frame frame) {
    LH_CHECK(frame.header.type == FrameHeader::Type::message);
    Class& c = classes_.at(frame.header.service_class);
    const std::uint64_t number = frame.header.number;
    std::vector<Frame> ready;
    if (number < c.next || c.early.contains(number)) return ready;
    if (number > c.next) {
      if (c.early_bytes + frame.size() > limits_.early_bytes)
        return malformed(
            fmt::format("message {} of class {} before {} came: {} bytes came early, at "
                        "most {} are kept",
                        number, frame.header.service_class, c.next, c.early_bytes + frame.size(),
                        limits_.early_bytes));
      c.early_bytes += frame.size();
      c.early.emplace(number, std::move(frame));
      return ready;
    }
    ready.push_back(std::move(frame));
    ++c.next;
    for (auto it = c.early.begin(); it != c.early.end() && it->first == c.next; ++c.next) {
      c.early_bytes -= it->second.size();
      ready.push_back(std::move(it->second));
      it = c.early.erase(it);
    }
    return ready;
  }

  // Acknowledgements not sent yet; all() has those for a hello.
  std::vector<Acknowledged> take_unsent() {
    std::vector<Acknowledged> unsent;
    for (std::uint8_t i = 0; i < Service::kClasses; ++i) {
      Class& c = classes_[i];
      if (c.next > c.sent) unsent.push_back({i, c.next});
      c.sent = c.next;
    }
    return unsent;
  }

  std::vector<Acknowledged> all() const {
    std::vector<Acknowledged> all;
    for (std::uint8_t i = 0; i < Service::kClasses; ++i)
      if (classes_[i].next > 0) all.push_back({i, classes_[i].next});
    return all;
  }

  // Sent acknowledgements may be lost: take_unsent() returns all of them again.
  void resend_acknowledgements() {
    for (Class& c : classes_) c.sent = 0;
  }

  // Loading acts as resend_acknowledgements().
  void state(Archive& ar) {
    for (Class& c : classes_) {
      ar(c.next, c.early);
      if (!ar.loading()) continue;
      c.sent = c.early_bytes = 0;
      for (const auto& [number, frame] : c.early) c.early_bytes += frame.size();
    }
  }

 private:
  struct Class {
    std::uint64_t next = 0, sent = 0;
    std::map<std::uint64_t, Frame> early;
    std::size_t early_bytes = 0;
  };
  Limits limits_;
  std::array<Class, Service::kClasses> classes_;
};

}  // namespace longhaul::net
