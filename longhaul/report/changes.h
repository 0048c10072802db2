#pragma once
// What changed in a page's data, so that a live page gets the news and not all of it again.
#include <optional>

#include <nlohmann/json.hpp>

namespace longhaul::report {

inline constexpr std::size_t kMaxChanges = 2000;

// A list of changes that makes `after` of `before`, in this order:
//
//   [path, value]           the value at the path is replaced
//   [path, "+", [values]]   the list at the path gets these at its end
//
// A path is a list of keys and indices from the top. Nothing: they are so many that the whole is
// shorter.
std::optional<nlohmann::ordered_json> changes_of(const nlohmann::ordered_json& before,
                                                 const nlohmann::ordered_json& after);

}  // namespace longhaul::report
