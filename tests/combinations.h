#pragma once
// Which parts are run together: made from the registries, so that a part added there is covered
// before its author writes a test.
#include <algorithm>
#include <string>
#include <vector>

#include "longhaul/core/registry.h"

namespace longhaul::conformance {

// A part with its settings: the defaults, or one choice or flag of its table set otherwise.
template <class Entry>
struct Variant {
  const Entry* entry = nullptr;
  std::vector<Setting> settings;
  bool feedback = false;     // codecs: in error feedback
  std::size_t number = 0;    // among those of its entry; 0: the defaults
  std::string name() const;  // "hub", "hub_sequential"
};

struct Combination {
  Variant<SyncEntry> sync;
  Variant<OverlayEntry> overlay;
  Variant<TransferEntry> transfer;
  Variant<CodecEntry> codec;
  Variant<OuterEntry> outer;
  std::string name() const;
};

// The one of this name, which is among them.
template <class Entry>
Variant<Entry> variant_named(const std::vector<Variant<Entry>>& variants, std::string_view name) {
  const auto found =
      std::ranges::find_if(variants, [&](const auto& one) { return one.name() == name; });
  LH_CHECK(found != variants.end());
  return *found;
}
const std::vector<Variant<SyncEntry>>& sync_variants();
const std::vector<Variant<OverlayEntry>>& overlay_variants();
// Those that suites go through: all; under a sanitizer, many times slower, the defaults.
std::vector<Variant<OverlayEntry>> tried_overlays();
// For suites over sockets: in the gate one in three of these; with another `turn` others.
std::vector<Variant<OverlayEntry>> tried_overlays(std::size_t turn);
const std::vector<Variant<TransferEntry>>& transfer_variants();
const std::vector<Variant<CodecEntry>>& codec_variants();
const std::vector<Variant<OuterEntry>>& outer_variants();

// Do its bits depend on times? Those of a forest that learns its rates do, whatever its entry says.
bool by_schedule(const Variant<OverlayEntry>&);
// An outer momentum of 0.9 adds up ten updates. Where one is of many local steps, the first rounds
// swing past the target, and after so few as tests take a run may stand beyond it.
bool swings(const Combination&);
// An update waits until it is applied, and the rest of it, which a sparse codec keeps back, waits
// before that. Such a combination needs twice the rounds of others.
bool lags(const Combination&);

// Why it is refused when a job names it; nothing if it may run.
std::optional<Illegal> refusal(const Combination&);
// The plain combination of a strategy and an overlay: fp32, no outer optimiser.
Combination plain(const Variant<SyncEntry>&, const Variant<OverlayEntry>&);
// The strategy's traits that hold with its settings here.
SyncTraits traits_of(const Variant<SyncEntry>&);
// The plain combination of each strategy that can be run with this overlay. With other settings of
// the overlay: that of the first strategy that lets a lost node return.
std::vector<Combination> plains_with(const Variant<OverlayEntry>&);
// Legal combinations with this overlay in which every variant of every other part occurs, if it is
// legal with any. They are as many as the longest of those lists, not their product. Each overlay
// has a share of the strategies' other settings; together they have all.
const std::vector<Combination>& all_combinations_with(const Variant<OverlayEntry>&);
// All of them for the defaults; one in kShare for each other setting of the overlay, not the same
// ones for all settings: what differs between them is little. Under a sanitizer (effort.h) each
// strategy with one in kSanitized of its overlays, and a share of the strategies' other settings.
// In the gate those of in_the_gate(turn) alone.
inline constexpr std::size_t kShare = 3, kSanitized = 6;
std::vector<Combination> combinations_with(const Variant<OverlayEntry>&, std::size_t turn = 0);
// The combinations of one suite in the gate. The code paths are those of each part by itself: how
// it runs, loses a node, gets one back, is saved. So a suite tries each strategy once, with an
// overlay that few have had so far. It tries each overlay, codec, transfer and outer optimiser at
// least once, also error feedback, and three of the strategies' other settings. Each overlay has
// one strategy with rounds in which a lost node may return. Another `turn` gives other pairs.
std::vector<Combination> in_the_gate(std::size_t turn);
// The names of these code paths in a combination, without its strategy.
std::vector<std::string> paths_of(const Combination&);

}  // namespace longhaul::conformance
