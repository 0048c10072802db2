#include "longhaul/cli/advise_search.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace longhaul::cli {
namespace {

constexpr std::size_t kFewest = 6;         // are not halved further
constexpr std::size_t kExpandedFirst = 6;  // whose neighbours are tried after the first stage
constexpr std::size_t kExpanded = 3;       // and after each that follows
constexpr double kLonger = 2.5;            // virtual time from one stage to the next
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
      limit_s_ = best_s() ? *best_s() : limit_s_ * kLonger;
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

  // A part of those of this stage goes on.
  void keep_best() {
    const std::size_t keep = std::max(kFewest, (left_.size() + 1) / 2);
    std::vector<Candidate> kept;
    for (const Trial& trial : result_.ranking)
      if (trial.ran && kept.size() < keep &&
          std::count(left_.begin(), left_.end(), trial.candidate))
        kept.push_back(trial.candidate);
    left_ = std::move(kept);
  }

  // The neighbours of the best ones come beside those that are left; of each once.
  void expand() {
    const std::size_t count = expanded_.empty() ? kExpandedFirst : kExpanded;
    std::vector<Candidate> near;
    for (const Trial& trial : result_.ranking)
      if (near.size() < count && trial.ran) near.push_back(trial.candidate);
    for (const Candidate& one : near) {
      if (!expanded_.insert(one.label).second) continue;
      for (Candidate& neighbour : hooks_.neighbours(one))
        if (known_.insert(neighbour.label).second) left_.push_back(std::move(neighbour));
    }
  }

  // Those whose trial says all there is to know up to the limit.
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

bool is_better_trial(const Trial& a, const Trial& b) {
  const auto order = [](const Trial& t) {
    return std::tuple(!t.ran, !t.to_target, t.to_target.value_or(0), -t.score, -t.limit_s);
  };
  return order(a) < order(b);
}

SearchResult successive_halving(std::vector<Candidate> candidates, double first_limit_s,
                                const SearchHooks& hooks) {
  return Search(std::move(candidates), first_limit_s, hooks).run();
}

}  // namespace longhaul::cli
