#pragma once
// The first frame each way on every connection: node, job, checkpoints, acknowledged messages.
//
// The header of a hello holds what all releases must agree on: kMagic in `machine`, kVersion in
// `kind`. A node that rejects a hello sends a refusal with the reason and closes; both print it.
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
// Before the run it has taken none and can resume from the one on disk.
struct CheckpointProgress {
  std::uint64_t taken = 0, saved = 0;
  bool is_valid() const { return saved <= taken; }  // of a running node
  friend bool operator==(const CheckpointProgress&, const CheckpointProgress&) = default;
};

// A key of the job that all nodes must agree on: "[sync] steps", "20".
struct JobKey {
  std::string name, value;
};
std::uint32_t digest_of(const JobKey&);

// What a node has read and all that have it must have alike: the start values of the model, say.
struct SharedInput {
  std::string part, text;  // "[data] path", "300 samples, digest 1f2e..."
  std::uint64_t digest = 0;
};
struct InputDigest {
  std::uint32_t part = 0;  // digest of its name
  std::uint64_t digest = 0;
  LONGHAUL_FIELDS(part, digest)
};

// The largest hello: a stranger can make a node keep no more.
inline constexpr std::uint32_t kMaxHelloBytes = 8192;

struct Hello {
  static constexpr std::size_t kMaxKeys = 1024;  // of a larger job: the first by name
  static constexpr std::size_t kMaxLost = 128;   // of a larger job: the first
  static constexpr std::size_t kMaxReason = 1024;
  std::uint64_t job_hash = 0;
  Rank rank = 0;
  std::string site;
  std::uint32_t rank_in_site = 0;
  std::uint32_t incarnation = 0;
  std::uint64_t process = 0;        // drawn when the process began: no two claim one node
  std::uint32_t stream = 0;         // which of the parallel ones to this peer
  CheckpointProgress checkpointed;  // checkpoints, see link.h
  bool running = false;             // it is in a run; else `saved` is what it can resume from
  std::uint64_t life = 0;           // of that run: Meeting::life()
  // Of that checkpoint: nodes of the job when it was taken, 0: there is none; its view, by those
  // that were not in it.
  std::uint32_t members = 0;
  bool has_before = false;  // it can resume from the checkpoint before, too
  Epoch epoch = 0;
  std::vector<Rank> lost = {};
  std::vector<Membership::Return> returned = {};
  std::uint64_t elapsed_ns = 0;     // since its run began, by its clock; 0: it has not
  std::vector<std::uint32_t> keys;  // digests of the job's keys, see digest_of
  std::vector<InputDigest> inputs;  // of those that this node has
  std::vector<Acknowledged> have;   // received from the addressee
  // To a relay (relay.h): the node that it wants to reach. The relay's answer: who of the two is
  // to dial the other. Else empty.
  std::vector<Rank> relay_to = {};
  // Not empty in the last hello of a node that ends before its run: a reason that holds for all
  // sites. `unfit`: the job or the data of a site cause it.
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

// What nodes say of themselves before the run, in the body of the hellos of stream 0: what they
// hold, say. A node passes on what it has heard of others once its run has begun: one that comes
// back needs that of nodes which are lost.
inline constexpr std::uint32_t kMaxIntroductionBytes = 1 << 20;  // of all together
struct Introduction {
  Rank rank = 0;
  std::vector<std::uint8_t> words;
  LONGHAUL_FIELDS(rank, (words, .max = kMaxIntroductionBytes))
};
struct Introductions {
  std::vector<Introduction> all;
  static void fields(auto& self, auto&& visit) { LONGHAUL_FIELD(all, .max = 4096); }
};
using Words = std::map<Rank, std::vector<std::uint8_t>>;  // by who has said them

enum class RefusalKind : std::uint8_t {
  final,   // asking again is useless
  later,   // the node may ask again
  rejoin,  // a run is here that this process is not in; a new incarnation may ask to rejoin
  resume,  // no run is here that the node which asks to rejoin could rejoin
  lost,    // the members of this process's run have declared it lost; else as rejoin
  failed,  // no run can begin or resume here, for a reason that holds for all sites
  unfit    // as failed: jobs or data of sites differ
};
inline bool is_of_all(RefusalKind kind) {
  return kind == RefusalKind::failed || kind == RefusalKind::unfit;
}

struct Refusal {
  std::string reason;
  RefusalKind kind = RefusalKind::final;
  // Of another job, or another input: the first key or part that differs, as it is here.
  std::string key = {}, value = {};
  LONGHAUL_FIELDS((reason, .max = 1024), (kind, .max = 6), (key, .max = 256), (value, .max = 256))
};

// What this node says about itself, and the members that it accepts.
struct Identity {
  std::uint64_t job_hash = 0;
  Rank self = 0;
  std::uint32_t incarnation = 0;
  std::uint64_t process = 0;
  const Members* members = nullptr;  // outlives this
  bool running = false;              // as in Hello
  std::uint64_t life = 0;
  std::uint32_t members_before = 0;  // as Hello's members
  bool has_before = false;           // as in Hello
  View view = {};                    // of the checkpoint that it can resume from
  std::vector<JobKey> keys = {};     // by name
  std::vector<SharedInput> inputs = {};
  std::function<Time()> elapsed = {};  // since the run began; asked while it is running
  // Introductions: this node's own, and what it has heard. Empty: nodes of this job have nothing to
  // say.
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

// The hello in a frame, or the reason to refuse its sender: not a longhaul node, another release,
// another job, not a member, a false name, this node itself, or an input that differs. The text
// goes to both sides and contains nothing that the sender wrote.
Result<Hello> read_hello(const Frame&, const Identity&);
// The introductions beside a hello. Error: there are none though nodes of this job have something
// to say, or they cannot be read.
Result<Words> read_introductions(const Frame&, const Hello&, const Identity&);
// Of a hello of another job: the first of this node's keys that differs; "" if none is known to.
JobKey first_difference(const Hello&, const Identity&);
// The first of this node's inputs that the sender of a hello has otherwise; null: none.
const SharedInput* other_input(const Hello&, const Identity&);
// The peer's reason, printable; any bytes give some text.
Refusal parse_refusal(const Frame&);
inline std::string read_refusal(const Frame& frame) { return parse_refusal(frame).reason; }
// The reason for this node's user; `by` refuses it. For a key or an input that differs it names
// both sites and values, in the same words at both.
std::string text_of(const Refusal&, const Identity&, Rank by);

}  // namespace longhaul::net
