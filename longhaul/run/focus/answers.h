#pragma once
// Answers of an index as JSON, one object each, and as text. docs/focus.md describes them.
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "longhaul/core/place.h"
#include "longhaul/focus/answer.h"

namespace longhaul::run {

nlohmann::ordered_json to_json(const focus::Answer&, const Members&);

// For a user, of the JSON that another process sent; empty: nothing to say. Lines end with \n.
std::string answer_text(const nlohmann::ordered_json&);

}  // namespace longhaul::run
