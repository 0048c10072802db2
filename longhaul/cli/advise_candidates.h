#pragma once
// The combinations that `longhaul plan` may try: which are legal, how fast each is by a dry run
// without numbers, and which are near to one another.
#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "longhaul/cli/advise_search.h"
#include "longhaul/cli/compare_jobs.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/parts.h"

namespace longhaul::cli {

// One thread. Every candidate that it hands out has a job().
class AdviseCandidates {
  // Strategies that measure something, and those that need a convex model.
  static constexpr std::string_view kNotAdvised[] = {"staleness_lab", "skewscout", "gadmm", "lag"};
  // Codecs that are tried, and of them the one with the fewest bytes.
  static constexpr const char* kTriedCodecs[] = {"fp16", "int8", "q_top_k"};
  static constexpr const char* kSparse = "q_top_k";
  // With another codec only the overlays that are fast with the job's own are looked at.
  static constexpr std::size_t kFastOverlays = 5;

  static std::optional<std::uint64_t> steps_of(const run::Job& job) {
    for (const run::ResolvedTable& table : run::resolved(job))
      if (table.name == "sync")
        for (const run::ResolvedKey& key : table.keys)
          if (key.key == "steps" && !key.value.empty() &&
              std::isdigit(static_cast<unsigned char>(key.value[0])))
            return std::stoull(key.value);
    return std::nullopt;
  }

  static bool is_faster(const Candidate& a, const Candidate& b) {
    return a.samples_per_s > b.samples_per_s;
  }

 public:
  // `options` outlives this. `job`: as the options load it.
  AdviseCandidates(const RunOptions& options, const run::Job& job)
      : options_(options), codec_(job.kind("codec")) {}

  // Times every legal strategy over every overlay, and with the sparse codec; those after `is_over`
  // are counted only. Error: no combination can be simulated, or none was before the end.
  Status predict_all(const std::function<bool()>& is_over) {
    CompareAxes axes;
    axes.syncs = axes.overlays = {"all"};
    LH_LET(made, compared_jobs(options_, axes));
    illegal_ = made.skipped.size();
    // One overlay of every strategy after the other, so that none is left out when time is short.
    std::map<std::string, std::size_t> seen;
    std::vector<std::pair<std::size_t, const ComparedJob*>> order;
    for (const ComparedJob& one : made.jobs) order.emplace_back(seen[one.job.kind("sync")]++, &one);
    std::ranges::stable_sort(order, {}, [](const auto& entry) { return entry.first; });
    std::map<std::string, std::vector<Candidate>> by_sync;
    stop_when(is_over);
    for (const auto& [number, one] : order) {
      const std::string sync = one->job.kind("sync");
      if (std::ranges::find(kNotAdvised, sync) != std::end(kNotAdvised)) {
        left_out_.insert(sync);
      } else if (is_over()) {
        ++not_predicted_;
      } else if (const auto candidate = predicted({sync, one->job.kind("overlay"), codec_})) {
        by_sync[sync].push_back(*candidate);
      }
    }
    if (by_sync.empty() && not_predicted_ > 0)
      return Error{
          Error::Kind::timed_out,
          "plan: nothing was simulated before the budget was over, or Ctrl-C came: give it "
          "longer, --budget-minutes"};
    if (by_sync.empty()) return invalid("plan: no combination can be simulated");
    for (auto& [sync, candidates] : by_sync) {
      std::stable_sort(candidates.begin(), candidates.end(), is_faster);
      for (const Candidate& one : candidates) overlays_[sync].push_back(one.overlay);
    }
    for (const auto& [sync, overlays] : overlays_)
      if (!is_over()) (void)fastest({sync, "", kSparse});
    return Ok{};
  }

  // From now on nothing is predicted when this says so: candidates not predicted yet are counted.
  void stop_when(std::function<bool()> is_over) { is_over_ = std::move(is_over); }
  // Of each strategy the overlay with the most samples a second; the same with the sparse codec
  // where that is faster. The fastest first.
  std::vector<Candidate> first() const {
    std::map<std::string, Candidate> plain, sparse;
    for (const auto& [choice, candidate] : predicted_) {
      if (!candidate || choice.steps > 0) continue;
      auto& best = choice.codec == codec_ ? plain : sparse;
      const auto [at, fresh] = best.emplace(choice.sync, *candidate);
      if (!fresh && is_faster(*candidate, at->second)) at->second = *candidate;
    }
    std::vector<Candidate> chosen;
    for (const auto& [sync, candidate] : plain) {
      chosen.push_back(candidate);
      if (const auto at = sparse.find(sync);
          at != sparse.end() && at->second.samples_per_s > 1.2 * candidate.samples_per_s)
        chosen.push_back(at->second);
    }
    std::stable_sort(chosen.begin(), chosen.end(), is_faster);
    return chosen;
  }

  // Of a candidate that did well: other codecs, each over the overlay that suits it best, other
  // steps, and overlays that are as fast.
  std::vector<Candidate> neighbours(const Candidate& near) {
    std::vector<Candidate> found;
    const Choice choice = choice_of(near);
    const auto add = [&](const std::optional<Candidate>& one, double least) {
      if (one && one->samples_per_s >= least * near.samples_per_s) found.push_back(*one);
    };
    std::vector<std::string> codecs = {codec_};
    for (const char* codec : kTriedCodecs)
      if (codec != codec_) codecs.push_back(codec);
    for (const std::string& codec : codecs) {
      if (codec == choice.codec) continue;
      // What sends more may learn more of a sample; what sends less has to be faster.
      Choice other = choice;
      other.codec = codec;
      add(predicted(other), 0.3);
      add(fastest(other), 0.3);
    }
    if (const auto steps = steps_of(job(near)))
      for (const double factor : {0.25, 0.5, 2.0, 4.0}) {
        Choice other = choice;
        other.steps = std::max<std::uint64_t>(1, std::uint64_t(double(*steps) * factor));
        if (other.steps == *steps) continue;
        if (other.steps == own_steps(choice)) other.steps = 0;
        add(predicted(other), 0.3);
      }
    add_overlays(choice, near, 0.9 * near.samples_per_s, 2, found);
    return found;
  }

  // As the user's, with an end by time or samples only.
  const run::Job& job(const Candidate& candidate) const { return jobs_.at(candidate.label); }
  // The end by rounds that the user's job has.
  std::uint64_t max_rounds(const Candidate& c) const { return max_rounds_.at(c.label); }
  std::size_t predicted() const { return predicted_.size(); }
  std::size_t not_predicted() const { return not_predicted_; }
  std::size_t illegal() const { return illegal_; }
  const std::set<std::string>& left_out() const { return left_out_; }

 private:
  // What tells candidates apart.
  struct Choice {
    std::string sync, overlay, codec;
    std::uint64_t steps = 0;  // 0: as the job has it, or the strategy has none
    auto operator<=>(const Choice&) const = default;
  };
  Choice choice_of(const Candidate& candidate) const { return choices_.at(candidate.label); }

  // Nothing: it is illegal, or fails without numbers.
  std::optional<Candidate> predicted(const Choice& choice) {
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
    const auto prediction = run::predict(one.job);
    if (!prediction || !(prediction->round_s > 0)) return std::nullopt;
    max_rounds_.emplace(one.label, std::exchange(one.job.stop.max_rounds, std::uint64_t{1} << 53));
    at->second =
        Candidate{.label = one.label,
                  .sets = {},
                  .sync = choice.sync,
                  .overlay = choice.overlay,
                  .codec = choice.codec,
                  .samples_per_s = double(run::samples_per_round(one.job)) / prediction->round_s};
    choices_.emplace(one.label, choice);
    jobs_.emplace(one.label, std::move(one.job));
    return at->second;
  }

  // Overlays but its own that use at least so many samples a second.
  void add_overlays(Choice near, const Candidate& of, double least, std::size_t most,
                    std::vector<Candidate>& found) {
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

  // The fastest overlay for that strategy, codec and steps.
  std::optional<Candidate> fastest(Choice choice) {
    std::optional<Candidate> best;
    for (const std::string& overlay : overlays_of(choice.sync)) {
      choice.overlay = overlay;
      const auto one = predicted(choice);
      if (one && (!best || is_faster(*one, *best))) best = one;
    }
    return best;
  }

  // Those that the job gives the strategy, for which a choice says 0.
  std::uint64_t own_steps(Choice choice) {
    choice.codec = codec_;
    choice.steps = 0;
    const auto plain = predicted(choice);
    return plain ? steps_of(job(*plain)).value_or(0) : 0;
  }

  // In the order of their rates with the job's own codec; a server's also has its simplest ways.
  std::vector<std::string> overlays_of(const std::string& sync) const {
    std::vector<std::string> overlays = overlays_.at(sync), chosen;
    for (const std::string& overlay : overlays)
      if (chosen.size() < kFastOverlays || overlay == "direct" || overlay == "gather" ||
          overlay == "hub")
        chosen.push_back(overlay);
    return chosen;
  }

  const RunOptions& options_;
  const std::string codec_;  // the job's
  std::map<Choice, std::optional<Candidate>> predicted_;
  std::map<std::string, Choice> choices_;  // by label
  std::map<std::string, run::Job> jobs_;   // by label
  std::map<std::string, std::uint64_t> max_rounds_;
  std::map<std::string, std::vector<std::string>> overlays_;  // legal for a strategy, fastest first
  std::set<std::string> left_out_;
  std::size_t not_predicted_ = 0, illegal_ = 0;
  std::function<bool()> is_over_;  // empty: never
};

}  // namespace longhaul::cli
