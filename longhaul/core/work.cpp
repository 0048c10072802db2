#include "longhaul/core/work.h"

#include <array>
#include <cstring>

#include "longhaul/base/archive.h"

namespace longhaul {

std::string_view name_of(const Work& work) {
  static constexpr std::array<std::string_view, std::variant_size_v<Work>> kNames = {
      "local step",  "gradient",       "apply gradient", "proximal step",   "sufficient factors",
      "local solve", "scratch step",   "score",          "reset optimizer", "full gradient",
      "infer",       "fixed gradient", "backward part",  "optimizer state", "forward part"};
  static_assert(!kNames.back().empty(), "a name for each kind, in their order");
  return kNames[work.index()];
}

bool trains(const Work& work) {
  return std::holds_alternative<LocalStep>(work) || std::holds_alternative<Gradient>(work) ||
         std::holds_alternative<ProximalStep>(work) ||
         std::holds_alternative<SufficientFactors>(work) ||
         std::holds_alternative<BackwardPart>(work);
}

std::vector<float> pack_bytes(std::span<const std::byte> bytes) {
  const auto length = std::uint64_t(bytes.size());
  constexpr std::size_t kLength = sizeof(length) / sizeof(float);
  std::vector<float> packed(kLength + (bytes.size() + sizeof(float) - 1) / sizeof(float));
  std::memcpy(packed.data(), &length, sizeof(length));
  if (!bytes.empty()) std::memcpy(packed.data() + kLength, bytes.data(), bytes.size());
  return packed;
}

Result<Buffer> unpack_bytes(std::span<const float> packed) {
  std::uint64_t length = 0;
  constexpr std::size_t kLength = sizeof(length) / sizeof(float);
  if (packed.size() < kLength) return malformed("bytes without their length");
  std::memcpy(&length, packed.data(), sizeof(length));
  const std::uint64_t room = (packed.size() - kLength) * sizeof(float);
  if (length > room || room - length >= sizeof(float))
    return malformed("bytes of another length than they say");
  const auto bytes = std::as_bytes(packed.subspan(kLength)).first(length);
  return Buffer(bytes.begin(), bytes.end());
}

void archive_snapshot(Archive& ar, Snapshot& snapshot) {
  bool full = snapshot != nullptr;
  ar(full);
  if (!full) return snapshot.reset();
  std::vector<float> values;
  if (!ar.loading()) values = *snapshot;
  ar(values);
  if (ar.loading()) snapshot = snapshot_of(std::move(values));
}

namespace {

struct ArchiveWork {
  Archive& ar;
  void operator()(LocalStep& w) const { ar(w.ahead); }
  void operator()(ApplyGradient& w) const { ar(w.first, w.end); }
  void operator()(ForwardPart& w) const { ar(w.first, w.end, w.share); }
  void operator()(ProximalStep& w) const {
    ar(w.mu);
    archive_snapshot(ar, w.anchor);
  }
  void operator()(SufficientFactors& w) const { ar(w.layers); }
  void operator()(BackwardPart& w) const { ar(w.first, w.end, w.begins, w.layers, w.share); }
  void operator()(LocalSolve& w) const { ar(w.linear, w.anchors, w.tolerance, w.summed); }
  void operator()(FullGradient& w) const { ar(w.at, w.summed); }
  void operator()(FixedGradient& w) const { ar(w.samples); }
  void operator()(OptimizerState& w) const { ar(w.set, w.whole); }
  void operator()(Score& w) const { archive_snapshot(ar, w.model); }
  void operator()(Infer& w) const { ar(w.model, w.items); }
  template <class Empty>
  void operator()(Empty&) const {
    static_assert(std::is_empty_v<Empty>);
  }
};

template <std::size_t... I>
void emplace_nth(Work& work, std::size_t index, std::index_sequence<I...>) {
  ((index == I ? (void)work.emplace<I>() : void()), ...);
}

}  // namespace

void archive_work(Archive& ar, Work& work) {
  auto index = std::uint32_t(work.index());
  ar(index);
  if (index >= std::variant_size_v<Work>) return ar.fail("holds an unknown kind of work");
  if (ar.loading()) emplace_nth(work, index, std::make_index_sequence<std::variant_size_v<Work>>());
  std::visit(ArchiveWork{ar}, work);
}

}  // namespace longhaul
