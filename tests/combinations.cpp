#include "tests/combinations.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "longhaul/base/testing/effort.h"
#include "longhaul/codec/registry.h"
#include "longhaul/outer/registry.h"
#include "longhaul/overlay/registry.h"
#include "longhaul/sync/registry.h"
#include "longhaul/transfer/registry.h"

namespace longhaul::conformance {
namespace {

// The settings tried beside the defaults: each other choice of a name, each flag turned round.
std::vector<std::vector<Setting>> settings_of(const std::vector<FieldDoc>& docs) {
  std::vector<std::vector<Setting>> all = {{}};
  for (const FieldDoc& doc : docs) {
    const std::string key(doc.field.name);
    if (const bool* flag = std::get_if<bool>(&doc.data.data)) all.push_back({{key, {!*flag}}});
    for (std::string_view choice : doc.field.choices)
      if (doc.value != to_text(Value{std::string(choice)}))
        all.push_back({{key, {std::string(choice)}}});
  }
  return all;
}

// Made once for each kind of part, which has one registry: they are asked for by every test,
// thousands of times by some.
template <class Entry>
const std::vector<Variant<Entry>>& variants(std::span<const Entry> registry) {
  static const auto made = [&] {
    std::vector<Variant<Entry>> all;
    for (const Entry& entry : registry)
      for (std::size_t number = 0; auto& settings : settings_of(entry.describe()))
        all.push_back({&entry, settings, false, number++});
    return all;
  }();
  return made;
}

std::vector<Variant<CodecEntry>> legal_codecs() {
  std::vector<Variant<CodecEntry>> legal;
  for (Variant<CodecEntry> v : variants(codec::registry())) {
    const auto feedback =
        codec::wants_error_feedback({"codec", "", 0, [&] {
                                       std::vector<Setting> settings = v.settings;
                                       settings.push_back({"kind", {std::string(v.entry->name)}});
                                       return settings;
                                     }()});
    if (!feedback) continue;  // lossless codecs and expansions refuse it
    v.feedback = *feedback;
    legal.push_back(v);
  }
  return legal;
}

SyncEntry entry_of(const Variant<SyncEntry>& sync) {
  return entry_with(*sync.entry, {"sync", "", 0, sync.settings});
}

std::optional<Illegal> illegal(const Combination& c) {
  const SyncEntry sync = entry_of(c.sync);
  return longhaul::illegal(sync, *c.overlay.entry, *c.transfer.entry, *c.codec.entry,
                           c.codec.feedback, *c.outer.entry);
}

// The variants from number `at` on, round about.
template <class T>
const T& wheel(const std::vector<T>& variants, std::size_t at) {
  return variants[at % variants.size()];
}

}  // namespace

template <class Entry>
std::string Variant<Entry>::name() const {
  std::string text(entry->name);
  for (const Setting& s : settings) {
    const auto* choice = std::get_if<std::string>(&s.value.data);
    text += "_" + (choice ? *choice : s.key);
  }
  return text;
}

template struct Variant<SyncEntry>;
template struct Variant<OverlayEntry>;
template struct Variant<TransferEntry>;
template struct Variant<CodecEntry>;
template struct Variant<OuterEntry>;

std::string Combination::name() const {
  return sync.name() + "_" + overlay.name() + "_" + transfer.name() + "_" + codec.name() + "_" +
         outer.name();
}

const std::vector<Variant<SyncEntry>>& sync_variants() { return variants(sync::registry()); }
const std::vector<Variant<OverlayEntry>>& overlay_variants() {
  return variants(overlay::registry());
}
std::vector<Variant<OverlayEntry>> tried_overlays() {
  auto all = overlay_variants();
  if (testing::kStride > 1) std::erase_if(all, [](const auto& one) { return one.number > 0; });
  return all;
}
std::vector<Variant<OverlayEntry>> tried_overlays(std::size_t turn) {
  auto all = tried_overlays();
  if (testing::kGate) std::erase_if(all, [&](const auto&) { return turn++ % 3 != 0; });
  return all;
}
bool by_schedule(const Variant<OverlayEntry>& overlay) {
  const auto learns = [](const Setting& s) {
    const auto* choice = std::get_if<std::string>(&s.value.data);
    return s.key == "rates" && choice && *choice == "learned";
  };
  return overlay.entry->traits.bits == Bits::schedule ||
         std::any_of(overlay.settings.begin(), overlay.settings.end(), learns);
}
const std::vector<Variant<TransferEntry>>& transfer_variants() {
  return variants(transfer::registry());
}
const std::vector<Variant<OuterEntry>>& outer_variants() { return variants(outer::registry()); }

const std::vector<Variant<CodecEntry>>& codec_variants() {
  static const auto all = legal_codecs();
  return all;
}

std::optional<Illegal> refusal(const Combination& c) { return illegal(c); }

bool swings(const Combination& c) {
  const std::string sync = c.sync.name();
  return c.outer.entry->name == "momentum" &&
         (sync.starts_with("esync_") || sync == "skewscout_fedavg");
}

bool lags(const Combination& c) {
  return c.sync.name().starts_with("staleness_lab_") && c.codec.name().ends_with("error_feedback");
}

SyncTraits traits_of(const Variant<SyncEntry>& sync) { return entry_of(sync).traits; }

Combination plain(const Variant<SyncEntry>& sync, const Variant<OverlayEntry>& overlay) {
  return {sync, overlay, transfer_variants().at(0), codec_variants().at(0), outer_variants().at(0)};
}

// The overlays that a strategy can be run with.
std::vector<const OverlayEntry*> overlays_of(const SyncEntry& sync) {
  std::vector<const OverlayEntry*> all;
  for (const OverlayEntry& overlay : overlay::registry())
    if (!illegal(plain({.entry = &sync}, {.entry = &overlay}))) all.push_back(&overlay);
  return all;
}

// Under a sanitizer each strategy meets one in kSanitized of its overlays, and one at least; its
// neighbours meet others.
bool is_tried(const Combination& c) {
  if (testing::kStride == 1) return true;
  static const auto overlays = [] {
    std::map<const SyncEntry*, std::vector<const OverlayEntry*>> of;
    for (const SyncEntry& sync : sync::registry()) of[&sync] = overlays_of(sync);
    return of;
  }();
  const auto& its = overlays.at(c.sync.entry);
  const auto at = std::ranges::find(its, c.overlay.entry);
  if (at == its.end()) return false;
  const auto sync = std::size_t(c.sync.entry - sync::registry().data());
  return (sync + std::size_t(at - its.begin())) % std::min(kSanitized, its.size()) == 0;
}

std::vector<Combination> plains_with(const Variant<OverlayEntry>& overlay) {
  std::vector<Combination> all;
  for (const Variant<SyncEntry>& sync : sync_variants()) {
    const Combination one = plain(sync, overlay);
    if (sync.number > 0 || illegal(one) || !is_tried(one)) continue;
    if (overlay.number > 0 && !sync.entry->traits.lets_return) continue;
    all.push_back(one);
    if (overlay.number > 0) break;
  }
  return all;
}

// The strategies that can be run with it, and one in kShare of their other settings, others with
// each overlay; of those that talk to a server by themselves, which occur with the hub alone, all.
std::vector<Variant<SyncEntry>> syncs_with(const Variant<OverlayEntry>& overlay) {
  std::vector<Variant<SyncEntry>> some;
  auto turn = std::size_t(overlay.entry - overlay::registry().data());
  for (const Variant<SyncEntry>& one : sync_variants()) {
    if (illegal(plain(one, overlay))) continue;
    if (one.number == 0 || one.entry->traits.served || turn++ % kShare == 0) some.push_back(one);
  }
  return some;
}

namespace {
std::vector<Combination> dealt_to(const Variant<OverlayEntry>& overlay) {
  const auto syncs = syncs_with(overlay);
  const auto& transfers = transfer_variants();
  const auto& codecs = codec_variants();
  const auto& outers = outer_variants();
  const std::size_t count =
      std::max({syncs.size(), transfers.size(), codecs.size(), outers.size()});
  std::vector<Combination> all;
  for (std::size_t i = 0; i < count; ++i) {
    // Wheels of different speed; where the first try is illegal the codec turns on, then the outer,
    // then the transfer.
    const std::size_t numbers = codecs.size() * outers.size();
    const SyncEntry sync = entry_of(wheel(syncs, i));
    for (std::size_t shift = 0; shift < numbers * transfers.size(); ++shift) {
      const auto& transfer = wheel(transfers, i + shift / numbers);
      // What refuses plain numbers refuses all.
      if (shift % numbers == 0 &&
          longhaul::illegal(sync, *overlay.entry, *transfer.entry, *codecs[0].entry,
                            codecs[0].feedback, *outers[0].entry)) {
        shift += numbers - 1;
        continue;
      }
      const auto& codec = wheel(codecs, i + shift);
      const auto& outer = wheel(outers, i + i / outers.size() + shift / codecs.size());
      if (longhaul::illegal(sync, *overlay.entry, *transfer.entry, *codec.entry, codec.feedback,
                            *outer.entry))
        continue;
      all.push_back({wheel(syncs, i), overlay, transfer, codec, outer});
      break;
    }
  }
  return all;
}
}  // namespace

const std::vector<Combination>& all_combinations_with(const Variant<OverlayEntry>& overlay) {
  static std::mutex mutex;
  static std::map<std::pair<const OverlayEntry*, std::size_t>, std::vector<Combination>> known;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = known.try_emplace({overlay.entry, overlay.number});
  if (is_new) found->second = dealt_to(overlay);
  return found->second;
}

std::vector<std::string> paths_of(const Combination& c) {
  std::vector<std::string> paths;
  const auto add = [&](const char* part, std::string_view name) {
    paths.push_back(part + std::string(name));
  };
  add("overlay ", c.overlay.entry->name);
  add("codec ", c.codec.entry->name);
  add("transfer ", c.transfer.entry->name);
  add("outer ", c.outer.entry->name);
  if (c.codec.feedback) add("error feedback", "");
  return paths;
}

namespace {
std::vector<Combination> dealt_in_the_gate(std::size_t turn) {
  std::vector<Combination> all, dealt;
  auto overlays = overlay_variants();
  std::erase_if(overlays, [](const auto& one) { return one.number > 0; });
  for (std::size_t i = 0; i < overlays.size(); ++i) {
    std::size_t others = 0;
    for (const Combination& one : all_combinations_with(overlays[i])) {
      if (one.sync.number == 0)
        all.push_back(one);
      else if (i % 3 == turn % 3 && others++ == turn)
        dealt.push_back(one);
    }
  }
  std::set<std::string> met;
  std::map<const OverlayEntry*, std::size_t> used;
  const auto unmet = [&](const Combination& c) {
    const auto paths = paths_of(c);
    return std::ranges::count_if(paths, [&](const auto& one) { return !met.contains(one); });
  };
  const auto deal = [&](const Combination& c) {
    dealt.push_back(c);
    ++used[c.overlay.entry];
    const auto paths = paths_of(c);
    met.insert(paths.begin(), paths.end());
  };
  // Those first that can be run with all overlays, and let a lost node return.
  std::vector<const SyncEntry*> syncs;
  for (const SyncEntry& one : sync::registry()) syncs.push_back(&one);
  std::ranges::stable_sort(syncs, {}, [](const SyncEntry* one) {
    return one->traits.served ? 2 : one->traits.lets_return ? 0 : 1;
  });
  for (std::size_t i = 0; i < syncs.size(); ++i) {
    const Combination* best = nullptr;
    for (std::size_t j = 0; j < all.size(); ++j) {
      const std::size_t first = (i + turn) % overlays.size() * all.size() / overlays.size();
      const Combination& one = wheel(all, first + j);
      if (one.sync.entry != syncs[i]) continue;
      if (!best || std::pair(used[one.overlay.entry], -unmet(one)) <
                       std::pair(used[best->overlay.entry], -unmet(*best)))
        best = &one;
    }
    deal(*best);
  }
  for (const Combination& one : all)
    if (unmet(one) > 0) deal(one);
  return dealt;
}
}  // namespace

std::vector<Combination> in_the_gate(std::size_t turn) {
  static std::mutex mutex;
  static std::map<std::size_t, std::vector<Combination>> known;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = known.try_emplace(turn);
  if (is_new) found->second = dealt_in_the_gate(turn);
  return found->second;
}

std::vector<Combination> combinations_with(const Variant<OverlayEntry>& overlay, std::size_t turn) {
  using longhaul::testing::kStride;
  std::vector<Combination> some;
  if (testing::kGate) {
    for (const Combination& one : in_the_gate(turn))
      if (one.overlay.name() == overlay.name()) some.push_back(one);
    return some;
  }
  const std::vector<Combination>& all = all_combinations_with(overlay);
  std::size_t others = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool tried = all[i].sync.number == 0 ? is_tried(all[i]) : others++ % kStride == 0;
    const bool dealt = overlay.number == 0 || i % kShare == overlay.number % kShare;
    if (tried && dealt) some.push_back(all[i]);
  }
  return some;
}

}  // namespace longhaul::conformance
