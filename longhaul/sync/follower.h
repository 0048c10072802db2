#pragma once
// MissedRounds keeps the means of the rounds in which a returned worker took part without a model,
// in order. When the state of an earlier round has arrived, the worker applies them to it. Means
// that are mostly zeros, as sparse codecs make them, are kept by position.
#include <bit>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "longhaul/core/overlay.h"

namespace longhaul::sync {

class MissedRounds {
 public:
  using Means = std::map<std::uint32_t, Outcome>;  // by range; one round

  void add(Means means) {
    auto& round = rounds_.emplace_back();
    for (auto& [range, mean] : means) round.emplace(range, Kept(std::move(mean)));
  }
  // Returns the mean of this range in the oldest round, once.
  std::optional<Outcome> take(std::uint32_t range) {
    auto node = rounds_.front().extract(range);
    return node ? std::optional(std::move(node.mapped()).whole()) : std::nullopt;
  }
  void drop_oldest() { rounds_.pop_front(); }
  void clear() { rounds_.clear(); }
  bool empty() const { return rounds_.empty(); }
  std::size_t size() const { return rounds_.size(); }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& round : rounds_)
      for (const auto& [range, kept] : round)
        sum += sizeof(float) * (kept.positions.size() + kept.mean.values.size());
    return sum;
  }
  void state(Archive& ar) { ar(rounds_); }

 private:
  struct Kept {
    Outcome mean;                          // with all values, or only those that are not zero
    std::vector<std::uint32_t> positions;  // positions of the latter
    std::uint64_t length = 0;              // length of the whole mean; 0: all values are kept

    Kept() = default;
    explicit Kept(Outcome outcome) : mean(std::move(outcome)) {
      const auto is_zero = [](float v) { return std::bit_cast<std::uint32_t>(v) == 0; };
      const auto zeros = std::uint64_t(std::ranges::count_if(mean.values, is_zero));
      if (2 * zeros <= mean.values.size() || mean.values.size() >> 32 != 0) return;
      length = mean.values.size();
      for (std::uint32_t i = 0; i < length; ++i)
        if (!is_zero(mean.values[i])) positions.push_back(i);
      std::erase_if(mean.values, is_zero);
      mean.values.shrink_to_fit();
    }
    Outcome whole() && {
      if (length == 0) return std::move(mean);
      std::vector<float> values(length);
      for (std::size_t i = 0; i < positions.size(); ++i) values[positions[i]] = mean.values[i];
      mean.values = std::move(values);
      return std::move(mean);
    }
    void state(Archive& ar) {
      ar(mean, positions, length);
      if (length > 0 && positions.size() != mean.values.size()) ar.fail("holds half a mean");
      for (const std::uint32_t at : positions)
        if (at >= length) return ar.fail("holds a value outside its mean");
    }
  };
  std::deque<std::map<std::uint32_t, Kept>> rounds_;
};

// Follower is the part of a returned worker that follows the rounds until it has caught up with
// them: it takes part in rounds without contributing, and keeps their means. When a state has
// arrived, it uses the means of the rounds since then. It starts again if the sender of the state
// is lost, or if the members change before its first round is complete: then it may miss a mean.
struct Follower {
  bool has_found_round = false;      // the round that runs is known
  bool stands_in_all_ranges = true;  // in that round
  MissedRounds::Means means = {};    // means that have arrived in that round
  MissedRounds missed = {};          // the rounds before
  bool catches_up = false;           // has a model, and uses means
  Round joins = 0;                   // the first round that it contributes to
  Round whole_rounds = 0;            // in a row
  bool is_settled = false;           // the overlay gives it every mean from now on
  bool wants_state = false;          // it has used one, and needs another
  bool finds_round_anew = false;     // starts again

  // Chooses the round to take part in: of two that run, the older one. The ranges may be a round
  // apart, because the other workers may have had one mean before this worker returned.
  // `next`: by range. `done`: the number of rounds done.
  Round begin(const std::map<std::uint32_t, Round>& next, Round done) {
    const auto by_round = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto [first, last] = std::ranges::minmax_element(next, by_round);
    if (first->second != done) drop_missed();
    has_found_round = true;
    stands_in_all_ranges = first->second == last->second;
    return first->second;
  }
  // Called when all `ranges` have completed the round. `settles`: rounds in which each exchange
  // takes place at least once.
  void end(std::size_t ranges, Round settles) {
    if (stands_in_all_ranges && means.size() == ranges) {
      missed.add(std::move(means));
      is_settled |= ++whole_rounds >= settles;
    } else {
      drop_missed();
    }
    means.clear();
  }
  void drop_missed() {
    missed.clear();
    whole_rounds = 0;
  }
  // Returns the mean of this range that is used next, once, if it is kept here.
  std::optional<Outcome> take(std::uint32_t range) {
    if (!catches_up) return std::nullopt;
    if (!missed.empty()) return missed.take(range);
    auto mean = means.extract(range);
    return mean ? std::optional(std::move(mean.mapped())) : std::nullopt;
  }
  // Called when the members change.
  void on_view(const View& before, const Turn& turn) {
    finds_round_anew |= !is_settled || !turn.view().has(senior_worker(turn.place(), before));
  }
  // Returns true if it keeps as many means as it may. Then the others wait for it.
  bool is_full(const Place& place) const {
    const std::uint64_t model = sizeof(float) * place.layout->size();
    const std::uint64_t kept = place.phantom ? missed.size() * model : missed.bytes();
    return kept >= kMostKept * model;
  }
  // Returns true if a state of the start of round `from` can be used while `runs` runs. The rounds
  // before it are dropped.
  bool can_begin(Round from, Round runs) {
    if (from > runs || runs - from > missed.size()) return false;
    while (missed.size() > runs - from) missed.drop_oldest();
    return true;
  }
  // Called when it has used the means of a round. Returns true if those of the next one are kept.
  bool next_is_here() {
    if (!missed.empty()) missed.drop_oldest();
    return !missed.empty();
  }
  void state(Archive& ar) {
    ar(has_found_round, stands_in_all_ranges, means, missed, catches_up, joins, whole_rounds,
       is_settled, wants_state, finds_round_anew);
  }

 private:
  static constexpr std::uint64_t kMostKept = 32;  // multiples of the model
};

}  // namespace longhaul::sync
