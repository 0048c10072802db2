#pragma once
// What several seeds of one combination say, and whether they tell two combinations apart: the one
// rule by which `compare` and reports name a first one, or a tie.
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace longhaul::report {

// The middle one, or the mean of the two; NaN without values.
double median(std::vector<double> values);

// Over the seeds of one combination.
struct Spread {
  double median = 0, min = 0, max = 0;
};
std::optional<Spread> spread_of(const std::vector<double>& values);

// The result of one run.
struct Outcome {
  bool diverged = false;
  std::optional<double> target_s = {};  // when it reached the target
  std::optional<double> score = {};     // of its newest model
  bool lower_is_better = false;         // of the score
  std::optional<double> time_s = {};    // of the whole run; absent: it is under way
  double wan_bytes = 0;

  // Takes the one of these that is compared: accuracy, unless it is 0 and there is a loss.
  void set_score(std::optional<double> bits_per_byte, std::optional<double> accuracy,
                 std::optional<double> loss);
};

// The result of one combination, over its seeds.
struct Standing {
  bool diverged = false;    // one of them did
  std::size_t reached = 0;  // runs that reached the target
  // Of those, the median as if the others took longer than any; absent: no more than half did.
  std::optional<Spread> target = {};
  std::optional<Spread> score = {}, time = {};
  bool lower_is_better = false;  // of the score
  double wan_bytes = 0;          // median
};
Standing standing_of(const std::vector<Outcome>&);
// The one order of combinations: time to the target, or else the score, or else the time of the
// run; then bytes between sites; then the label. Those that diverged are last.
bool is_ahead(const Standing& a, const std::string& label_a, const Standing& b,
              const std::string& label_b);

enum class Difference {
  clear,    // the ranges, least to most over the seeds, are apart
  tie,      // they overlap or touch
  one_seed  // one of the two has one seed, which cannot tell
};

// Of what two combinations are ordered by: a value for each seed, less is better. Infinity: the
// seed did not get there; its range has no end. NaN: it diverged; a combination with such a seed
// ties with none.
Difference difference_of(const std::vector<double>& a, const std::vector<double>& b);

// How each of several stands to the first, the best of them. The first's own: tie if any ties with
// it, else one_seed if that is so of any, else clear: it is the winner.
std::vector<Difference> differences_from_first(const std::vector<std::vector<double>>& values);

// The same of combinations, in their order: `first` is the standing of the first.
std::vector<Difference> differences_from_first(const std::vector<std::vector<Outcome>>&,
                                               const Standing& first);

// "a", "a and b", "a, b and c"; of more than four "a, b, c and 2 others".
std::string names_text(const std::vector<std::string>& names);

// A number of the run's summary; nullopt while it is under way, or where it has none.
std::optional<double> figure(const nlohmann::ordered_json& run, const char* key);
// Whether its times are of sockets.
bool is_real(const nlohmann::ordered_json& run);
// Its score is the summary's, of the final model; without one, the newest on the way.
Outcome outcome_of(const nlohmann::ordered_json& run);

struct SeedGroup : Standing {
  std::vector<const nlohmann::ordered_json*> runs = {};  // one at least
  std::string label = {};                                // "fedavg" of "fedavg/seed-7" and others
  bool real = false;
  bool several() const { return runs.size() > 1; }
};

// Runs as RunReader::data() has them; they outlive the groups. The best first by is_ahead();
// simulated ones before those over sockets, for their times say nothing of
// each other. Without settings, or with a seed that its group has already, a run is a group by
// itself.
std::vector<SeedGroup> seed_groups(const std::vector<nlohmann::ordered_json>& runs);

// How each stands to the first, by seed_ranges.h; all of one clock.
std::vector<Difference> group_differences(const std::vector<SeedGroup>& groups);

}  // namespace longhaul::report
