#pragma once
// Entry types of the registries, one entry per part. Registries are plain tables in sync/,
// overlay/, transfer/, codec/ and outer/registry.cpp: a new part adds one line. The first entry of
// a table is the default of a job file without that table.
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

// How the order of a sum is fixed, and so which runs are bit-identical.
enum class Bits : std::uint8_t {
  rank,     // rank order: simulator and sockets agree
  plan,     // fixed order of a plan: simulator and sockets agree
  schedule  // order of a timing-dependent schedule: compared by replay of the schedule
};
std::string_view to_string(Bits);

struct CodecTraits {
  Algebra algebra = Algebra::add;
  bool contraction = true;  // may be wrapped in error feedback
  bool unbiased = true;
  bool lossless = false;  // decode(encode(x)) is x
  // Each decoded value is near the encoded one, within some hundredths of the largest neighbour:
  // whole models may use the codec. Other codecs are near in the mean only, or with error feedback.
  bool close = true;
  bool sparse = false;  // most decoded values are 0
  // Error feedback by default. Contractions only.
  bool feedback = false;
  double momentum = 0;  // default of feedback_momentum
};
// One row of docs/costs.md, as text, with the default settings. d: values.
struct CodecCost {
  std::string_view bytes, error;
  std::string_view state = "none";  // in addition to that of error feedback
};
// Input of a codec. Contributions may be scaled; sums of decoded values must not be scaled again.
enum class CodecUse : std::uint8_t { contribution, sum };
// Complete description of a codec, in the codec's own source.
struct CodecEntry {
  std::string_view name, summary;
  CodecTraits traits = {};
  CodecCost cost = {};
  // Settings of [codec] for the conformance suite, so that few rounds meet most values. Empty: the
  // defaults.
  std::vector<Setting> small = {};
  // Set by codec/entry.h.
  Result<std::unique_ptr<Codec>> (*make)(const Settings&, const Place&, CodecUse) = nullptr;
  std::vector<FieldDoc> (*describe)() = nullptr;
};

struct OuterTraits {
  bool changes = true;  // false: the mean is used unchanged
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
// Defined in transfer/registry.cpp.
struct TransferEntry {
  std::string_view name, summary;
  TransferTraits traits = {};
  // Set by transfer/registry.cpp.
  Result<std::unique_ptr<Transfer>> (*make)(const Settings&, const Place&) = nullptr;
  std::vector<FieldDoc> (*describe)() = nullptr;
};

namespace flow {
struct Wan;
}

// Components of an overlay. `make_codec` returns a new codec as configured: with the job's error
// feedback for contributions, or without for means and partial sums. The latter codec is exact if
// the codec's algebra does not allow encoded sums.
struct OverlayParts {
  std::unique_ptr<Transfer> transfer;
  std::function<std::unique_ptr<Codec>(bool feedback)> make_codec;
  std::optional<Rank> server;  // [roles] server; absent: the overlay chooses
  // Network in the job file (flow/wan.h), sites by name, for overlays that plan with it. One object
  // for all nodes of a program, and equal on all nodes, so that plans agree. Its values may be
  // wrong. Null: not configured.
  std::shared_ptr<const flow::Wan> network;
};
// Nodes from which a mean with one contribution costs no more than a broadcast.
enum class BroadcastFrom : std::uint8_t { nobody, server, anyone };
struct OverlayTraits {
  Bits bits = Bits::rank;
  bool sums_on_the_way = false;  // nodes add to encoded values of others: needs add or reencode
  bool sums_everywhere = false;  // each node adds all parts itself: all nodes must receive the same
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
  // Creates another transform like `outer`, for strategies whose parts of the model move
  // separately.
  std::function<std::unique_ptr<Transform>()> make_outer = {};
  // For strategies that exchange with a server or each other directly; see OverlayParts.
  std::unique_ptr<Transfer> transfer = {};
  std::function<std::unique_ptr<Transfer>()> make_transfer = {};  // one per channel
  std::function<std::unique_ptr<Codec>(bool feedback)> make_codec = {};
  std::optional<Rank> server = {};
  bool codes_down = false;          // [server] down_codec = "same": the server uses the job's codec
  std::uint32_t standby_every = 0;  // [server] standby_every; 0: no node replaces a lost server
  std::uint32_t standbys = 1;       // [server] standbys: number of nodes with a copy of its state
  std::uint32_t batch = 1;          // [data] batch: maximum number of samples per step
  double rate = 0;                  // [optimizer] rate, for servers that must know it; 0: unknown
  // Returns the factor on `rate` for a node's local step of this number, from 0. Null: always 1.
  std::function<double(std::uint64_t step)> rate_share = {};
  bool plain_sgd = false;  // a local step is exactly -rate times the gradient
  std::shared_ptr<const flow::Wan> network = {};  // see OverlayParts
};
struct Preset {  // default of a sync kind for a key of another table
  std::string_view table, key;
  Value value;
};
// One row of docs/costs.md, as text. S: the vector as fp32; n: workers; H: local steps of a round.
struct SyncCost {
  std::string_view variant = {};       // "by step"; empty: any settings
  std::vector<Setting> settings = {};  // settings of [sync] that the row holds for
  std::string_view rounds;             // time of a round, or of a commit at a server
  std::string_view sent;               // traffic of a worker per round or commit
  std::string_view waits_for, staleness, memory;
  std::string_view when_lost = "as bsp";  // cost of a lost peer
};
struct SyncTraits {
  Bits bits = Bits::rank;
  bool takes_outer = true;
  // The vectors for the overlay in the job's codec are gradients or differences of models, in which
  // a missing value may count as 0.
  bool takes_gaps = false;
  std::string_view no_feedback = {};  // reason, as text, against error feedback; empty: none
  // Accepts codecs that are near their input only in the mean or with error feedback (qsgd, sign,
  // top_k).
  bool takes_unbiased = true;
  std::string_view when_lost = {};  // reaction to a lost peer, as text
  // Whether a lost node can rejoin as a new incarnation: Strategy::lets_return() of all its nodes.
  bool lets_return = false;
  // Kind of work, by name_of(), that not every learner can do, such as "full gradient". Empty:
  // steps, gradients and the state of the optimiser only.
  std::string_view asks = {};
  bool served = false;  // exchanges with a server directly, without an overlay
  // No other node has the server's state, unless [server] standby_every is set.
  bool server_is_needed = false;
  // Has no global rounds; the overlay forms only the mean of the models at the end of the run.
  bool mean_at_end = false;
  // Priority of messages that the network copies to all receivers as one flow. Only the simulator
  // can do that.
  std::optional<std::uint8_t> network_multicast = {};
  bool exact_means = false;            // overlays write sums and means as fp32
  std::string_view only_overlay = {};  // the only compatible [overlay] kind; empty: any
};
// Complete description of a strategy, in the strategy's own source as its entry().
struct SyncEntry {
  std::string_view name, summary;
  // Senders, receivers and content, with the reason, in at most two sentences; empty: see
  // `summary`.
  std::string_view sends = {};
  SyncTraits traits = {};
  std::vector<Preset> presets = {};
  // Settings of [sync] for the conformance suite, so that a short run meets every phase (an end of
  // warm-up, say). Empty: the defaults, with few local steps.
  std::vector<Setting> small = {};
  std::vector<SyncCost> costs = {};  // rows of docs/costs.md, at least one
  // Adjusts `traits` to these settings of [sync]. Null: the traits hold for any settings.
  void (*adapt)(const Settings&, SyncTraits&) = nullptr;
  // Set by sync/entry.h.
  Result<std::unique_ptr<Strategy>> (*make)(const Settings&, SyncParts, const Place&) = nullptr;
  std::vector<FieldDoc> (*describe)() = nullptr;
};
// Returns the entry with the traits for these settings.
SyncEntry entry_with(const SyncEntry&, const Settings&);

// Reason why parts cannot be combined.
struct Illegal {
  std::string why;              // includes the remedy, unless that is another kind of a table
  std::string_view table = {};  // table whose kind must change; empty: see `why`
};
// Returns an empty optional if these parts can be combined.
std::optional<Illegal> illegal(const SyncEntry&, const OverlayEntry&, const TransferEntry&,
                               const CodecEntry&, bool error_feedback, const OuterEntry&);

// Returns the entry of that name, or an Error with the nearest name ("[overlay] kind").
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
