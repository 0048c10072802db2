#include "longhaul/report/verdict.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "longhaul/report/run_reader.h"

namespace longhaul::report {
namespace {

using nlohmann::ordered_json;

std::optional<double> figure(const ordered_json& run, const char* key) {
  const auto summary = run.find("summary");
  if (summary == run.end() || !summary->is_object()) return std::nullopt;
  const auto at = summary->find(key);
  if (at == summary->end() || !at->is_number()) return std::nullopt;
  return at->get<double>();
}

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

// "20 MB between sites"; of a folder that one site wrote, what that site sent; "" where there is
// one site only.
std::string sent_text(const ordered_json& run) {
  const std::string size = size_text(figure(run, "wan_bytes").value_or(0));
  if (const std::string site = run.value("of_site", ""); !site.empty())
    return fmt::format("{} sent by {}", size, site);
  if (const auto sites = run.find("sites"); sites != run.end() && sites->size() == 1) return "";
  return size + " between sites";
}

// "60 s, 20 MB"
std::string short_figures(const ordered_json& run, double reached) {
  const std::string sent = sent_text(run);
  const bool all = sent.ends_with(" between sites");
  return seconds_text(reached) + (sent.empty() ? "" : ", ") +
         (all ? size_text(figure(run, "wan_bytes").value_or(0)) : sent);
}

// Two runs of the same parts are told apart by their labels.
std::string name_of(const ordered_json& run, const std::vector<ordered_json>& all) {
  const std::string parts = parts_text(run);
  const auto same = std::count_if(all.begin(), all.end(),
                                  [&](const auto& other) { return parts_text(other) == parts; });
  return same > 1 ? fmt::format("{} ({})", run.value("label", ""), parts) : parts;
}

struct Busiest {
  std::string link;  // "": none is known
  bool planned = false;
};

// By what was sent; where that is not known, by the plan of the overlay.
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

std::string one_run(const ordered_json& run) {
  std::string text = parts_text(run);
  const auto time = figure(run, "time_s");
  if (!time) return text + " is under way.";
  const auto reached = figure(run, "time_to_target_s");
  if (reached)
    text += fmt::format(" reached {} in {}", target_of(run), seconds_text(*reached));
  else
    text += fmt::format(" ran for {}", seconds_text(*time));
  if (!reached && run.at("target").is_number())
    text += fmt::format(" without reaching {}", target_of(run));
  if (const std::string sent = sent_text(run); !sent.empty()) text += ", with " + sent;
  return text + "." + limits_text(run, nullptr);
}

std::optional<double> best_score(const ordered_json& run) {
  const auto& scores = run.at("scores").at("score");
  if (scores.empty() || !scores.back().is_number()) return std::nullopt;
  return scores.back().get<double>();
}

bool is_real(const ordered_json& run) { return run.value("clock", "") == "real"; }

// Smaller is better: time to the target, or else the score.
double standing_of(const ordered_json& run) {
  if (const auto reached = figure(run, "time_to_target_s")) return *reached;
  const double score = best_score(run).value_or(0);
  const bool more_is_better = run.value("score_unit", "") == "accuracy";
  return 1e18 - 1e12 * (more_is_better ? score : -score);
}

// Simulated runs before those over sockets, for their times say nothing of each other; then one
// order with cli/compare_ranking.cpp.
std::tuple<bool, double, double, std::string> order_of(const ordered_json& run) {
  return {is_real(run), standing_of(run), figure(run, "wan_bytes").value_or(0),
          run.value("label", "")};
}

// Of runs of which none reached a target.
std::string by_score(const std::vector<ordered_json>& runs) {
  const ordered_json& first = runs[0];
  std::string text;
  if (first.at("target").is_number()) text = fmt::format("No run reached {}. ", target_of(first));
  const auto equal = std::count_if(runs.begin(), runs.end(), [&](const ordered_json& run) {
    return best_score(run) == best_score(first);
  });
  if (!best_score(first)) return text + "None was scored.";
  if (equal == 2)
    return text + fmt::format("{} and {} share the best score.", name_of(first, runs),
                              name_of(runs[1], runs));
  if (equal > 2) return text + fmt::format("{} runs share the best score.", equal);
  return text + name_of(first, runs) + " has the best score.";
}

std::string of_one_clock(const std::vector<ordered_json>& runs) {
  if (runs.size() == 1) return one_run(runs.front());
  const ordered_json &first = runs[0], &second = runs[1];
  const auto a = figure(first, "time_to_target_s"), b = figure(second, "time_to_target_s");
  if (!a) return by_score(runs);
  std::string text = fmt::format("{} reaches {} first: in {}", name_of(first, runs),
                                 target_of(first), seconds_text(*a));
  if (const std::string sent = sent_text(first); !sent.empty()) text += " with " + sent;
  const double ratio = b.value_or(0) / std::max(*a, 1e-9);
  const std::string next =
      fmt::format("{} ({})", name_of(second, runs), short_figures(second, b.value_or(0)));
  if (!b)
    text += "; no other run reached it.";
  else if (ratio < 1.01)
    text += fmt::format("; {} takes as long.", next);
  else
    text += fmt::format(", {:.2f} times sooner than {}.", ratio, next);
  return text + limits_text(first, &second);
}

}  // namespace

void sort_runs(std::vector<ordered_json>& runs) {
  std::stable_sort(runs.begin(), runs.end(), [](const ordered_json& a, const ordered_json& b) {
    return order_of(a) < order_of(b);
  });
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

std::string figures_text(const ordered_json& run) {
  const auto reached = figure(run, "time_to_target_s"), time = figure(run, "time_s");
  if (reached) return fmt::format("{} in {}", target_of(run), short_figures(run, *reached));
  return time ? short_figures(run, *time) : "under way";
}

}  // namespace longhaul::report
