#pragma once
// The results of combinations over several seeds, and whether two combinations differ. `compare`
// and reports name a winner or a tie only by this rule.
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace longhaul::report {

// Returns the middle value, or the mean of the two middle ones; NaN without values.
double median(std::vector<double> values);

// The spread over the seeds of one combination.
struct Spread {
  double median = 0, min = 0, max = 0;
};
std::optional<Spread> spread_of(const std::vector<double>& values);

// The result of one run.
struct Outcome {
  bool diverged = false;
  std::optional<double> target_s = {};  // time to the target
  std::optional<double> score = {};     // score of the newest model
  bool lower_is_better = false;         // for `score`
  std::optional<double> time_s = {};    // for the whole run; absent: it still runs
  double wan_bytes = 0;

  // Sets the score to the compared value: accuracy, unless it is 0 and there is a loss.
  void set_score(std::optional<double> bits_per_byte, std::optional<double> accuracy,
                 std::optional<double> loss);
};

// The result of one combination, over its seeds.
struct Standing {
  bool diverged = false;    // at least one of them did
  std::size_t reached = 0;  // runs that reached the target
  // Times of these runs; the median counts the others as slower. Absent: at most half reached it.
  std::optional<Spread> target = {};
  std::optional<Spread> score = {}, time = {};
  bool lower_is_better = false;  // for `score`
  double wan_bytes = 0;          // median
};
Standing standing_of(const std::vector<Outcome>&);
// Returns true if `a` precedes `b`: by time to the target, else score, else time of the run; then
// by bytes between sites; then by label. Diverged combinations are last.
bool is_ahead(const Standing& a, const std::string& label_a, const Standing& b,
              const std::string& label_b);

enum class Difference {
  clear,    // the ranges (minimum to maximum over the seeds) are disjoint
  tie,      // the ranges overlap or touch
  one_seed  // one of the two has only one seed
};

// Compares the values that order two combinations: one for each seed, less is better. Infinity: the
// seed did not reach the target; its range has no end. NaN: it diverged; a combination with such a
// seed ties with none.
Difference difference_of(const std::vector<double>& a, const std::vector<double>& b);

// Returns the difference of each combination from the first, which is the best. The first's own is
// a tie if any ties with it, else one_seed if any other has that, else clear: it is the winner.
std::vector<Difference> differences_from_first(const std::vector<std::vector<double>>& values);

// Returns the same for combinations in their order. `first`: the standing of the first.
std::vector<Difference> differences_from_first(const std::vector<std::vector<Outcome>>&,
                                               const Standing& first);

// Returns "a", "a and b", "a, b and c"; for more than four names "a, b, c and 2 others".
std::string names_text(const std::vector<std::string>& names);

// Returns a number of the run's summary; nullopt while the run lasts, or if it has none.
std::optional<double> figure(const nlohmann::ordered_json& run, const char* key);
// Returns true if its times are of sockets.
bool is_real(const nlohmann::ordered_json& run);
// Returns the outcome of a run. The score is the summary's, of the final model; without a summary
// the newest one.
Outcome outcome_of(const nlohmann::ordered_json& run);

struct SeedGroup : Standing {
  std::vector<const nlohmann::ordered_json*> runs = {};  // at least one
  std::string label = {};                                // "fedavg" for "fedavg/seed-7"
  bool real = false;
  bool several() const { return runs.size() > 1; }
};

// Groups runs of RunReader::data(), which must outlive the groups. The best group is first, by
// is_ahead(). Simulated groups come before those over sockets, because their times are not
// comparable. A run without settings, or with a seed that its group already has, is a group by
// itself.
std::vector<SeedGroup> seed_groups(const std::vector<nlohmann::ordered_json>& runs);

// Returns the difference of each group from the first, by seed_ranges.h; all of one clock.
std::vector<Difference> group_differences(const std::vector<SeedGroup>& groups);

}  // namespace longhaul::report
