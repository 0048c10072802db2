#include "longhaul/cli/advise_candidates.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/compare_jobs.h"
#include "longhaul/cli/rates.h"
#include "longhaul/run/job/parts.h"

namespace longhaul::cli {
namespace {

// Strategies for measurements, and those that need a convex model.
constexpr std::string_view kNotAdvised[] = {"staleness_lab", "skewscout", "gadmm", "lag"};
constexpr const char* kTriedCodecs[] = {"fp16", "int8", "q_top_k"};
// Those of them with the fewest bytes, without and with all values.
constexpr const char *kSparse = "q_top_k", *kSmall = "int8";
constexpr double kFaster = 1.2;  // speed that fewer bytes must bring to be tried first
// Number of overlays tried with another codec: the fastest with the job's own codec.
constexpr std::size_t kFastOverlays = 5;
constexpr int kFirstRates[] = {0, -4, 4};  // exponents, as in Choice
// A neighbour's minimum speed, as a share of the samples per second.
constexpr double kLeastSpeed = 0.3;

std::optional<std::uint64_t> steps_of(const run::Job& job) {
  const auto steps = number_of(job, "sync", "steps");
  return steps ? std::optional(std::uint64_t(*steps)) : std::nullopt;
}

bool is_faster(const Candidate& a, const Candidate& b) {
  return std::pair(a.samples_per_s, -a.round_s) > std::pair(b.samples_per_s, -b.round_s);
}

}  // namespace

AdviseCandidates::AdviseCandidates(const RunOptions& options, const run::Job& job, bool tunes_rates)
    : options_(options), codec_(job.kind("codec")), tunes_rates_(tunes_rates) {}

std::uint64_t AdviseCandidates::max_rounds(const Candidate& c) const {
  return max_rounds_.at(c.family);
}

Status AdviseCandidates::predict_all(const std::function<bool()>& is_over) {
  CompareAxes axes;
  axes.syncs = axes.overlays = {"all"};
  LH_LET(made, compared_jobs(options_, axes));
  illegal_ = made.skipped.size();
  for (const SkippedJob& one : made.skipped)  // "asp-direct"
    refused_.try_emplace(one.label.substr(0, one.label.find('-')), one.why);
  // Takes one overlay of every strategy in turn, so that no strategy is left out when time is
  // short.
  std::map<std::string, std::size_t> seen;
  std::vector<std::pair<std::size_t, const ComparedJob*>> order;
  for (const ComparedJob& one : made.jobs) order.emplace_back(seen[one.job.kind("sync")]++, &one);
  std::ranges::stable_sort(order, {}, [](const auto& entry) { return entry.first; });
  std::map<std::string, std::vector<Candidate>> by_sync;
  std::set<std::string> open;  // strategies with combinations that are not predicted
  stop_when(is_over);
  for (const auto& [number, one] : order) {
    const std::string sync = one->job.kind("sync");
    if (std::ranges::find(kNotAdvised, sync) != std::end(kNotAdvised)) {
      left_out_.insert(sync);
    } else if (is_over()) {
      open.insert(sync);
      ++not_predicted_;
    } else if (const auto candidate = predicted({sync, one->job.kind("overlay"), codec_})) {
      by_sync[sync].push_back(*candidate);
    }
  }
  if (by_sync.empty() && not_predicted_ > 0)
    return Error{Error::Kind::timed_out,
                 "plan: nothing was simulated before the budget was over, or Ctrl-C came: give it "
                 "longer, --budget-minutes"};
  if (by_sync.empty())
    return invalid(failures_.empty() ? "plan: no combination can be simulated"
                                     : failures_.begin()->second);
  for (const auto& [sync, why] : failures_) refused_[sync] = why;
  std::erase_if(refused_, [&](const auto& one) {
    return by_sync.contains(one.first) || open.contains(one.first) ||
           std::ranges::find(kNotAdvised, one.first) != std::end(kNotAdvised);
  });
  for (auto& [sync, candidates] : by_sync) {
    std::stable_sort(candidates.begin(), candidates.end(), is_faster);
    for (const Candidate& one : candidates) overlays_[sync].push_back(one.overlay);
  }
  for (const char* codec : {kSmall, kSparse})
    for (const auto& [sync, overlays] : overlays_)
      if (!is_over()) (void)fastest({sync, "", codec});
  return Ok{};
}

std::vector<Candidate> AdviseCandidates::first() {
  std::map<std::string, std::map<std::string, Candidate>> best;  // by strategy and codec
  for (const auto& [choice, candidate] : predicted_) {
    if (!candidate || choice.steps > 0) continue;
    const auto [at, fresh] = best[choice.sync].emplace(choice.codec, *candidate);
    if (!fresh && is_faster(*candidate, at->second)) at->second = *candidate;
  }
  std::vector<Candidate> chosen;
  const auto add = [&](const Candidate& one) {
    for (const int rate : kFirstRates) {
      Choice choice = choice_of(one);
      choice.rate = rate;
      if (const auto candidate = predicted(choice)) chosen.push_back(*candidate);
    }
  };
  for (const auto& of_sync : best) {
    const std::map<std::string, Candidate>& codecs = of_sync.second;
    const auto is_much_faster = [&](const char* codec, const Candidate& than) {
      const auto at = codecs.find(codec);
      return at != codecs.end() && at->second.samples_per_s > kFaster * than.samples_per_s;
    };
    const auto own = codecs.find(codec_);
    if (own == codecs.end()) continue;
    const Candidate& dense = is_much_faster(kSmall, own->second) ? codecs.at(kSmall) : own->second;
    add(dense);
    if (is_much_faster(kSparse, dense)) add(codecs.at(kSparse));
  }
  std::stable_sort(chosen.begin(), chosen.end(), is_faster);
  return chosen;
}

std::vector<Candidate> AdviseCandidates::neighbours(const Candidate& near) {
  std::vector<Candidate> found;
  const Choice choice = choice_of(near);
  const auto add = [&](const std::optional<Candidate>& one) {
    if (one && one->samples_per_s >= kLeastSpeed * near.samples_per_s) found.push_back(*one);
  };
  for (const int step : {2, -2, 1, -1}) {
    Choice other = choice;
    other.rate += step;
    add(predicted(other));
  }
  for (const int step : {1, -1}) {
    Choice other = choice;
    other.outer += step;
    add(predicted(other));
  }
  std::vector<std::string> codecs = {codec_};
  for (const char* codec : kTriedCodecs)
    if (codec != codec_) codecs.push_back(codec);
  for (const std::string& codec : codecs) {
    if (codec == choice.codec) continue;
    // A codec with more bytes may learn more from a sample. A codec with fewer bytes must be
    // faster.
    Choice other = choice;
    other.codec = codec;
    add(predicted(other));
    add(fastest(other));
  }
  if (const auto steps = steps_of(job(near)))
    for (const double factor : {0.5, 2.0}) {
      Choice other = choice;
      other.steps = std::max<std::uint64_t>(1, std::uint64_t(double(*steps) * factor));
      if (other.steps == *steps) continue;
      if (other.steps == own_steps(choice)) other.steps = 0;
      add(predicted(other));
    }
  add_overlays(choice, near, 0.9 * near.samples_per_s, 2, found);
  return found;
}

// Returns nothing if the choice is illegal, fails without numbers, or has no such rate.
std::optional<Candidate> AdviseCandidates::predicted(const Choice& choice) {
  const auto plain = timed(choice.with_own_rates());
  if (!plain || (choice.rate == 0 && choice.outer == 0)) return plain;
  return with_rates(*plain, choice);
}

// Applies the rates of a choice. Rates do not change any durations.
std::optional<Candidate> AdviseCandidates::with_rates(const Candidate& plain,
                                                      const Choice& choice) {
  run::Job job = jobs_.at(plain.label);
  Candidate candidate = plain;
  if (choice.rate != 0) {
    if (!tunes_rates_) return std::nullopt;
    const auto rate = scale_rate(job, std::exp2(0.5 * choice.rate));
    if (!rate) return std::nullopt;
    candidate.label += fmt::format("-rate={:.3g}", *rate);
  }
  if (choice.outer != 0) {
    const auto rate = scale_outer_rate(job, std::exp2(0.5 * choice.outer));
    if (!rate) return std::nullopt;
    candidate.label += fmt::format("-outer.rate={:.3g}", *rate);
  }
  choices_.emplace(candidate.label, choice);
  jobs_.emplace(candidate.label, std::move(job));
  return candidate;
}

// Returns nothing if the choice is illegal or fails without numbers.
std::optional<Candidate> AdviseCandidates::timed(const Choice& choice) {
  if (const auto known = predicted_.find(choice); known != predicted_.end()) return known->second;
  if (is_over_ && is_over_()) {
    ++not_predicted_;
    return std::nullopt;
  }
  const auto at = predicted_.emplace(choice, std::nullopt).first;
  CompareAxes axes;
  axes.lenient = true;
  axes.syncs = {choice.sync};
  axes.overlays = {choice.overlay};
  if (choice.codec != codec_) axes.codecs = {choice.codec};
  if (choice.steps > 0) axes.sweeps = {fmt::format("sync.steps={}", choice.steps)};
  auto made = compared_jobs(options_, axes);
  if (!made) {
    ++illegal_;
    return std::nullopt;
  }
  ComparedJob& one = made->jobs.front();
  // Before the prediction, which must not depend on it.
  max_rounds_.emplace(one.label, std::exchange(one.job.stop.max_rounds, std::uint64_t{1} << 53));
  const auto prediction = run::predict(one.job, embedding().learners);
  if (!prediction) failures_.try_emplace(choice.sync, without_command(prediction.error().what));
  if (!prediction) return std::nullopt;
  // Rounds that all end with one slow exchange seem to take no time.
  const double samples = double(run::samples_per_round(one.job));
  const double most_per_s = run::most_samples_per_s(one.job);
  const double round_s = prediction->round_s > 0 ? prediction->round_s : samples / most_per_s;
  at->second = Candidate{.label = one.label,
                         .sync = choice.sync,
                         .overlay = choice.overlay,
                         .codec = choice.codec,
                         .samples_per_s = std::min(samples / round_s, most_per_s),
                         .round_s = round_s,
                         .family = one.label};
  choices_.emplace(one.label, choice);
  jobs_.emplace(one.label, std::move(one.job));
  return at->second;
}

// Adds the fastest other overlays with at least `least` samples per second; at most `most`.
void AdviseCandidates::add_overlays(Choice near, const Candidate& of, double least,
                                    std::size_t most, std::vector<Candidate>& found) {
  std::vector<Candidate> others;
  for (const std::string& overlay : overlays_of(near.sync)) {
    near.overlay = overlay;
    const auto one = predicted(near);
    if (one && one->label != of.label && one->samples_per_s >= least) others.push_back(*one);
  }
  std::stable_sort(others.begin(), others.end(), is_faster);
  if (others.size() > most) others.resize(most);
  found.insert(found.end(), others.begin(), others.end());
}

// Returns the candidate with the fastest overlay for this strategy, codec and steps.
std::optional<Candidate> AdviseCandidates::fastest(Choice choice) {
  std::optional<Candidate> best;
  for (const std::string& overlay : overlays_of(choice.sync)) {
    choice.overlay = overlay;
    const auto one = predicted(choice);
    if (one && (!best || is_faster(*one, *best))) best = one;
  }
  return best;
}

// Returns the strategy's steps in the job, for which a choice has 0.
std::uint64_t AdviseCandidates::own_steps(Choice choice) {
  choice.codec = codec_;
  choice.steps = 0;
  const auto plain = timed(choice.with_own_rates());
  return plain ? steps_of(job(*plain)).value_or(0) : 0;
}

// Returns the overlays fastest with the job's own codec, in order of speed, and always direct,
// gather and hub.
std::vector<std::string> AdviseCandidates::overlays_of(const std::string& sync) const {
  std::vector<std::string> overlays = overlays_.at(sync), chosen;
  for (const std::string& overlay : overlays)
    if (chosen.size() < kFastOverlays || overlay == "direct" || overlay == "gather" ||
        overlay == "hub")
      chosen.push_back(overlay);
  return chosen;
}

}  // namespace longhaul::cli
