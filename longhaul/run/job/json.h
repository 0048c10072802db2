#pragma once
// JSON that others may have written.
#include <nlohmann/json.hpp>

namespace longhaul::run {

inline constexpr int kMaxJsonDepth = 64;

// Discarded if it is none. What is nested deeper than any of our files is left out: to copy,
// compare or print such a value takes a stack frame for each level.
template <class Json = nlohmann::json>
Json parse_json(auto&& input) {
  const auto is_shallow = [](int depth, nlohmann::json::parse_event_t, Json&) {
    return depth <= kMaxJsonDepth;
  };
  return Json::parse(input, is_shallow, /*allow_exceptions=*/false);
}

}  // namespace longhaul::run
