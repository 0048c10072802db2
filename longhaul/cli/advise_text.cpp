#include "longhaul/cli/advise_text.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/cli/output.h"
#include "longhaul/run/job/json.h"
#include "longhaul/run/progress.h"

namespace longhaul::cli {
namespace {

// The first choice of most users.
constexpr std::string_view kUsual[] = {"bsp", "fedavg", "diloco"};

std::string advised_score(const Trial& trial) {
  if (!trial.scored) return "not scored";
  if (trial.summary.target_bits_per_byte)
    return fmt::format("{:.4f} bits per byte", trial.measured_score());
  return fmt::format("{:.2f} %", 100 * trial.score);
}

// Returns true if the trial ended before its first exchange did. Its score then has no meaning.
bool is_too_short(const Trial& trial) { return !trial.to_target && trial.summary.rounds == 0; }

std::string outcome(const Advice& advice, const Trial& trial) {
  const run::Summary& s = trial.summary;
  if (is_too_short(trial))
    return fmt::format("its first exchange takes longer than its trial of {}",
                       run::duration_text(std::min(trial.limit_s, s.time_s)));
  const std::string bytes = run::bytes_text(double(s.wan_bytes));
  if (trial.to_target)
    return fmt::format("{} in {}, {} between sites", advice.target,
                       run::duration_text(*trial.to_target), bytes);
  return fmt::format("{} after {}, {} between sites", advised_score(trial),
                     run::duration_text(std::min(trial.limit_s, s.time_s)), bytes);
}

// Returns why the trial is slower, in one clause: how its sites used the time.
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

std::string range_text(const Finalist& one) {
  const report::Spread& time = *one.standing.target;
  const std::string median = run::duration_text(time.median), least = run::duration_text(time.min);
  if (one.standing.reached < one.runs.size())
    return fmt::format("{} ({} and more; {} of {} seeds reach it)", median, least,
                       one.standing.reached, one.runs.size());
  return fmt::format("{} ({} to {} over {})", median, least, run::duration_text(time.max),
                     count_text(one.runs.size(), "seed"));
}

std::string not_written(const Advice& advice) {
  if (advice.not_written.empty()) return "";
  return fmt::format("  {} is not written: there is no job to recommend\n", advice.not_written);
}

// Returns in how many finals the first finalist reached the target, if that is too few.
std::string missed_in_finals(const Advice& advice) {
  if (advice.finalists.empty()) return "";
  const Finalist& first = advice.finalists.front();
  return fmt::format(
      "  on other seeds it reached that in {} of {} runs of twice the time: the target may be more "
      "than this model learns\n",
      first.standing.reached, first.runs.size());
}

std::string nothing_found(const Advice& advice) {
  const Trial& best = advice.best_trial();
  if (!best.ran && !best.why.empty())
    return fmt::format("{}: no trial trained to its end\n{}", advice.name, not_written(advice));
  return fmt::format(
      "{}: {} {} within the budget of this search; {} came nearest: {}\n"
      "{}{}  what may help: more {} with --resume, which keeps these trials, more\n"
      "  --jobs, an easier target (--set stop.target_...)\n",
      advice.name, advice.interrupted ? "Ctrl-C came before anything reached" : "nothing reached",
      advice.target, best.candidate.label, outcome(advice, best), missed_in_finals(advice),
      not_written(advice), advice.budget);
}

// Returns the recommendation from one seed only, without finalists.
std::string unconfirmed(const Advice& advice) {
  const Trial& best = advice.best_trial();
  std::string text = fmt::format(
      "{}: {}\n  {}, one seed, which cannot tell it from others; sites compute {:.1f} % of the "
      "time\n",
      advice.name, best.candidate.label, outcome(advice, best),
      100 * best.summary.compute_utilisation);
  for (const Trial& trial : advice.search.ranking)
    if (trial.ran && trial.candidate.sync != best.candidate.sync)
      return text + fmt::format("  runner-up of another kind: {}: {}\n", trial.candidate.label,
                                outcome(advice, trial));
  return text;
}

std::string recommendation(const Advice& advice) {
  if (!advice.found()) return nothing_found(advice);
  if (advice.finalists.empty()) return unconfirmed(advice);
  const Finalist& first = advice.finalists.front();
  const Trial& trial = advice.best_trial();
  std::string text = fmt::format(
      "{}: {}\n  {} in {}, {} between sites; sites compute {:.1f} % of the time\n", advice.name,
      first.candidate.label, advice.target, range_text(first),
      run::bytes_text(first.standing.wan_bytes), 100 * trial.summary.compute_utilisation);
  std::vector<std::string> ties;
  for (std::size_t i = 1; i < advice.finalists.size(); ++i)
    if (advice.finalists[i].from_first == report::Difference::tie)
      ties.push_back(advice.finalists[i].candidate.label);
  if (!ties.empty())
    text += fmt::format("  it ties with {}: their ranges overlap\n", report::names_text(ties));
  if (advice.confidence)
    text += fmt::format("  it is first in {:.0f} % of resamplings of these seeds\n",
                        100 * *advice.confidence);
  return text;
}

std::string front_text(const Advice& advice) {
  if (advice.front.empty()) return "";
  std::string text =
      "\nWorth a look: no other finalist is better in time, bytes and price at once\n";
  for (const FrontPoint& point : advice.front) {
    text += fmt::format("  {}: {}, {} between sites", point.label, run::duration_text(point.time_s),
                        run::bytes_text(point.wan_bytes));
    if (point.cost)
      text += fmt::format(", price {:.3g}{}{}", *point.cost, advice.currency.empty() ? "" : " ",
                          advice.currency);
    text += "\n";
    if (!point.does.empty()) text += fmt::format("    {}\n", point.does);
    if (!point.risks.empty()) text += fmt::format("    risks: {}\n", point.risks);
  }
  return text;
}

std::string change_text(const Change& change, const std::string& first) {
  const auto& [label, time] = change.times.front();
  if (!time)
    return fmt::format("  {}: none of {} gets there in time\n", change.what, change.times.size());
  std::string text =
      fmt::format("  {}: {}, {}", change.what, keeps_first(change, first) ? "the same" : label,
                  run::duration_text(*time));
  for (const auto& [other, then] : change.times)
    if (label != first && other == first)
      text += then ? fmt::format(" ({} {})", first, run::duration_text(*then))
                   : fmt::format(" ({} does not get there)", first);
  return text + "\n";
}

std::string changes_text(const Advice& advice) {
  std::string text;
  for (const Change& change : advice.changes)
    text += change_text(change, advice.finalists.front().candidate.label);
  return text.empty()
             ? ""
             : "\nIf things change, one seed: which of the first finalists is first\n" + text;
}

std::string usual_choices(const Advice& advice) {
  const Trial& best = advice.best_trial();
  std::string text;
  for (const std::string_view sync : kUsual) {
    const Trial* trial = best_of(advice, sync);
    if (!trial || trial->candidate.sync == best.candidate.sync) continue;
    const bool tells = !is_too_short(*trial) && (trial->scored || trial->to_target);
    text += fmt::format("  {}: {}{}{}\n", trial->candidate.label, outcome(advice, *trial),
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
      "\nNot tried\n  {} stay as the job has them\n"
      "  overlays that the prediction without numbers puts behind ({} combinations predicted)\n"
      "  codecs but fp16, int8 and q_top_k, transfers but the job's\n",
      advice.tunes_rates ? "other keys than optimizer.rate, outer.rate and sync.steps"
                         : "the learning rate, which the loop sets without site.rate, and other "
                           "keys than outer.rate and sync.steps",
      advice.predicted);
  if (!kinds.empty()) text += fmt::format("  {}: not recommended by themselves\n", kinds);
  for (const auto& [kind, why] : advice.refused) text += fmt::format("  {}: {}\n", kind, why);
  if (advice.not_predicted > 0 && !advice.interrupted)
    text +=
        fmt::format("  {}: no budget was left\n", count_text(advice.not_predicted, "combination"));
  for (const std::string& what : advice.no_budget)
    text += fmt::format("  {}: the budget is too small\n", what);
  if (!advice.search.complete)
    text += "  the budget ended before all that were left had the best one's time\n";
  return text;
}

// Returns the failed trials by reason, with the names of some.
std::string failed_text(const Advice& advice) {
  std::map<std::string, std::vector<std::string>> labels;
  for (const Trial& trial : advice.search.ranking)
    if (!trial.ran && !trial.why.empty()) labels[trial.why].push_back(trial.candidate.label);
  std::string text;
  for (const auto& [why, of] : labels)
    text += fmt::format("  {}: {}\n", report::names_text(of), why);
  return text.empty() ? "" : "\nFailed\n" + text;
}

// Returns the text if nothing was trained: only the predicted speeds are known.
std::string untried(const Advice& advice) {
  std::string text = fmt::format(
      "{}: {} before anything was trained; {} combinations are predicted, the most samples a "
      "second by\n",
      advice.name, advice.interrupted ? "Ctrl-C came" : "the budget was over", advice.predicted);
  constexpr std::size_t kShown = 5;
  for (std::size_t i = 0; i < std::min(kShown, advice.fastest.size()); ++i)
    text += fmt::format("  {}: {:.4g} samples a second\n", advice.fastest[i].label,
                        advice.fastest[i].samples_per_s);
  return text + not_written(advice) +
         fmt::format("  which learns most of them is not known: more {} with --resume\n",
                     advice.budget);
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
  if (trial.scored) json["score"] = trial.measured_score();
  if (trial.ran) {
    json["wan_bytes"] = trial.summary.wan_bytes;
    json["compute_utilisation"] = trial.summary.compute_utilisation;
    json["rounds"] = trial.summary.rounds;
  }
  if (!trial.why.empty()) json["why"] = trial.why;
  return json;
}

}  // namespace

std::string target_text(const run::StopTable& stop) {
  if (stop.target_bits_per_byte)
    return fmt::format("{:g} bits per byte", *stop.target_bits_per_byte);
  return fmt::format("{:g} %", 100 * stop.target_accuracy.value_or(0));
}

const Trial& Advice::best_trial() const {
  return *std::ranges::find(search.ranking, best(), &Trial::candidate);
}

std::string advice_text(const Advice& advice, const std::string& written) {
  if (advice.search.ranking.empty()) return untried(advice);
  std::string text = recommendation(advice) + front_text(advice) + changes_text(advice) +
                     usual_choices(advice) + failed_text(advice) + not_tried(advice);
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
                                 {"measure", advice.bits ? "bits_per_byte" : "accuracy"},
                                 {"recommended", nullptr},
                                 {"finalists", nlohmann::json::array()},
                                 {"confidence", run::json_of(advice.confidence)},
                                 {"front", nlohmann::json::array()},
                                 {"changes", nlohmann::json::array()},
                                 {"complete", advice.search.complete},
                                 {"ranking", nlohmann::json::array()},
                                 {"left_out", advice.left_out},
                                 {"refused", advice.refused},
                                 {"no_budget", advice.no_budget},
                                 {"predicted", advice.predicted},
                                 {"not_predicted", advice.not_predicted},
                                 {"runs", advice.runs},
                                 {"epochs", advice.epochs},
                                 {"samples", advice.samples},
                                 {"real_s", advice.spent_s}};
  if (advice.found()) json["recommended"] = advice.best().label;
  if (!advice.currency.empty()) json["currency"] = advice.currency;
  for (const Finalist& one : advice.finalists) json["finalists"].push_back(to_json(one));
  for (const FrontPoint& point : advice.front) json["front"].push_back(to_json(point));
  for (const Change& change : advice.changes) json["changes"].push_back(to_json(change));
  if (advice.rounds_written) json["max_rounds_written"] = *advice.rounds_written;
  for (const Trial& trial : advice.search.ranking) json["ranking"].push_back(trial_json(trial));
  return json;
}

}  // namespace longhaul::cli
