#include "longhaul/cli/advise_search.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace longhaul::cli {
namespace {

constexpr std::size_t kFewest = 6;         // minimum number of families to keep
constexpr std::size_t kExpandedFirst = 5;  // families, and strategies, expanded after stage 1
constexpr std::size_t kExpanded = 3;       // the same after each later stage
constexpr std::size_t kAllStrategies = 4;  // stages with all strategies, if none reaches the target
constexpr double kLonger = 2.5;            // factor of the virtual time from one stage to the next
constexpr std::size_t kMaxStages = 20;

class Search {
 public:
  Search(std::vector<Candidate> candidates, double limit_s, const SearchHooks& hooks,
         const std::optional<Trial>& reached)
      : left_(std::move(candidates)), limit_s_(limit_s), hooks_(hooks) {
    for (const Candidate& candidate : left_) known_.insert(candidate.label);
    if (!reached) return;
    result_.ranking.push_back(*reached);
    std::erase(left_, reached->candidate);
  }

  SearchResult run() {
    while (!left_.empty() && result_.stages < kMaxStages && !hooks_.is_over()) {
      stage();
      const std::vector<Candidate> strategies = best_of_strategies();
      keep_best();
      limit_s_ = best_s() ? kRival * *best_s() : limit_s_ * kLonger;
      expand();
      add_missing(left_, strategies);  // last: a budget may end before they run
      drop_tried();
    }
    result_.complete = left_.empty() && best_s().has_value() && lacked_.empty();
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
      lacked_.erase(trial.candidate.label);
      if (trial.lacked_budget()) lacked_.insert(trial.candidate.label);
      std::erase_if(result_.ranking, [&](const Trial& old) {
        return old.candidate == trial.candidate && (!trial.lacked_budget() || !old.ran);
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
  // Returns the best candidate of each family or strategy, the best first; at most `most`.
  std::vector<Candidate> best_of_each(std::string Candidate::*kind, std::size_t most,
                                      const std::function<bool(const Trial&)>& counts) const {
    std::vector<Candidate> best;
    std::set<std::string> kinds;
    for (const Trial& trial : result_.ranking)
      if (best.size() < most && trial.ran && counts(trial) &&
          kinds.insert(trial.candidate.*kind).second)
        best.push_back(trial.candidate);
    return best;
  }
  static void add_missing(std::vector<Candidate>& to, const std::vector<Candidate>& from) {
    for (const Candidate& one : from)
      if (std::ranges::find(to, one) == to.end()) to.push_back(one);
  }

  // Returns the best of each strategy in this stage. In the first stages they stay: scores at equal
  // times are of different progress. Empty if a candidate has reached the target.
  std::vector<Candidate> best_of_strategies() const {
    if (result_.stages >= kAllStrategies || best_s()) return {};
    return best_of_each(&Candidate::sync, left_.size(), ran_now());
  }

  // Keeps the better half of this stage's families, each with its best rate.
  void keep_best() {
    std::set<std::string> families;
    for (const Candidate& candidate : left_) families.insert(candidate.family);
    left_ =
        best_of_each(&Candidate::family, std::max(kFewest, (families.size() + 1) / 2), ran_now());
  }
  std::function<bool(const Trial&)> ran_now() const {
    return [this](const Trial& trial) { return is_left(trial.candidate); };
  }

  // Adds the neighbours of the best candidates, once per candidate. Other rates of the same family
  // are added again, because the best rate may change with time.
  void expand() {
    const std::size_t count = expanded_.empty() ? kExpandedFirst : kExpanded;
    const auto shows_something = [](const Trial& trial) { return trial.scored || trial.to_target; };
    std::vector<Candidate> best = best_of_each(&Candidate::family, count, shows_something);
    add_missing(best, best_of_each(&Candidate::sync, count, shows_something));
    for (const Candidate& one : best) {
      if (!expanded_.insert(one.label).second) continue;
      for (Candidate& neighbour : hooks_.neighbours(one)) {
        const bool fresh = known_.insert(neighbour.label).second;
        if ((fresh || neighbour.family == one.family) && !is_left(neighbour))
          left_.push_back(std::move(neighbour));
      }
    }
  }

  // Drops the candidates whose trial reached the target or the limit, or failed.
  void drop_tried() {
    std::erase_if(left_, [&](const Candidate& candidate) {
      for (const Trial& trial : result_.ranking)
        if (trial.candidate == candidate && !trial.lacked_budget())
          return !trial.ran || trial.to_target || trial.limit_s >= limit_s_;
      return false;
    });
  }

  std::vector<Candidate> left_;
  double limit_s_;
  const SearchHooks& hooks_;
  std::set<std::string> known_, expanded_;
  std::set<std::string> lacked_;  // candidates whose newest trial lacked budget
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
                                const SearchHooks& hooks, const std::optional<Trial>& reached) {
  return Search(std::move(candidates), first_limit_s, hooks, reached).run();
}

}  // namespace longhaul::cli
