#pragma once
// What has come from one peer: every message once, in the order of its class, over however many
// connections it came. Over parallel streams some come early and are kept, within a bound.
// One thread: the peer's event loop.
#include <array>
#include <map>
#include <vector>

#include "longhaul/net/outbox.h"

namespace longhaul::net {

class Inbox {
 public:
  struct Limits {
    std::size_t early_bytes = 8 * 1024 * 1024;  // a class; what the peer's Outbox may have out
  };
  Inbox() : Inbox(Limits{}) {}
  explicit Inbox(Limits limits) : limits_(limits) {}

  // The messages that may be delivered now, in order; none for one that was here before. An Error:
  // more came early than a peer that keeps to its bounds can send.
  Result<std::vector<Frame>> accept(Frame);
  // What the peer has not been told yet; and, for a hello, all of it.
  std::vector<Acknowledged> take_unsent();
  std::vector<Acknowledged> all() const;
  // What the peer was told may not have arrived: all of it is news again.
  void resend_acknowledgements();
  // Loading: the peer is told all of it again.
  void state(Archive&);

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
