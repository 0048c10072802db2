#include "longhaul/cli/advise_search.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace longhaul::cli {
namespace {

constexpr std::size_t kFewest = 6;         // minimum number of families to keep
constexpr std::size_t kExpandedFirst = 5;  // families expanded after the first stage
constexpr std::size_t kExpanded = 3;       // families expanded after each later stage
constexpr double kLonger = 2.5;            // factor of the virtual time from one stage to the next
constexpr std::size_t kMaxStages = 20;

class Search {
 public:
  Search(std::vector<Candidate> candidates, double limit_s, const SearchHooks& hooks)
      : left_(std::move(candidates)), limit_s_(limit_s), hooks_(hooks) {
    for (const Candidate& candidate : left_) known_.insert(candidate.label);
  }

  SearchResult run() {
    while (!left_.empty() && result_.stages < kMaxStages && !hooks_.is_over()) {
      stage();
      keep_best();
      limit_s_ = best_s() ? kRival * *best_s() : limit_s_ * kLonger;
      expand();
      drop_tried();
    }
    result_.complete = left_.empty() && best_s().has_value();
    return std::move(result_);
  }

 private:
  std::optional<double> best_s() const {
    if (result_.ranking.empty()) return std::nullopt;
    return result_.ranking.front().to_target;
  }

  void stage() {
    ++result_.stages;
    for (Trial& trial : hooks_.run(left_, limit_s_)) {
      std::erase_if(result_.ranking, [&](const Trial& old) {
        return old.candidate == trial.candidate && (trial.ran || !old.ran);
      });
      const bool known =
          std::any_of(result_.ranking.begin(), result_.ranking.end(),
                      [&](const Trial& old) { return old.candidate == trial.candidate; });
      if (!known) result_.ranking.push_back(std::move(trial));
    }
    std::stable_sort(result_.ranking.begin(), result_.ranking.end(), is_better_trial);
  }

  bool is_left(const Candidate& candidate) const {
    return std::find(left_.begin(), left_.end(), candidate) != left_.end();
  }
  // Returns the best candidate of each family, the best family first; at most `most`.
  std::vector<Candidate> best_of_families(std::size_t most,
                                          const std::function<bool(const Trial&)>& counts) const {
    std::vector<Candidate> best;
    std::set<std::string> families;
    for (const Trial& trial : result_.ranking)
      if (best.size() < most && trial.ran && counts(trial) &&
          families.insert(trial.candidate.family).second)
        best.push_back(trial.candidate);
    return best;
  }

  // Keeps the better half of this stage's families, each with its best rate.
  void keep_best() {
    std::set<std::string> families;
    for (const Candidate& candidate : left_) families.insert(candidate.family);
    left_ = best_of_families(std::max(kFewest, (families.size() + 1) / 2),
                             [&](const Trial& trial) { return is_left(trial.candidate); });
  }

  // Adds the neighbours of the best candidates, once per candidate. Other rates of the same family
  // are added again, because the best rate may change with time.
  void expand() {
    const std::size_t count = expanded_.empty() ? kExpandedFirst : kExpanded;
    for (const Candidate& one : best_of_families(count, [](const Trial&) { return true; })) {
      if (!expanded_.insert(one.label).second) continue;
      for (Candidate& neighbour : hooks_.neighbours(one)) {
        const bool fresh = known_.insert(neighbour.label).second;
        if ((fresh || neighbour.family == one.family) && !is_left(neighbour))
          left_.push_back(std::move(neighbour));
      }
    }
  }

  // Drops the candidates whose trial reached the target or the limit.
  void drop_tried() {
    std::erase_if(left_, [&](const Candidate& candidate) {
      for (const Trial& trial : result_.ranking)
        if (trial.candidate == candidate && trial.ran)
          return trial.to_target || trial.limit_s >= limit_s_;
      return false;
    });
  }

  std::vector<Candidate> left_;
  double limit_s_;
  const SearchHooks& hooks_;
  std::set<std::string> known_, expanded_;
  SearchResult result_;
};

}  // namespace

void keep_first(std::vector<Candidate>& candidates, const Candidate& probe, std::size_t most) {
  std::ranges::stable_sort(candidates, {}, [&](const Candidate& one) {
    return one == probe ? 0 : one.label == one.family ? 1 : 2;
  });
  if (candidates.size() > most) candidates.resize(most);
}

bool is_better_trial(const Trial& a, const Trial& b) {
  const auto order = [](const Trial& t) {
    return std::tuple(!t.ran, !t.to_target, t.to_target.value_or(0), !t.scored,
                      t.scored ? -t.score : 0, -t.limit_s);
  };
  return order(a) < order(b);
}

SearchResult successive_halving(std::vector<Candidate> candidates, double first_limit_s,
                                const SearchHooks& hooks) {
  return Search(std::move(candidates), first_limit_s, hooks).run();
}

}  // namespace longhaul::cli
