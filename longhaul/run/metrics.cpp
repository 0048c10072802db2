#include "longhaul/run/metrics.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/run/job/json.h"

namespace longhaul::run {
namespace {

std::string number(double value) {  // JSON has neither NaN nor infinity
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

}  // namespace

std::uint64_t Thinning::next(Rank rank, std::string_view kind) {
  const std::uint64_t number = ++seen_[{rank, std::string(kind)}];
  std::uint64_t stride = 1;
  while (number > kWhole * stride) stride *= 2;
  return number % stride == 0 ? stride : 0;
}

void Thinning::state(Archive& ar) { ar(seen_); }

std::string to_json_line(const MetricsEvent& event) {
  std::string line = fmt::format(
      R"({{"time_s":{},"site":"{}","rank":{},"round":{},"kind":"{}","values":{{)",
      number(exact_seconds(event.time)), event.site, event.rank, event.round, event.kind);
  bool first = true;
  for (const auto& [name, value] : event.values) {
    line += fmt::format(R"({}"{}":{})", first ? "" : ",", name, number(value));
    first = false;
  }
  if (event.stands_for == 1) return line + "}}\n";
  return line + fmt::format(R"(}},"stands_for":{}}})", event.stands_for) + "\n";
}

std::uint64_t whole_lines(const std::string& path) {
  std::uint64_t whole = 0;
  std::ifstream in(path, std::ios::binary);
  for (std::string line; std::getline(in, line) && !in.eof();) whole += line.size() + 1;
  return whole;
}

ResumedMetrics resumed_metrics(const std::string& path, std::uint64_t keep) {
  ResumedMetrics resumed;
  Round first_cut = Round(-1);
  std::vector<nlohmann::json> kept;
  std::ifstream in(path, std::ios::binary);
  std::uint64_t at = 0;
  for (std::string line; std::getline(in, line); at += line.size() + 1) {
    auto event = parse_json(line);
    if (!event.is_object() || !event.contains("round")) continue;  // torn
    const Round round = event["round"];
    if (at >= keep) {
      first_cut = std::min(first_cut, round);
      continue;
    }
    resumed.void_from = std::max(resumed.void_from, round + 1);
    kept.push_back(std::move(event));
  }
  resumed.void_from = std::min(resumed.void_from, first_cut);
  std::erase_if(kept, [&](const auto& event) { return Round(event["round"]) < resumed.void_from; });
  resumed.kept_on = std::move(kept);
  return resumed;
}

}  // namespace longhaul::run
