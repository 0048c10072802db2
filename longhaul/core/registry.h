#pragma once
// What a registry says of each part. Registries are plain tables in sync/, overlay/, transfer/,
// codec/ and outer/registry.cpp: adding a part is one line there. The first entry of a table is
// what a job file without that table has.
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "longhaul/base/settings.h"
#include "longhaul/core/overlay.h"
#include "longhaul/core/stop_rule.h"
#include "longhaul/core/strategy.h"
#include "longhaul/core/transfer.h"
#include "longhaul/core/transform.h"

namespace longhaul {

// How a sum's order is fixed, and so where its bits are equal.
enum class Bits : std::uint8_t {
  rank,     // in rank order: simulator and sockets agree
  plan,     // in the fixed order of a plan: they agree
  schedule  // as a schedule that depends on time fixed it: compared by replaying the schedule
};
std::string_view to_string(Bits);

struct CodecTraits {
  Algebra algebra = Algebra::add;
  bool contraction = true;  // may be wrapped in error feedback
  bool unbiased = true;
  bool lossless = false;  // decode(encode(x)) is x
  // Each decoded value is near what was encoded, to some hundredths of the largest beside it: whole
  // models may be written so. Of others it is so in the mean, or with error feedback.
  bool close = true;
  bool sparse = false;  // most of what is decoded is 0
  // Error feedback unless the job says otherwise. Contractions only.
  bool feedback = false;
  double momentum = 0;  // feedback_momentum unless the job says otherwise
};
// One row of docs/costs.md, in words, with the defaults. d: values.
struct CodecCost {
  std::string_view bytes, error;
  std::string_view state = "none";  // beside that of error feedback
};
// What a codec writes. Its contributions may be scaled, sums of what it decoded are not again.
enum class CodecUse : std::uint8_t { contribution, sum };
// All that is said of a codec, once: it stands in the codec's own source.
struct CodecEntry {
  std::string_view name, summary;
  CodecTraits traits = {};
  CodecCost cost = {};
  // Settings of [codec] with which few rounds meet most values: what the conformance suite runs
  // with. Empty: the defaults do.
  std::vector<Setting> small = {};
  // Filled in by codec/entry.h.
  Result<std::unique_ptr<Codec>> (*make)(const Settings&, const Place&, CodecUse) = nullptr;
  std::vector<FieldDoc> (*describe)() = nullptr;
};

struct OuterTraits {
  bool changes = true;  // false: the mean is used as it is
};
struct OuterEntry {
  std::string_view name, summary;
  Result<std::unique_ptr<Transform>> (*make)(const Settings&, const Place&);
  std::vector<FieldDoc> (*describe)();
  OuterTraits traits = {};
};

struct TransferTraits {
  bool lossless = true;    // every value arrives
  Bits bits = Bits::rank;  // schedule: which values arrive depends on time
};
// Stands in transfer/registry.cpp.
struct TransferEntry {
  std::string_view name, summary;
  TransferTraits traits = {};
  // Filled in by transfer/registry.cpp.
  Result<std::unique_ptr<Transfer>> (*make)(const Settings&, const Place&) = nullptr;
  std::vector<FieldDoc> (*describe)() = nullptr;
};

namespace flow {
struct Wan;
}

// What an overlay is made of. `make_codec` gives a fresh job codec: with the job's error feedback
// (to write contributions), or without (to write means and partial sums; exact where the codec's
// algebra does not allow to write those).
struct OverlayParts {
  std::unique_ptr<Transfer> transfer;
  std::function<std::unique_ptr<Codec>(bool feedback)> make_codec;
  std::optional<Rank> server;  // [roles] server; absent: the overlay chooses
  // What the job says of its network (flow/wan.h), sites by name, for overlays that plan by it: one
  // object for all nodes of a program, and the same at all of them, so that plans agree; it may be
  // wrong. Null: nothing is believed.
  std::shared_ptr<const flow::Wan> network;
};
// From which node a mean to which one node alone contributes costs no more than a broadcast.
enum class BroadcastFrom : std::uint8_t { nobody, server, anyone };
struct OverlayTraits {
  Bits bits = Bits::rank;
  bool sums_on_the_way = false;  // nodes add to what others encoded: needs add or reencode
  bool sums_everywhere = false;  // each node adds all parts by itself: all must get the same
  BroadcastFrom broadcast = BroadcastFrom::nobody;
};
struct OverlayEntry {
  std::string_view name, summary;
  Result<std::unique_ptr<Overlay>> (*make)(const Settings&, OverlayParts, const Place&);
  std::vector<FieldDoc> (*describe)();
  OverlayTraits traits;
};

struct SyncParts {
  std::unique_ptr<Overlay> overlay;
  std::unique_ptr<Transform> outer;
  StopConfig stop;
  // One more like `outer`, of strategies that move parts of the model apart.
  std::function<std::unique_ptr<Transform>()> make_outer = {};
  // Of strategies that talk to a server, or to each other, by themselves; as OverlayParts.
  std::unique_ptr<Transfer> transfer = {};
  std::function<std::unique_ptr<Transfer>()> make_transfer = {};  // one more: each channel has one
  std::function<std::unique_ptr<Codec>(bool feedback)> make_codec = {};
  std::optional<Rank> server = {};
  bool codes_down = false;  // [server] down_codec = "same": the server writes in the job's codec
  std::uint32_t standby_every = 0;  // [server] standby_every; 0: no node follows a lost server
  std::uint32_t standbys = 1;       // [server] standbys: that keep a copy of its state
  std::uint32_t batch = 1;          // [data] batch: the most samples of a step
  double rate = 0;                  // [optimizer] rate, for servers that must know it; 0: not known
  // The share of it that a node's local step of this number, from 0, is taken with. Null: 1.
  std::function<double(std::uint64_t step)> rate_share = {};
  bool plain_sgd = false;  // a local step is -rate times the gradient and nothing else
  std::shared_ptr<const flow::Wan> network = {};  // as OverlayParts
};
struct Preset {  // a key of another table that a sync kind sets unless the job file does
  std::string_view table, key;
  Value value;
};
// One row of docs/costs.md, in words. S: the vector as fp32; n: workers; H: local steps of a round.
struct SyncCost {
  std::string_view variant = {};       // "by step"; empty: whatever the settings
  std::vector<Setting> settings = {};  // of [sync], with which the row holds
  std::string_view rounds;             // when a round, or a commit at a server, takes place
  std::string_view sent;               // by a worker, in a round or commit
  std::string_view waits_for, staleness, memory;
  std::string_view when_lost = "as bsp";  // what a lost peer costs
};
struct SyncTraits {
  Bits bits = Bits::rank;
  bool takes_outer = true;
  // What it gives the overlay in the job's codec are gradients or differences of models, of which a
  // value that is missing may count as 0.
  bool takes_gaps = false;
  std::string_view no_feedback = {};  // why error must not be fed back, in words; empty: it may be
  // qsgd, sign, top_k and the like, near their input in the mean or with error feedback only.
  bool takes_unbiased = true;
  std::string_view when_lost = {};  // what it does when a peer is lost, in words
  // May a lost node come back with a new incarnation? Strategy::lets_return() of all its nodes.
  bool lets_return = false;
  // The kind of work that it asks the learner for and that not every learner can do, as name_of()
  // says: "full gradient"; empty: steps, gradients and the state of the optimiser.
  std::string_view asks = {};
  bool served = false;  // talks to a server by itself, not through an overlay
  // No other node has the state of its server, unless [server] standby_every is set.
  bool server_is_needed = false;
  // Its rounds are its own; of means the overlay forms one of the models, when the run ends.
  bool mean_at_end = false;
  // What it sends in this priority the network copies to all receivers, as one flow: the simulator
  // alone can do that.
  std::optional<std::uint8_t> network_multicast = {};
  bool exact_means = false;            // what overlays write of sums and means is fp32
  std::string_view only_overlay = {};  // the one [overlay] kind that goes with it; empty: any
};
// All that is said of a strategy, once: it stands in the strategy's own source as its entry().
struct SyncEntry {
  std::string_view name, summary;
  // Who sends what to whom, and why, in two sentences at most; empty: `summary` says it.
  std::string_view sends = {};
  SyncTraits traits = {};
  std::vector<Preset> presets = {};
  // Settings of [sync] with which a run of few rounds meets every phase (an end of warm-up, say):
  // what the conformance suite runs with. Empty: the defaults do, with a few local steps.
  std::vector<Setting> small = {};
  std::vector<SyncCost> costs = {};  // its rows of docs/costs.md, one at least
  // Changes `traits` to those that hold with these settings of [sync]. Null: they always hold.
  void (*adapt)(const Settings&, SyncTraits&) = nullptr;
  // Filled in by sync/entry.h.
  Result<std::unique_ptr<Strategy>> (*make)(const Settings&, SyncParts, const Place&) = nullptr;
  std::vector<FieldDoc> (*describe)() = nullptr;
};
// The entry with the traits that hold with these settings.
SyncEntry entry_with(const SyncEntry&, const Settings&);

// Why parts cannot be combined.
struct Illegal {
  std::string why;              // with the remedy, unless it is another kind of a table
  std::string_view table = {};  // the table whose kind must be another; empty: see `why`
};
// Nothing: these parts can be combined.
std::optional<Illegal> illegal(const SyncEntry&, const OverlayEntry&, const TransferEntry&,
                               const CodecEntry&, bool error_feedback, const OuterEntry&);

// The entry of that name, or an Error with the nearest ("[overlay] kind").
template <class Entry>
Result<const Entry*> find_entry(std::span<const Entry> table, const Settings& settings,
                                std::string_view name) {
  std::vector<std::string_view> names;
  for (const Entry& entry : table) {
    if (entry.name == name) return &entry;
    names.push_back(entry.name);
  }
  const Setting* kind = settings.find("kind");
  Setting asked = kind ? *kind : Setting{"kind", {std::string(name)}, settings.file, 0};
  return bad_setting(settings, asked, "a known kind" + suggestion(name, names));
}

}  // namespace longhaul
