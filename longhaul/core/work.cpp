#include "longhaul/core/work.h"

#include "longhaul/base/archive.h"

namespace longhaul {

void archive_snapshot(Archive& ar, Snapshot& snapshot) {
  bool full = snapshot != nullptr;
  ar(full);
  if (!full) return snapshot.reset();
  std::vector<float> values;
  if (!ar.loading()) values = *snapshot;
  ar(values);
  if (ar.loading()) snapshot = std::make_shared<const std::vector<float>>(std::move(values));
}

namespace {

struct ArchiveWork {
  Archive& ar;
  void operator()(LocalStep& w) const { ar(w.ahead); }
  void operator()(ProximalStep& w) const {
    ar(w.mu);
    archive_snapshot(ar, w.anchor);
  }
  void operator()(SufficientFactors& w) const { ar(w.layers); }
  void operator()(BackwardPart& w) const { ar(w.first, w.end, w.begins, w.layers, w.share); }
  void operator()(LocalSolve& w) const { ar(w.linear, w.anchors, w.tolerance, w.summed); }
  void operator()(FullGradient& w) const { ar(w.at, w.summed); }
  void operator()(FixedGradient& w) const { ar(w.samples); }
  void operator()(OptimizerState& w) const { ar(w.set); }
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
