#include "longhaul/report/joined_summary.h"

#include <algorithm>

namespace longhaul::report {
namespace {

using nlohmann::json;

// Adds numbers, and those of objects key by key; a null stays null.
void add_to(json& sum, const json& value) {
  if (sum.is_object() && value.is_object()) {
    for (const auto& [key, one] : value.items())
      if (sum.contains(key))
        add_to(sum[key], one);
      else
        sum[key] = one;
  } else if (!sum.is_number() || !value.is_number()) {
    sum = nullptr;
  } else if (sum.is_number_integer() && value.is_number_integer()) {
    sum = sum.get<std::int64_t>() + value.get<std::int64_t>();
  } else {
    sum = sum.get<double>() + value.get<double>();
  }
}

bool is_number(const json& summary, const char* key) {
  return summary.contains(key) && summary[key].is_number();
}

void take_larger(json& all, const json& one, const char* key) {
  if (is_number(one, key) && (!is_number(all, key) || all[key] < one[key])) all[key] = one[key];
}

}  // namespace

json joined_summary(const std::vector<json>& summaries) {
  for (const json& one : summaries)
    if (!one.is_object()) return nullptr;
  if (summaries.empty()) return nullptr;
  json all = summaries.front();
  for (std::size_t i = 1; i < summaries.size(); ++i) {
    const json& one = summaries[i];
    for (const char* key :
         {"wan_bytes", "wan_messages", "compute_utilisation", "samples", "waiting_s", "staleness"})
      if (one.contains(key)) {
        if (all.contains(key))
          add_to(all[key], one[key]);
        else
          all[key] = one[key];
      }
    for (const char* key : {"time_s", "real_s", "rounds"}) take_larger(all, one, key);
    for (const char* key : {"participation", "participation_of_live"})  // the senior worker's
      if (is_number(one, key) && is_number(all, key) && one[key] < all[key]) all[key] = one[key];
    // Whoever had the models scored knew it first.
    const char* const kReached = "time_to_target_s";
    if (is_number(one, kReached) && (!is_number(all, kReached) || one[kReached] < all[kReached]))
      all[kReached] = one[kReached];
    for (const char* key : {"final_accuracy", "final_loss", "bits_per_byte"})
      if (!is_number(all, key) && is_number(one, key)) all[key] = one[key];
  }
  if (is_number(all, "compute_utilisation"))
    all["compute_utilisation"] =
        all["compute_utilisation"].get<double>() / double(summaries.size());
  if (is_number(all, "time_to_target_s")) all["stop_reason"] = "target";
  return all;
}

}  // namespace longhaul::report
