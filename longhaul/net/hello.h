#pragma once
// First frame in each direction on every connection: node, job, checkpoints, acknowledged messages.
//
// The header of a hello holds the values that all releases must agree on: kMagic in `machine`,
// kVersion in `kind`. A node that rejects a hello sends a refusal with the reason and closes; both
// print it.
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/core/membership.h"
#include "longhaul/net/outbox.h"

namespace longhaul::net {

inline constexpr std::uint32_t kMagic = 0x4c55484c;  // "LHUL" on the wire
inline constexpr std::uint16_t kVersion = 1;

// A node's newest checkpoint taken (its state is fixed in memory) and newest saved (on disk).
// Before the run, none is taken, and the node can resume from the one on disk.
struct CheckpointProgress {
  std::uint64_t taken = 0, saved = 0;
  bool is_valid() const { return saved <= taken; }  // for a running node
  friend bool operator==(const CheckpointProgress&, const CheckpointProgress&) = default;
};

// A key of the job file with the same value on all nodes: "[sync] steps", "20".
struct JobKey {
  std::string name, value;
};
std::uint32_t digest_of(const JobKey&);

// An input that must be equal on all nodes that have it, such as the start values of the model.
struct SharedInput {
  std::string part, text;  // "[data] path", "300 samples, digest 1f2e..."
  std::uint64_t digest = 0;
};
struct InputDigest {
  std::uint32_t part = 0;  // digest of its name
  std::uint64_t digest = 0;
  LONGHAUL_FIELDS(part, digest)
};

// Size limit of a hello, and so of the memory that a stranger can occupy.
inline constexpr std::uint32_t kMaxHelloBytes = 8192;

struct Hello {
  static constexpr std::size_t kMaxKeys = 1024;  // larger jobs send the first by name
  static constexpr std::size_t kMaxLost = 128;   // larger jobs send the first
  static constexpr std::size_t kMaxReason = 1024;
  std::uint64_t job_hash = 0;
  Rank rank = 0;
  std::string site;
  std::uint32_t rank_in_site = 0;
  std::uint32_t incarnation = 0;
  std::uint64_t process = 0;        // random number: no two processes are taken for one node
  std::uint32_t stream = 0;         // index among the parallel streams to this peer
  CheckpointProgress checkpointed;  // checkpoints, see link.h
  bool running = false;    // the node is in a run; else `saved` is the checkpoint to resume from
  std::uint64_t life = 0;  // Meeting::life() of that run
  // Nodes of the job when that checkpoint was taken, 0: none. Its view follows as the nodes outside
  // it.
  std::uint32_t members = 0;
  bool has_before = false;  // the previous checkpoint can be resumed from, too
  Epoch epoch = 0;
  std::vector<Rank> lost = {};
  std::vector<Membership::Return> returned = {};
  std::uint64_t elapsed_ns = 0;     // time since the sender's run began, by its clock; 0: not begun
  std::vector<std::uint32_t> keys;  // digests of the job's keys, see digest_of
  std::vector<InputDigest> inputs;  // inputs of this node
  std::vector<Acknowledged> have;   // received from the addressee
  // To a relay (relay.h): the node to reach. From a relay: the node that must dial. Else empty.
  std::vector<Rank> relay_to = {};
  // Reason that holds for all sites, in the last hello of a node that ends before its run; else
  // empty. `unfit`: the job or the data of a site is the cause.
  std::string leaves = {};
  bool unfit = false;
  static void fields(auto& self, auto&& visit) {
    LONGHAUL_FIELD(job_hash);
    LONGHAUL_FIELD(rank);
    LONGHAUL_FIELD(site, .max = 256);
    LONGHAUL_FIELD(rank_in_site);
    LONGHAUL_FIELD(incarnation);
    LONGHAUL_FIELD(process);
    LONGHAUL_FIELD(stream);
    visit(Field{.name = "taken"}, self.checkpointed.taken);
    visit(Field{.name = "saved"}, self.checkpointed.saved);
    LONGHAUL_FIELD(running);
    LONGHAUL_FIELD(life);
    LONGHAUL_FIELD(members);
    LONGHAUL_FIELD(has_before);
    LONGHAUL_FIELD(epoch);
    LONGHAUL_FIELD(lost, .max = kMaxLost);
    LONGHAUL_FIELD(returned, .max = kMaxLost);
    LONGHAUL_FIELD(elapsed_ns, .max = 1e18);
    LONGHAUL_FIELD(keys, .max = kMaxKeys);
    LONGHAUL_FIELD(inputs, .max = 64);
    LONGHAUL_FIELD(have, .max = Service::kClasses);
    LONGHAUL_FIELD(relay_to, .max = 1);
    LONGHAUL_FIELD(leaves, .max = double(kMaxReason));
    LONGHAUL_FIELD(unfit);
  }
};

// A node's introductions before the run, in the body of the hellos of stream 0: for example its
// data. Once its run has begun, a node forwards those of other nodes: a returned node needs those
// of lost nodes too.
inline constexpr std::uint32_t kMaxIntroductionBytes = 1 << 20;  // all introductions together
struct Introduction {
  Rank rank = 0;
  std::vector<std::uint8_t> words;
  LONGHAUL_FIELDS(rank, (words, .max = kMaxIntroductionBytes))
};
struct Introductions {
  std::vector<Introduction> all;
  static void fields(auto& self, auto&& visit) { LONGHAUL_FIELD(all, .max = 4096); }
};
using Words = std::map<Rank, std::vector<std::uint8_t>>;  // by author

enum class RefusalKind : std::uint8_t {
  final,   // asking again is useless
  later,   // the node may ask again
  rejoin,  // a run excludes this process; a new incarnation may ask to rejoin
  resume,  // there is no run that the asking node could rejoin
  lost,    // as rejoin; the members of this process's run have declared it lost
  failed,  // no run can begin or resume, for a reason that holds for all sites
  unfit    // as failed: jobs or data of sites differ
};
inline bool is_of_all(RefusalKind kind) {
  return kind == RefusalKind::failed || kind == RefusalKind::unfit;
}

struct Refusal {
  std::string reason;
  RefusalKind kind = RefusalKind::final;
  // First key or part that differs if job or input differ, with the refusing node's value.
  std::string key = {}, value = {};
  LONGHAUL_FIELDS((reason, .max = 1024), (kind, .max = 6), (key, .max = 256), (value, .max = 256))
};

// The data of this node for its hellos, and the members that it accepts.
struct Identity {
  std::uint64_t job_hash = 0;
  Rank self = 0;
  std::uint32_t incarnation = 0;
  std::uint64_t process = 0;
  const Members* members = nullptr;  // must outlive this
  bool running = false;              // as in Hello
  std::uint64_t life = 0;
  std::uint32_t members_before = 0;  // as Hello's members
  bool has_before = false;           // as in Hello
  View view = {};                    // view of the checkpoint to resume from
  std::vector<JobKey> keys = {};     // by name
  std::vector<SharedInput> inputs = {};
  std::function<Time()> elapsed = {};  // time since the run began; called while it is running
  // Introductions of this node and of others that it knows. Empty: nodes of this job have none.
  Words words = {};
  std::string leaves = {};  // as in Hello
  bool unfit = false;
};

Frame hello_frame(const Identity&, std::uint32_t stream, CheckpointProgress,
                  std::vector<Acknowledged> have, std::optional<Rank> relay_to = {});
Frame refusal_frame(Refusal);
inline Frame refusal_frame(std::string reason) {
  return refusal_frame(Refusal{.reason = std::move(reason)});
}

// Returns the hello in a frame, or the reason to refuse its sender. Reasons: no longhaul node,
// another release or job, no member, a false name, this node itself, a different input. The text
// goes to both sides and contains nothing that the sender wrote.
Result<Hello> read_hello(const Frame&, const Identity&);
// Returns the introductions that accompany a hello. Returns an Error if they are missing although
// nodes of this job have some, or if they are malformed.
Result<Words> read_introductions(const Frame&, const Hello&, const Identity&);
// Returns this node's first key that differs in a hello of another job; "" if none is known to
// differ.
JobKey first_difference(const Hello&, const Identity&);
// Returns this node's first input that differs at the sender of a hello; null if none does.
const SharedInput* other_input(const Hello&, const Identity&);
// Returns the peer's reason as printable text, whatever bytes it sent.
Refusal parse_refusal(const Frame&);
inline std::string read_refusal(const Frame& frame) { return parse_refusal(frame).reason; }
// Returns the reason for this node's user; `by` refuses this node. For a different key or input, it
// names both sites and values with the same words on both sides.
std::string text_of(const Refusal&, const Identity&, Rank by);

}  // namespace longhaul::net
