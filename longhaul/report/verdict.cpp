#include "longhaul/report/verdict.h"

#include <algorithm>

#include <fmt/format.h>

#include "longhaul/report/run_reader.h"

namespace longhaul::report {
namespace {

using nlohmann::ordered_json;

std::string seconds_text(double s) {
  if (s < 120) return fmt::format("{:.3g} s", s);
  if (s < 7200) return fmt::format("{:.3g} min", s / 60);
  return fmt::format("{:.3g} h", s / 3600);
}

std::string size_text(double bytes) {
  if (bytes < 1e3) return fmt::format("{:g} B", bytes);
  if (bytes < 1e6) return fmt::format("{:.3g} kB", bytes / 1e3);
  return bytes < 1e9 ? fmt::format("{:.3g} MB", bytes / 1e6)
                     : fmt::format("{:.3g} GB", bytes / 1e9);
}

std::string target_of(const ordered_json& run) {
  const double target =
      run.value("target", ordered_json(0.0)).is_number() ? run.at("target").get<double>() : 0;
  return run.value("score_unit", "") == "accuracy" ? fmt::format("{:g} %", 100 * target)
                                                   : fmt::format("{:g} bits per byte", target);
}

// Returns "20 MB between sites"; for the folder of one site, the bytes that this site sent; "" if
// there is only one site.
std::string sent_text(const ordered_json& run, double bytes) {
  const std::string size = size_text(bytes);
  if (const std::string site = run.value("of_site", ""); !site.empty())
    return fmt::format("{} sent by {}", size, site);
  if (const auto sites = run.find("sites"); sites != run.end() && sites->size() == 1) return "";
  return size + " between sites";
}

// Returns "60 s, 20 MB"; for several seeds medians and range: "60 s (50 s to 70 s), 20 MB".
std::string short_figures(const SeedGroup& group, const Spread& time) {
  std::string text = seconds_text(time.median);
  if (group.several())
    text += fmt::format(" ({} to {})", seconds_text(time.min), seconds_text(time.max));
  const std::string sent = sent_text(*group.runs.front(), group.wan_bytes);
  const bool all = sent.ends_with(" between sites");
  return text + (sent.empty() ? "" : ", ") + (all ? size_text(group.wan_bytes) : sent);
}

// Returns the parts of a combination, with its label if another combination has the same parts.
std::string name_of(const SeedGroup& group, const std::vector<SeedGroup>& all) {
  const std::string parts = parts_text(*group.runs.front());
  const auto same = std::count_if(all.begin(), all.end(), [&](const SeedGroup& other) {
    return parts_text(*other.runs.front()) == parts;
  });
  return same > 1 ? fmt::format("{} ({})", group.label, parts) : parts;
}

struct Busiest {
  std::string link;  // "": unknown
  bool planned = false;
};

// Returns the busiest link by the sent bytes; if they are not known, by the overlay's plan.
Busiest busiest_of(const ordered_json& run) {
  if (const auto sent = run.find("busiest"); sent != run.end() && sent->is_string())
    return {*sent, false};
  const auto plan = run.find("plan");
  if (plan == run.end() || !plan->is_object() || !plan->contains("busiest")) return {};
  const auto& busiest = (*plan)["busiest"];
  return {busiest.is_string() ? busiest.get<std::string>() : "", true};
}

std::string limits_text(const ordered_json& first, const ordered_json* second) {
  const Busiest one = busiest_of(first), two = second ? busiest_of(*second) : Busiest();
  if (one.link.empty()) return "";
  if (second && one.link == two.link && one.planned == two.planned)
    return fmt::format(" {} busiest link of both is {}.", one.planned ? "By plan the" : "The",
                       one.link);
  return fmt::format(" {} busiest link is {}.", one.planned ? "By plan its" : "Its", one.link);
}

std::string one_combination(const SeedGroup& group) {
  const ordered_json& run = *group.runs.front();
  std::string text = parts_text(run);
  std::vector<double> times;
  for (const ordered_json* one : group.runs)
    if (const auto time = figure(*one, "time_s")) times.push_back(*time);
  if (times.empty()) return text + " is under way.";
  const Spread time = group.target ? *group.target : *spread_of(times);
  if (group.target)
    text += fmt::format(" reached {} in {}", target_of(run), seconds_text(time.median));
  else
    text += fmt::format(" ran for {}", seconds_text(time.median));
  if (group.several())
    text += fmt::format(" ({} to {}, {} seeds)", seconds_text(time.min), seconds_text(time.max),
                        group.runs.size());
  if (!group.target && run.at("target").is_number())
    text += fmt::format(" without reaching {}", target_of(run));
  if (const std::string sent = sent_text(run, group.wan_bytes); !sent.empty())
    text += ", with " + sent;
  return text + "." + limits_text(run, nullptr);
}

// The text about several combinations, the best first.
class Words {
 public:
  explicit Words(const std::vector<SeedGroup>& groups)
      : groups_(groups), from_first_(group_differences(groups)) {}

  std::string text() const {
    const SeedGroup& first = groups_.front();
    return first.target && !first.diverged ? by_time() : by_score();
  }

 private:
  std::string name(std::size_t i) const { return name_of(groups_[i], groups_); }
  std::string tied() const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < groups_.size(); ++i)
      if (from_first_[i] == Difference::tie) names.push_back(name(i));
    return names_text(names);
  }
  std::string overlap(const std::string& of) const {
    return fmt::format("{} tie: the ranges of their {} over {} seeds overlap", tied(), of,
                       groups_.front().runs.size());
  }

  std::string by_time() const {
    const SeedGroup &first = groups_[0], &second = groups_[1];
    const ordered_json& run = *first.runs.front();
    const std::string target = target_of(run), sent = sent_text(run, first.wan_bytes);
    const std::string figures =
        seconds_text(first.target->median) + (sent.empty() ? "" : " with " + sent);
    const bool both = second.target && !second.diverged;
    const std::string next =
        both ? fmt::format("{} ({})", name(1), short_figures(second, *second.target))
             : "no other run reached it";
    std::string text;
    if (from_first_[0] == Difference::tie)
      text = fmt::format("{}; by the median {} takes {}", overlap("times to " + target), name(0),
                         figures);
    else if (from_first_[0] == Difference::one_seed)
      text = fmt::format("One seed cannot tell which is first{}: {} reaches {} in {}{}{}",
                         first.real ? "" : " (compare --seeds 3 may)", name(0), target, figures,
                         both ? ", next is " : "; ", next);
    else if (both)
      text = fmt::format(
          "{} reaches {} first: in {}, {:.2f} times sooner than {}, by the median "
          "of {} seeds",
          name(0), target, figures, second.target->median / std::max(first.target->median, 1e-9),
          next, first.runs.size());
    else
      text = fmt::format("{} reaches {} first: in {}, by the median of {} seeds; {}", name(0),
                         target, figures, first.runs.size(), next);
    return text + "." + limits_text(run, second.runs.front());
  }

  // Called when no run reached a target, or there is none.
  std::string by_score() const {
    const SeedGroup& first = groups_.front();
    std::string text;
    if (first.runs.front()->at("target").is_number())
      text = fmt::format("No run reached {}. ", target_of(*first.runs.front()));
    if (!first.score) return text + "None was scored.";
    if (from_first_[0] == Difference::tie) return text + overlap("scores") + ".";
    const auto equal = std::count_if(groups_.begin(), groups_.end(), [&](const SeedGroup& group) {
      return group.score && group.score->median == first.score->median;
    });
    if (equal == 2) return text + fmt::format("{} and {} share the best score.", name(0), name(1));
    if (equal > 2) return text + fmt::format("{} runs share the best score.", equal);
    text += name(0) + " has the best score";
    return text + (from_first_[0] == Difference::one_seed ? ", which one seed cannot tell." : ".");
  }

  const std::vector<SeedGroup>& groups_;
  const std::vector<Difference> from_first_;
};

std::string of_one_clock(const std::vector<ordered_json>& runs) {
  const std::vector<SeedGroup> groups = seed_groups(runs);
  return groups.size() == 1 ? one_combination(groups.front()) : Words(groups).text();
}

}  // namespace

void sort_runs(std::vector<ordered_json>& runs) {
  std::vector<ordered_json> sorted;
  std::size_t number = 0;
  for (const SeedGroup& group : seed_groups(runs)) {
    for (const ordered_json* run : group.runs) {
      sorted.push_back(*run);
      sorted.back()["group"] = number;
    }
    ++number;
  }
  runs = std::move(sorted);
}

bool has_both_clocks(const std::vector<ordered_json>& runs) {
  const auto real = std::count_if(runs.begin(), runs.end(), is_real);
  return real > 0 && std::size_t(real) < runs.size();
}

std::string verdict_text(const std::vector<ordered_json>& runs) {
  if (runs.empty()) return "";
  if (!has_both_clocks(runs)) return of_one_clock(runs);
  std::vector<ordered_json> simulated, real;
  for (const ordered_json& run : runs) (is_real(run) ? real : simulated).push_back(run);
  return fmt::format(
      "Simulated: {} Over sockets: {} Virtual seconds follow from the job, real ones from the "
      "machines and the network that there were: they are not compared.",
      of_one_clock(simulated), of_one_clock(real));
}

std::string figures_text(const SeedGroup& group) {
  const ordered_json& run = *group.runs.front();
  const std::string seeds =
      group.several() ? fmt::format(", {} seeds", group.runs.size()) : std::string();
  if (group.target)
    return fmt::format("{} in {}{}", target_of(run), short_figures(group, *group.target), seeds);
  std::vector<double> times;
  for (const ordered_json* one : group.runs)
    if (const auto time = figure(*one, "time_s")) times.push_back(*time);
  return times.empty() ? "under way" : short_figures(group, *spread_of(times)) + seeds;
}

}  // namespace longhaul::report
