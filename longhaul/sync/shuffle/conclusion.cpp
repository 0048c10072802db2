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

bool all_equal(const Outcome& bits) {
  return std::all_of(bits.values.begin(), bits.values.end(),
                     [](float bit) { return bit == 0 || bit == 1; });
}

}  // namespace

std::vector<float> Conclusion::hash_bits(Turn& turn) const {
  std::vector<float> bits;
  if (!turn.place().phantom)
    for (std::uint64_t hash = hash_of_model(turn.params()); bits.size() < kHashBits; hash >>= 1)
      bits.push_back(float(hash & 1));
  return bits;
}

Status Conclusion::begin(Model model, bool compare, Turn& turn, Turn below) {
  model_ = model;
  comparing_ = compare;
  if (!compare) return average(turn, below);
  return overlay_.begin({0, 0, kHashes}, {},
                        {.values = hash_bits(turn), .length = kHashBits, .exact = true}, below);
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
    if (all_equal(*bits)) return true;
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

// --- at a worker that has come back

void Conclusion::join(Model model, bool compare, bool has_model) {
  model_ = model;
  comparing_ = compare;
  has_model_ = has_model;
}

// Only in the first round of a range: a later one is a repetition, of others.
Contribution Conclusion::part_in(std::uint32_t range, Round round, std::span<const float> bits,
                                 Turn& turn) const {
  const bool is_hash = range == kHashes;
  const bool gives =
      has_model_ && round == 0 &&
      (is_hash || model_ == Model::mean || senior_worker(turn.place(), turn.view()) == turn.self());
  return {.values = is_hash ? bits : std::span<const float>(turn.params()),
          .length = is_hash ? kHashBits : turn.place().layout->size(),
          .contributes = gives,
          .exact = true};
}

// The outcome of the round that runs, once.
Result<std::optional<Outcome>> Conclusion::follow(std::uint32_t range, Turn& turn, Turn below) {
  const auto next = overlay_.next_round(0, range);
  const auto begun = begun_.find(range);
  if (begun == begun_.end()) {
    if (!next) return std::optional<Outcome>();
    const std::vector<float> bits = range == kHashes ? hash_bits(turn) : std::vector<float>();
    LH_TRY(overlay_.begin({*next, 0, range}, {}, part_in(range, *next, bits, turn), below));
    begun_[range] = *next;
  }
  auto outcome = overlay_.poll({begun_.at(range), 0, range});
  if (outcome) begun_.erase(range);
  return outcome;
}

Result<bool> Conclusion::follow(Turn& turn, Turn below) {
  if (comparing_) {
    const auto next = overlay_.next_round(0, kHashes);
    if (!next) return false;
    std::optional<Outcome> bits;
    if (*next == 0 || begun_.contains(kHashes)) {
      auto outcome = follow(kHashes, turn, below);
      if (!outcome) return outcome.error();
      if (!*outcome) return false;
      bits = *std::move(outcome);
    }
    comparing_ = false;
    if (bits && all_equal(*bits) && has_model_) return true;
    if (!bits || all_equal(*bits)) missed_ = true;
  }
  while (true) {
    if (const auto next = overlay_.next_round(0, kModels); next && *next > 0) missed_ = true;
    auto mean = follow(kModels, turn, below);
    if (!mean) return mean.error();
    if (!*mean) return false;
    if ((**mean).counted.empty()) continue;  // the senior worker was lost
    std::copy((**mean).values.begin(), (**mean).values.end(), turn.params().begin());
    return true;
  }
}

}  // namespace longhaul::sync::shuffle
