#include "longhaul/cli/advise_finals.h"

#include <algorithm>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/base/rng.h"
#include "longhaul/run/job/json.h"

namespace longhaul::cli {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::size_t kResamplings = 2000;
constexpr std::size_t kThrifty = 2;  // places of finalists for those that send the fewest bytes

report::Outcome outcome_of(const FinalRun& run) {
  report::Outcome outcome{.diverged = run.diverged,
                          .score = run.score,
                          .lower_is_better = run.lower_is_better,
                          .time_s = run.time_s,
                          .wan_bytes = run.wan_bytes};
  if (run.target) outcome.target_s = run.target->at;
  return outcome;
}

std::vector<report::Outcome> outcomes_of(const Finalist& finalist) {
  std::vector<report::Outcome> outcomes;
  for (const FinalRun& run : finalist.runs) outcomes.push_back(outcome_of(run));
  return outcomes;
}

// Less is better. With a target, the times of both scores that enclose it, so that ranges are as
// wide as what is known.
std::vector<double> deciding_values(const Finalist& one, const report::Standing& first) {
  std::vector<double> values;
  for (const FinalRun& run : one.runs) {
    if (run.diverged) {
      values.push_back(std::numeric_limits<double>::quiet_NaN());
    } else if (!first.target) {
      values.push_back(run.score ? *run.score * (run.lower_is_better ? 1 : -1) : kNever);
    } else if (!run.target || one.runs.size() == 1) {
      values.push_back(run.target ? run.target->at : kNever);
    } else {
      values.push_back(run.target->after);
      values.push_back(run.target->by);
    }
  }
  return values;
}

// The median over as many seeds as there are, drawn with repetition, of times drawn between the
// scores that enclose them.
double drawn_time(const Finalist& finalist, Random& random) {
  std::vector<double> times;
  for (std::size_t i = 0; i < finalist.runs.size(); ++i) {
    const auto& target = finalist.runs[random.below(finalist.runs.size())].target;
    const double share = random.uniform();
    times.push_back(target ? target->after + share * (target->by - target->after) : kNever);
  }
  return report::median(std::move(times));
}

bool beats(const FrontPoint& a, const FrontPoint& b) {
  const double cost_a = a.cost.value_or(0), cost_b = b.cost.value_or(0);
  return a.time_s <= b.time_s && a.wan_bytes <= b.wan_bytes && cost_a <= cost_b &&
         (a.time_s < b.time_s || a.wan_bytes < b.wan_bytes || cost_a < cost_b);
}

}  // namespace

double higher_target(double accuracy) { return std::min(accuracy + 0.01, (1 + accuracy) / 2); }

std::vector<Candidate> finalists_of(const std::vector<Trial>& ranking, std::size_t most) {
  std::vector<const Trial*> reached;
  std::set<std::string> families;
  // Candidates with the same strategy, time and bytes differ in nothing that they did.
  const auto is_copy = [&](const Trial& trial) {
    return std::ranges::any_of(reached, [&](const Trial* other) {
      return other->candidate.sync == trial.candidate.sync && other->to_target == trial.to_target &&
             other->summary.wan_bytes == trial.summary.wan_bytes;
    });
  };
  for (const Trial& trial : ranking)
    if (trial.ran && trial.to_target && !is_copy(trial) &&
        families.insert(trial.candidate.family).second)
      reached.push_back(&trial);
  if (reached.size() > most) {
    const auto rest = reached.begin() + std::ptrdiff_t(most > kThrifty ? most - kThrifty : most);
    std::stable_sort(rest, reached.end(), [](const Trial* a, const Trial* b) {
      return a->summary.wan_bytes < b->summary.wan_bytes;
    });
    reached.resize(most);
  }
  std::vector<Candidate> chosen;
  for (const Trial* trial : reached) chosen.push_back(trial->candidate);
  return chosen;
}

FinalsSize finals_that_fit(const std::vector<double>& costs, std::size_t seeds, double left) {
  for (; seeds > 1; --seeds) {
    double rest = left;
    std::size_t fit = 0;
    while (fit < costs.size() && (rest -= double(seeds) * costs[fit]) >= 0) ++fit;
    if (fit > 0 && fit >= std::min<std::size_t>(2, costs.size())) return {fit, seeds};
  }
  return {};
}

std::optional<Crossing> crossing(const std::vector<report::ScorePoint>& scores, bool bits,
                                 double target) {
  std::optional<run::Scored> before;
  std::optional<double> bytes_before;
  for (const report::ScorePoint& point : scores) {
    if (!point.score) continue;
    const run::Scored now{point.time_s, bits ? -*point.score : *point.score};
    if (now.value >= target) {
      Crossing found{run::target_time(before ? &*before : nullptr, now, target), point.wan_bytes};
      const double apart = found.time.by - found.time.after;
      if (bytes_before && point.wan_bytes && apart > 0)
        found.wan_bytes = *bytes_before + (found.time.at - found.time.after) / apart *
                                              (*point.wan_bytes - *bytes_before);
      return found;
    }
    before = now;
    bytes_before = point.wan_bytes;
  }
  return std::nullopt;
}

void rank_finalists(std::vector<Finalist>& finalists, const run::CostTable& prices,
                    std::size_t nodes) {
  for (Finalist& one : finalists) {
    one.standing = report::standing_of(outcomes_of(one));
    if (!prices.has_prices()) continue;
    std::vector<double> costs;
    for (const FinalRun& run : one.runs)
      costs.push_back(
          prices.of(run.wan_bytes, (run.target ? run.target->at : run.time_s) * double(nodes)));
    one.cost = report::median(costs);
  }
  std::stable_sort(finalists.begin(), finalists.end(), [](const Finalist& a, const Finalist& b) {
    return report::is_ahead(a.standing, a.candidate.label, b.standing, b.candidate.label);
  });
  if (finalists.empty()) return;
  std::vector<std::vector<double>> values;
  for (const Finalist& one : finalists)
    values.push_back(deciding_values(one, finalists.front().standing));
  const auto all = report::differences_from_first(values);
  for (std::size_t i = 0; i < finalists.size(); ++i) finalists[i].from_first = all[i];
}

std::optional<double> confidence(const std::vector<Finalist>& finalists, std::uint64_t seed) {
  std::vector<const Finalist*> judged;
  for (const Finalist& one : finalists)
    if (one.runs.size() > 1) judged.push_back(&one);
  if (judged.size() < 2 || judged.front() != &finalists.front()) return std::nullopt;
  Random random(seed, {.purpose = Purpose::resampling});
  std::size_t first = 0;
  for (std::size_t i = 0; i < kResamplings; ++i) {
    std::vector<double> times;
    for (const Finalist* one : judged) times.push_back(drawn_time(*one, random));
    first += times.front() < kNever && std::ranges::min(times) == times.front();
  }
  return double(first) / double(kResamplings);
}

std::vector<FrontPoint> front_of(const std::vector<Finalist>& finalists,
                                 const std::function<const run::Job&(const Candidate&)>& job_of) {
  std::vector<FrontPoint> all;
  for (const Finalist& one : finalists) {
    if (!one.standing.target) continue;
    const run::Job& job = job_of(one.candidate);
    FrontPoint point{.label = one.candidate.label,
                     .time_s = one.standing.target->median,
                     .wan_bytes = one.standing.wan_bytes,
                     .cost = one.cost,
                     .seeds = one.runs.size(),
                     .reached = one.standing.reached,
                     .does = doing_of(job),
                     .risks = risks_of(job)};
    if (one.standing.score) point.score = one.standing.score->median;
    all.push_back(std::move(point));
  }
  std::vector<FrontPoint> front;
  for (const FrontPoint& point : all)
    if (std::ranges::none_of(all, [&](const FrontPoint& other) { return beats(other, point); }))
      front.push_back(point);
  std::ranges::stable_sort(front, {}, &FrontPoint::time_s);
  if (front.size() > kMaxFront) front.resize(kMaxFront);
  return front;
}

std::string doing_of(const run::Job& job) {
  return fmt::format("{}; {}", job.sync.entry->summary,
                     job.sync.entry->traits.served ? "by a server" : job.overlay.entry->summary);
}

std::string risks_of(const run::Job& job) {
  const SyncEntry entry = entry_with(*job.sync.entry, job.sync.settings);
  std::vector<std::string> risks;
  if (!entry.costs.empty() && !entry.costs.front().staleness.starts_with("0"))
    risks.push_back(fmt::format("stale updates ({})", entry.costs.front().staleness));
  if (entry.traits.mean_at_end) risks.emplace_back("no mean of all models before the end");
  if (entry.traits.server_is_needed && job.server_table.standby_every == 0)
    risks.emplace_back("ends with its server");
  const std::string_view codec = job.codec.entry->name;
  if (job.codec.entry->traits.sparse)
    risks.push_back(fmt::format("{} leaves most values out of a message", codec));
  else if (!job.codec.entry->traits.lossless)
    risks.push_back(fmt::format("{} rounds values", codec));
  if (!job.transfer.entry->traits.lossless)
    risks.push_back(fmt::format("{} loses values", job.transfer.entry->name));
  return fmt::format("{}", fmt::join(risks, ", "));
}

bool keeps_first(const Change& change, const std::string& first) {
  return !change.times.empty() && change.times.front().first == first &&
         change.times.front().second.has_value();
}

void scale_bandwidth(run::Job& job, double factor) {
  job.wan.rate_scale *= factor;
  const double unit = flow::bytes_per_second(1);
  for (std::size_t i = 0; i < job.sites.size(); ++i) {
    const flow::Wan::Site& site = job.network.sites[i];
    if (site.up) job.sites[i].up_mbps = *site.up / unit * factor;
    if (site.down) job.sites[i].down_mbps = *site.down / unit * factor;
  }
  for (run::TraceTable& trace : job.traces) {
    if (trace.what != "up" && trace.what != "down") continue;
    trace.low *= factor;
    trace.high *= factor;
    for (double& value : trace.values) value *= factor;
  }
}

std::string slow_down(run::Job& job) {
  const auto slowest = std::ranges::max_element(job.sites, {}, [](const run::SiteTable& site) {
    const bool works = std::ranges::find(site.roles, "worker") != site.roles.end();
    return works ? site.step_ms : 0;
  });
  slowest->step_ms *= 2;
  if (slowest->step_values)
    for (double& value : *slowest->step_values) value *= 2;
  return slowest->name;
}

nlohmann::ordered_json to_json(const Finalist& one) {
  nlohmann::ordered_json json = {{"label", one.candidate.label},
                                 {"sync", one.candidate.sync},
                                 {"overlay", one.candidate.overlay},
                                 {"codec", one.candidate.codec},
                                 {"reached", one.standing.reached},
                                 {"ties_with_first", one.from_first == report::Difference::tie},
                                 {"time_to_target_s", nullptr},
                                 {"wan_bytes", one.standing.wan_bytes},
                                 {"seeds", nlohmann::json::array()}};
  if (one.from_first == report::Difference::one_seed) json["ties_with_first"] = nullptr;
  if (const auto& time = one.standing.target)
    json["time_to_target_s"] = {
        {"median", time->median},
        {"min", time->min},
        {"max", one.standing.reached == one.runs.size() ? nlohmann::ordered_json(time->max)
                                                        : nlohmann::ordered_json()}};
  if (one.cost) json["cost"] = *one.cost;
  for (const FinalRun& run : one.runs) {
    nlohmann::ordered_json seed = {{"seed", run.seed},
                                   {"time_to_target_s", nullptr},
                                   {"wan_bytes", run.wan_bytes},
                                   {"score", run::json_of(run.score)}};
    if (run.target) {
      seed["time_to_target_s"] = run.target->at;
      seed["between_s"] = {run.target->after, run.target->by};
    }
    json["seeds"].push_back(std::move(seed));
  }
  return json;
}

nlohmann::ordered_json to_json(const FrontPoint& point) {
  nlohmann::ordered_json json = {
      {"label", point.label},         {"time_to_target_s", point.time_s},
      {"wan_bytes", point.wan_bytes}, {"score", run::json_of(point.score)},
      {"seeds", point.seeds},         {"reached", point.reached},
      {"does", point.does},           {"risks", point.risks}};
  if (point.cost) json["cost"] = *point.cost;
  return json;
}

nlohmann::ordered_json to_json(const Change& change) {
  nlohmann::ordered_json times = nlohmann::json::array();
  for (const auto& [label, time] : change.times)
    times.push_back({{"label", label}, {"time_to_target_s", run::json_of(time)}});
  return {{"what", change.what}, {"times", times}};
}

}  // namespace longhaul::cli
