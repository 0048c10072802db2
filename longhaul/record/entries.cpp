#include "longhaul/record/entries.h"

#include <algorithm>

#include <xxhash.h>

namespace longhaul::record {
namespace {

constexpr std::uint64_t kMaxValues = std::uint64_t{1} << 40;

// What Layout CHECKs, said of a file.
bool is_layout(const std::vector<LayerRange>& layers) {
  std::uint64_t end = 0;
  bool buffers = false;
  for (const LayerRange& layer : layers) {
    const bool buffer = layer.role == LayerRange::Role::buffer;
    if (layer.role > LayerRange::Role::buffer || (buffers && !buffer)) return false;
    if (layer.range.offset != end || layer.range.length > kMaxValues - end) return false;
    end += layer.range.length;
    buffers = buffer;
  }
  return true;
}

void archive_layout(Archive& ar, std::shared_ptr<const Layout>& layout) {
  std::vector<LayerRange> layers = layout->layers();
  std::uint64_t count = layers.size();
  ar(count);
  if (ar.loading()) layers.clear();
  for (std::uint64_t i = 0; i < count && !ar.failed(); ++i) {
    if (ar.loading()) layers.emplace_back();
    LayerRange& layer = layers[i];
    ar(layer.name, layer.range, layer.shape, layer.role);
  }
  if (!ar.loading() || ar.failed()) return;
  if (!is_layout(layers)) return ar.fail("holds ranges that are no layout");
  layout = std::make_shared<const Layout>(std::move(layers));
}

std::uint64_t hash_of(std::span<const float> values) {
  return XXH3_64bits(values.data(), values.size_bytes());
}

}  // namespace

void Header::state(Archive& ar) {
  ar(cpu, job, job_hash, seed, mode, rank, nodes, site, rank_in_site, incarnation, learner, phantom,
     training_samples);
  archive_layout(ar, layout);
  if (mode > Mode::full || rank >= nodes) ar.fail("names a mode or a rank that is not there");
}

LearnerVectors LearnerVectors::of(Learner* learner, Mode mode) {
  if (!learner) return {};
  const std::span<const float> params = learner->params(), grads = learner->grads();
  LearnerVectors v{hash_of(params), hash_of(grads), {}, {}};
  if (mode == Mode::full) {
    v.params.assign(params.begin(), params.end());
    v.grads.assign(grads.begin(), grads.end());
  }
  return v;
}

bool same_layout(const Layout& a, const Layout& b) {
  const auto same = [](const LayerRange& x, const LayerRange& y) {
    return x.name == y.name && x.range == y.range && x.shape == y.shape && x.role == y.role;
  };
  return std::equal(a.layers().begin(), a.layers().end(), b.layers().begin(), b.layers().end(),
                    same);
}

}  // namespace longhaul::record
