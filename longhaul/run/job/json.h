#pragma once
// JSON that others may have written, and structs with fields() as JSON.
#include <string>

#include <nlohmann/json.hpp>

#include "longhaul/base/fields.h"

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

template <class T>
concept JsonList = Fielded<typename T::value_type> && requires(T& list) {
  list.emplace_back();
};
template <class T>
concept JsonOptional = requires(T& value) {
  value.has_value(), value.emplace();
};

// A struct with fields() is an object of them, in their order; an optional without a value is null.
template <class Json = nlohmann::ordered_json, class T>
Json json_of(const T& value) {
  if constexpr (Fielded<T>) {
    Json object = Json::object();
    T::fields(value, [&](const Field& field, const auto& member) {
      object[std::string(field.name)] = json_of<Json>(member);
    });
    return object;
  } else if constexpr (JsonList<T>) {
    Json list = Json::array();
    for (const auto& one : value) list.push_back(json_of<Json>(one));
    return list;
  } else if constexpr (JsonOptional<T>) {
    return value ? json_of<Json>(*value) : Json(nullptr);
  } else {
    return value;
  }
}

// The other way round. Throws nlohmann::json::exception where a field is missing or of another
// type.
template <class T>
void read_json(const nlohmann::json& from, T& into) {
  if constexpr (Fielded<T>) {
    T::fields(into,
              [&](const Field& field, auto& member) { read_json(from.at(field.name), member); });
  } else if constexpr (JsonList<T>) {
    for (const nlohmann::json& one : from) read_json(one, into.emplace_back());
  } else if constexpr (JsonOptional<T>) {
    into.reset();
    if (!from.is_null()) read_json(from, into.emplace());
  } else {
    from.get_to(into);
  }
}

}  // namespace longhaul::run
