#pragma once
// Puts the messages of one peer in order: delivers every message once, in the order of its class,
// whichever stream carried it. Messages that arrive early over parallel streams are kept, within a
// bound.
// One thread: the peer's event loop.
#include <array>
#include <map>
#include <vector>

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
  Result<std::vector<Frame>> accept(Frame);
  // Acknowledgements not sent yet; all() has those for a hello.
  std::vector<Acknowledged> take_unsent();
  std::vector<Acknowledged> all() const;
  // Sent acknowledgements may be lost: take_unsent() returns all of them again.
  void resend_acknowledgements();
  // Loading acts as resend_acknowledgements().
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
