#pragma once
// The first frame each way on every connection: node, job, checkpoints, acknowledged messages.
//
// The header of a hello holds what all releases must agree on: kMagic in `machine`, kVersion in
// `kind`. A node that rejects a hello sends a refusal with the reason and closes; both print it.
#include <string>
#include <vector>

#include "longhaul/core/place.h"
#include "longhaul/net/outbox.h"

namespace longhaul::net {

inline constexpr std::uint32_t kMagic = 0x4c55484c;  // "LHUL" on the wire
inline constexpr std::uint16_t kVersion = 1;

// A node's newest checkpoint taken (its state is fixed in memory) and newest saved (on disk).
// Before the run it has taken none and can resume from the one on disk.
struct CheckpointProgress {
  std::uint64_t taken = 0, saved = 0;
  bool is_valid() const { return saved <= taken; }  // of a running node
  friend bool operator==(const CheckpointProgress&, const CheckpointProgress&) = default;
};

struct Hello {
  std::uint64_t job_hash = 0;
  Rank rank = 0;
  std::string site;
  std::uint32_t rank_in_site = 0;
  std::uint32_t incarnation = 0;
  std::uint64_t process = 0;        // drawn when the process began: no two claim one node
  std::uint32_t stream = 0;         // which of the parallel ones to this peer
  CheckpointProgress checkpointed;  // checkpoints, see link.h
  std::vector<Acknowledged> have;   // received from the addressee
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(job_hash);
    LONGHAUL_FIELD(rank);
    LONGHAUL_FIELD(site, .max = 256);
    LONGHAUL_FIELD(rank_in_site);
    LONGHAUL_FIELD(incarnation);
    LONGHAUL_FIELD(process);
    LONGHAUL_FIELD(stream);
    visit(Field{.name = "taken"}, self.checkpointed.taken);
    visit(Field{.name = "saved"}, self.checkpointed.saved);
    LONGHAUL_FIELD(have, .max = Service::kClasses);
  }
};

struct Refusal {
  std::string reason;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(reason, .max = 1024);
  }
};

// What this node says about itself, and the members that it accepts.
struct Identity {
  std::uint64_t job_hash = 0;
  Rank self = 0;
  std::uint32_t incarnation = 0;
  std::uint64_t process = 0;
  const Members* members = nullptr;  // outlives this
};

Frame hello_frame(const Identity&, std::uint32_t stream, CheckpointProgress,
                  std::vector<Acknowledged> have);
Frame refusal_frame(std::string reason);

// The hello in a frame, or the reason to refuse its sender: not a longhaul node, another release,
// another job, not a member, a false name, or this node itself. The text goes to both sides and
// contains nothing that the sender wrote.
Result<Hello> read_hello(const Frame&, const Identity&);
// The peer's reason, printable; any bytes give some text.
std::string read_refusal(const Frame&);

}  // namespace longhaul::net
