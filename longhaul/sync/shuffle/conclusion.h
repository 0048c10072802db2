#pragma once
// Conclusion ends a run in which models differ between workers: all live workers end with one
// model, exactly. This model is their mean with equal weights, or that of the senior worker (the
// lowest live rank). Formed once per run through the job's overlay, in its group of all workers.
//
// If the models may be equal already, the workers first average the 64 bits of a hash of their
// models. The mean of a bit is 0 or 1 if all workers have the same bit. The mean is agreed, so all
// workers get the same answer, even if a worker is lost meanwhile.
#include <algorithm>
#include <bit>
#include <map>

#include "longhaul/core/overlay.h"

namespace longhaul::sync::shuffle {

class Conclusion {
  static constexpr std::size_t kHashBits = 64;

  // FNV-1a over the bits of the numbers: https://datatracker.ietf.org/doc/html/draft-eastlake-fnv
  static std::uint64_t hash_of_model(std::span<const float> values) {
    std::uint64_t hash = 14695981039346656037u;
    for (const float value : values)
      for (std::uint32_t bits = std::bit_cast<std::uint32_t>(value), i = 0; i < 4; ++i, bits >>= 8)
        hash = (hash ^ (bits & 0xff)) * 1099511628211u;
    return hash;
  }

  static bool all_equal(const Outcome& bits) {
    return std::ranges::all_of(bits.values, [](float bit) { return bit == 0 || bit == 1; });
  }

 public:
  enum class Model : std::uint8_t { mean, senior };
  explicit Conclusion(Overlay& overlay) : overlay_(overlay) {}

  // `compare`: do nothing if all workers hold bit-identical models. `below`: the turn as the
  // overlay sees it. An Error: values that are not finite.
  Status begin(Model model, bool compare, Turn& turn, Turn below) {
    model_ = model;
    comparing_ = compare;
    if (!compare) return average(turn, below);
    return overlay_.begin({0, 0, kHashes}, {},
                          {.values = hash_bits(turn), .length = kHashBits, .exact = true}, below);
  }

  // Returns true once, when params() holds the final model.
  Result<bool> take(Turn& turn, Turn below) {
    if (comparing_) {
      const auto bits = overlay_.poll({0, 0, kHashes});
      if (!bits) return false;
      if (all_equal(*bits)) return true;
      LH_TRY(average(turn, below));
    }
    const auto mean = overlay_.poll({round_, 0, kModels});
    if (!mean) return false;
    if (mean->counted.empty()) {  // the senior worker was lost: the next one contributes
      ++round_;
      LH_TRY(average(turn, below));
      return take(turn, below);
    }
    std::ranges::copy(mean->values, turn.params().begin());
    return true;
  }

  // Called at a returned worker instead of begin(). `has_model`: whether params() is a model of the
  // run.
  void join(Model model, bool compare, bool has_model) {
    model_ = model;
    comparing_ = compare;
    has_model_ = has_model;
  }

  // Called in every turn instead of take(). Returns true once, when params() holds the final model.
  Result<bool> follow(Turn& turn, Turn below) {
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
      LH_LET(mean, follow(kModels, turn, below));
      if (!mean) return false;
      if ((*mean).counted.empty()) continue;  // the senior worker was lost
      std::copy((*mean).values.begin(), (*mean).values.end(), turn.params().begin());
      return true;
    }
  }

  // Returns true if this worker has missed the decision of the other workers, and must receive the
  // final model.
  bool missed() const { return missed_; }
  bool has_model() const { return has_model_; }
  // Called when the overlay has forgotten the exchanges of a returned worker.
  void begin_anew() { begun_.clear(); }
  std::string waiting_for() const { return overlay_.waiting_for(); }
  void state(Archive& ar) { ar(model_, comparing_, round_, has_model_, missed_, begun_); }

 private:
  static constexpr std::uint32_t kModels = 0, kHashes = 1;  // ranges
  std::vector<float> hash_bits(Turn& turn) const {
    std::vector<float> bits;
    if (!turn.place().phantom)
      for (std::uint64_t hash = hash_of_model(turn.params()); bits.size() < kHashBits; hash >>= 1)
        bits.push_back(float(hash & 1));
    return bits;
  }

  Status average(Turn& turn, Turn below) {
    comparing_ = false;
    const bool gives = model_ == Model::mean || is_senior(turn);
    return overlay_.begin({round_, 0, kModels}, {},
                          {.values = turn.params(),
                           .length = turn.place().layout->size(),
                           .contributes = gives,
                           .exact = true},
                          below);
  }

  // Returns the outcome of the current round, once.
  Result<std::optional<Outcome>> follow(std::uint32_t range, Turn& turn, Turn below) {
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

  // Contributes only in the first round of a range: a later round repeats it for other workers.
  Contribution part_in(std::uint32_t range, Round round, std::span<const float> bits,
                       Turn& turn) const {
    const bool is_hash = range == kHashes;
    const bool gives =
        has_model_ && round == 0 && (is_hash || model_ == Model::mean || is_senior(turn));
    return {.values = is_hash ? bits : std::span<const float>(turn.params()),
            .length = is_hash ? kHashBits : turn.place().layout->size(),
            .contributes = gives,
            .exact = true};
  }

  Overlay& overlay_;
  Model model_ = Model::mean;
  bool comparing_ = false;
  Round round_ = 0;  // round of the exchange; the next one if the senior worker was lost
  // At a returned worker.
  bool has_model_ = false, missed_ = false;
  std::map<std::uint32_t, Round> begun_;  // by range, in this view
};

}  // namespace longhaul::sync::shuffle
