#include "longhaul/run/run_statistics.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "longhaul/run/nodes.h"

namespace longhaul::run {
namespace {

constexpr std::string_view kCause = "_wait_s";

// "exchange" of wait_s, "grant" of grant_wait_s; "" of others.
std::string_view cause_of(std::string_view record) {
  if (record == "wait_s") return "exchange";
  return record.ends_with(kCause) ? record.substr(0, record.size() - kCause.size()) : "";
}

bool is_count(const nlohmann::json& value) { return value.is_number_unsigned(); }

}  // namespace

void RunStatistics::add(const Member& node, const Record& record) {
  if (const std::string_view cause = cause_of(record.name); !cause.empty())
    waiting_s[std::string(cause)] += record.value;
  if (!(record.value >= 0)) return;
  if (record.name == "staleness")
    ++staleness[std::uint64_t(std::min(std::round(record.value), double(kMaxStaleness)))];
  if (record.name == "sent_share" || record.name == "group_size") {
    Mean& mean = means[record.name];
    ++mean.count;
    mean.sum += record.value;
  }
  if (record.name == "steps") {
    Steps& mine = steps[node_name(node)];
    ++mine.updates;
    mine.steps += std::uint64_t(std::llround(record.value));
  }
}

void RunStatistics::add(const RunStatistics& other) {
  for (const auto& [cause, time] : other.waiting_s) waiting_s[cause] += time;
  for (const auto& [rounds, updates] : other.staleness) staleness[rounds] += updates;
  for (const auto& [node, more] : other.steps) {
    steps[node].updates += more.updates;
    steps[node].steps += more.steps;
  }
  for (const auto& [name, more] : other.means) {
    means[name].count += more.count;
    means[name].sum += more.sum;
  }
}

void write(const RunStatistics& statistics, nlohmann::ordered_json& into) {
  if (!statistics.waiting_s.empty()) into["waiting_s"] = statistics.waiting_s;
  for (const auto& [rounds, updates] : statistics.staleness)
    into["staleness"][std::to_string(rounds)] = updates;
  for (const auto& [node, one] : statistics.steps)
    into["local_steps"][node] = {{"updates", one.updates}, {"steps", one.steps}};
  for (const auto& [name, mean] : statistics.means)
    into["means"][name] = {{"count", mean.count}, {"mean", mean.sum / double(mean.count)}};
}

RunStatistics read_statistics(const nlohmann::json& from) {
  RunStatistics statistics;
  const auto each = [&](const char* key, const auto& take) {
    if (!from.is_object() || !from.contains(key) || !from[key].is_object()) return;
    for (const auto& [name, value] : from[key].items()) take(name, value);
  };
  each("waiting_s", [&](const std::string& cause, const auto& value) {
    if (value.is_number()) statistics.waiting_s[cause] = value.template get<double>();
  });
  each("staleness", [&](const std::string& rounds, const auto& value) {
    const bool number =
        !rounds.empty() && rounds.size() < 5 &&
        std::all_of(rounds.begin(), rounds.end(), [](unsigned char c) { return std::isdigit(c); });
    if (number && is_count(value))
      statistics.staleness[std::stoull(rounds)] = value.template get<std::uint64_t>();
  });
  each("local_steps", [&](const std::string& node, const auto& value) {
    if (!value.is_object() || !value.contains("updates") || !value.contains("steps")) return;
    if (!is_count(value["updates"]) || !is_count(value["steps"])) return;
    statistics.steps[node] = {value["updates"].template get<std::uint64_t>(),
                              value["steps"].template get<std::uint64_t>()};
  });
  each("means", [&](const std::string& name, const auto& value) {
    if (!value.is_object() || !value.contains("count") || !value.contains("mean")) return;
    if (!is_count(value["count"]) || !value["mean"].is_number()) return;
    const auto count = value["count"].template get<std::uint64_t>();
    if (count > 0)
      statistics.means[name] = {count, value["mean"].template get<double>() * double(count)};
  });
  return statistics;
}

}  // namespace longhaul::run
