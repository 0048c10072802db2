#include "longhaul/cli/advise_text.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/cli/output.h"
#include "longhaul/run/job/json.h"
#include "longhaul/run/progress.h"

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

// What most would try first.
constexpr std::string_view kUsual[] = {"bsp", "fedavg", "diloco"};

std::string advised_target(const run::Summary& s) {
  if (s.target_bits_per_byte) return fmt::format("{:g} bits per byte", *s.target_bits_per_byte);
  return fmt::format("{:g} %", 100 * s.target_accuracy.value_or(0));
}

std::string advised_score(const Trial& trial) {
  if (!trial.scored) return "not scored";
  if (trial.summary.target_bits_per_byte) return fmt::format("{:.4f} bits per byte", -trial.score);
  return fmt::format("{:.2f} %", 100 * trial.score);
}

// No exchange was over when the trial ended: what it learned says nothing.
bool is_too_short(const Trial& trial) { return !trial.to_target && trial.summary.rounds == 0; }

std::string outcome(const Trial& trial) {
  const run::Summary& s = trial.summary;
  if (is_too_short(trial))
    return fmt::format("its first exchange takes longer than its trial of {}",
                       run::duration_text(std::min(trial.limit_s, s.time_s)));
  const std::string bytes = run::bytes_text(double(s.wan_bytes));
  if (trial.to_target)
    return fmt::format("{} in {}, {} between sites", advised_target(s),
                       run::duration_text(*trial.to_target), bytes);
  return fmt::format("{} after {}, {} between sites", advised_score(trial),
                     run::duration_text(std::min(trial.limit_s, s.time_s)), bytes);
}

// The reason in one clause: what the sites did with the time.
std::string reason(const Trial& trial, const Trial& best) {
  const double computing = trial.summary.compute_utilisation;
  if (computing < 0.75 * best.summary.compute_utilisation)
    return fmt::format("sites compute {:.0f} % of the time (the best: {:.0f} %), else they wait",
                       100 * computing, 100 * best.summary.compute_utilisation);
  if (double(trial.summary.wan_bytes) > 2 * double(best.summary.wan_bytes))
    return "computes as much, but sends more";
  return "computes as much, but learns less of a sample";
}

const Trial* best_of(const Advice& advice, std::string_view sync) {
  for (const Trial& trial : advice.search.ranking)
    if (trial.ran && trial.candidate.sync == sync) return &trial;
  return nullptr;
}

std::string range_text(std::vector<double> times) {
  if (times.size() < 2) return "";
  std::sort(times.begin(), times.end());
  return fmt::format(" ({} to {} with {} seeds)", run::duration_text(times.front()),
                     run::duration_text(times.back()), times.size());
}

std::string not_written(const Advice& advice) {
  if (advice.not_written.empty()) return "";
  return fmt::format("  {} is not written: there is no job to recommend\n", advice.not_written);
}

std::string recommendation(const Advice& advice) {
  const Trial& best = advice.search.ranking.front();
  if (!advice.found())
    return fmt::format(
        "{}: {} {} within the budget of this search; {} came nearest: {}\n"
        "{}  what may help: a longer search (--budget-minutes, --jobs), a lower target (--set "
        "stop.target_...), another rate of the optimiser\n",
        advice.name, advice.interrupted ? "Ctrl-C came before anything reached" : "nothing reached",
        advised_target(best.summary), best.candidate.label, outcome(best), not_written(advice));
  std::string text = fmt::format("{}: {}\n  {}{}; sites compute {:.1f} % of the time\n",
                                 advice.name, best.candidate.label, outcome(best),
                                 range_text(advice.times), 100 * best.summary.compute_utilisation);
  for (const Trial& trial : advice.search.ranking)
    if (trial.ran && trial.candidate.sync != best.candidate.sync) {
      text += fmt::format("  runner-up of another kind, one seed: {}: {}\n", trial.candidate.label,
                          outcome(trial));
      break;
    }
  return text;
}

std::string usual_choices(const Advice& advice) {
  const Trial& best = advice.search.ranking.front();
  std::string text;
  for (const std::string_view sync : kUsual) {
    const Trial* trial = best_of(advice, sync);
    if (!trial || trial->candidate.sync == best.candidate.sync) continue;
    const bool tells = !is_too_short(*trial) && (trial->scored || trial->to_target);
    text += fmt::format("  {}: {}{}{}\n", trial->candidate.label, outcome(*trial),
                        tells ? "; " : "", tells ? reason(*trial, best) : "");
  }
  if (text.empty()) return "";
  return "\nThe usual choices, one seed each (whether one ties: longhaul compare --seeds 3)\n" +
         text;
}

std::string not_tried(const Advice& advice) {
  std::string kinds;
  for (const std::string& kind : advice.left_out) kinds += (kinds.empty() ? "" : ", ") + kind;
  std::string text = fmt::format(
      "\nNot tried\n  learning rates and other keys than sync.steps stay as the job has them\n"
      "  overlays that the prediction without numbers puts behind ({} combinations predicted)\n"
      "  codecs but fp16, int8 and q_top_k, transfers but the job's\n",
      advice.predicted);
  if (!kinds.empty()) text += fmt::format("  {}: not recommended by themselves\n", kinds);
  if (advice.not_predicted > 0)
    text += fmt::format("  {} combinations: no time was left\n", advice.not_predicted);
  if (!advice.search.complete)
    text += "  the budget ended before all that were left had the best one's time\n";
  return text;
}

// Nothing was trained: what is known is how fast each is.
std::string untried(const Advice& advice) {
  std::string text = fmt::format(
      "{}: {} before anything was trained; {} combinations are predicted, the most samples a "
      "second "
      "by\n",
      advice.name, advice.interrupted ? "Ctrl-C came" : "the budget was over", advice.predicted);
  constexpr std::size_t kShown = 5;
  for (std::size_t i = 0; i < std::min(kShown, advice.fastest.size()); ++i)
    text += fmt::format("  {}: {:.4g} samples a second\n", advice.fastest[i].label,
                        advice.fastest[i].samples_per_s);
  return text + not_written(advice) +
         "  which learns most of them is not known: give it longer, --budget-minutes\n";
}

nlohmann::ordered_json trial_json(const Trial& trial) {
  nlohmann::ordered_json json = {{"label", trial.candidate.label},
                                 {"sync", trial.candidate.sync},
                                 {"overlay", trial.candidate.overlay},
                                 {"codec", trial.candidate.codec},
                                 {"ran", trial.ran},
                                 {"time_to_target_s", run::json_of(trial.to_target)},
                                 {"limit_s", trial.limit_s},
                                 {"score", nullptr}};
  if (trial.scored) json["score"] = trial.score;
  if (trial.ran) {
    json["wan_bytes"] = trial.summary.wan_bytes;
    json["compute_utilisation"] = trial.summary.compute_utilisation;
    json["rounds"] = trial.summary.rounds;
  }
  if (!trial.why.empty()) json["why"] = trial.why;
  return json;
}

}  // namespace

std::string advice_text(const Advice& advice, const std::string& written) {
  if (advice.search.ranking.empty()) return untried(advice);
  std::string text = recommendation(advice) + usual_choices(advice) + not_tried(advice);
  text += fmt::format("\n{} in {}; trials are in {}/\n", count_text(advice.runs, "run"),
                      run::duration_text(advice.spent_s), advice.folder);
  if (!written.empty()) text += fmt::format("The job is in {}\n", written);
  if (!written.empty() && advice.rounds_before)
    text += fmt::format("  with [stop] max_rounds = {} in place of {}: its runs needed more\n",
                        *advice.rounds_written, *advice.rounds_before);
  return text;
}

nlohmann::ordered_json to_json(const Advice& advice) {
  nlohmann::ordered_json json = {{"name", advice.name},
                                 {"recommended", nullptr},
                                 {"times_to_target_s", advice.times},
                                 {"complete", advice.search.complete},
                                 {"ranking", nlohmann::json::array()},
                                 {"left_out", advice.left_out},
                                 {"predicted", advice.predicted},
                                 {"not_predicted", advice.not_predicted},
                                 {"runs", advice.runs},
                                 {"epochs", advice.epochs},
                                 {"real_s", advice.spent_s}};
  if (advice.found()) json["recommended"] = advice.search.ranking.front().candidate.label;
  if (advice.rounds_written) json["max_rounds_written"] = *advice.rounds_written;
  for (const Trial& trial : advice.search.ranking) json["ranking"].push_back(trial_json(trial));
  return json;
}

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
