#pragma once
// What several seeds of one combination say, and whether they tell two combinations apart: the one
// rule by which `compare` and reports name a first one, or a tie.
#include <optional>
#include <string>
#include <vector>

namespace longhaul::report {

// The middle one, or the mean of the two; NaN without values.
double median(std::vector<double> values);

// Over the seeds of one combination.
struct Spread {
  double median = 0, min = 0, max = 0;
};
std::optional<Spread> spread_of(const std::vector<double>& values);

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

// "a", "a and b", "a, b and c"; of more than four "a, b, c and 2 others".
std::string names_text(const std::vector<std::string>& names);

}  // namespace longhaul::report
