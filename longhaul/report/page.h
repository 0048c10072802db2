#pragma once
// The page: one HTML file with everything in it. Its parts are the files of web/, and the chart
// library that scripts/fetch-web fetches.
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "longhaul/base/result.h"
#include "longhaul/run/job/wan.h"

namespace longhaul::run {
std::span<const TextFile> web_files();  // written by cmake/LonghaulEmbed.cmake
}  // namespace longhaul::run

namespace longhaul::report {

inline constexpr std::size_t kMaxRuns = 30;

// {"verdict", "runs"}, the best run first: what the page draws. Runs as RunReader::data() has them,
// with "plan" and "plan_svg" where the caller knows them.
nlohmann::ordered_json page_data(std::vector<nlohmann::ordered_json> runs);

// The page with that data; with `live` it follows /events of the server that it came from. Error:
// the program was built without the chart library.
Result<std::string> page_html(const std::string& title, const nlohmann::ordered_json& data,
                              bool live);

}  // namespace longhaul::report
