#include "longhaul/sync/shuffle/conclusion.h"

#include <algorithm>
#include <bit>

namespace longhaul::sync::shuffle {
namespace {

constexpr std::size_t kHashBits = 64;

// FNV-1a over the bits of the numbers: https://datatracker.ietf.org/doc/html/draft-eastlake-fnv
std::uint64_t hash_of_model(std::span<const float> values) {
  std::uint64_t hash = 14695981039346656037u;
  for (const float value : values)
    for (std::uint32_t bits = std::bit_cast<std::uint32_t>(value), i = 0; i < 4; ++i, bits >>= 8)
      hash = (hash ^ (bits & 0xff)) * 1099511628211u;
  return hash;
}

}  // namespace

Status Conclusion::begin(Model model, bool compare, Turn& turn, Turn below) {
  model_ = model;
  comparing_ = compare;
  if (!compare) return average(turn, below);
  std::vector<float> bits;
  if (!turn.place().phantom)
    for (std::uint64_t hash = hash_of_model(turn.params()); bits.size() < kHashBits; hash >>= 1)
      bits.push_back(float(hash & 1));
  return overlay_.begin({0, 0, kHashes}, {}, {.values = bits, .length = kHashBits, .exact = true},
                        below);
}

Status Conclusion::average(Turn& turn, Turn below) {
  comparing_ = false;
  const bool gives =
      model_ == Model::mean || senior_worker(turn.place(), turn.view()) == turn.self();
  return overlay_.begin({round_, 0, kModels}, {},
                        {.values = turn.params(),
                         .length = turn.place().layout->size(),
                         .contributes = gives,
                         .exact = true},
                        below);
}

Result<bool> Conclusion::take(Turn& turn, Turn below) {
  if (comparing_) {
    const auto bits = overlay_.poll({0, 0, kHashes});
    if (!bits) return false;
    const bool equal = std::all_of(bits->values.begin(), bits->values.end(),
                                   [](float bit) { return bit == 0 || bit == 1; });
    if (equal) return true;
    LH_TRY(average(turn, below));
  }
  const auto mean = overlay_.poll({round_, 0, kModels});
  if (!mean) return false;
  if (mean->counted.empty()) {  // the senior worker was lost: the next one gives its own
    ++round_;
    LH_TRY(average(turn, below));
    return take(turn, below);
  }
  std::copy(mean->values.begin(), mean->values.end(), turn.params().begin());
  return true;
}

}  // namespace longhaul::sync::shuffle
