#include "longhaul/report/page.h"

#include "longhaul/base/xml_text.h"
#include "longhaul/report/verdict.h"

namespace longhaul::report {
namespace {

std::string_view web_file(std::string_view name) {
  for (const run::TextFile& file : run::web_files())
    if (file.name == name) return file.text;
  return {};
}

// JSON inside of a <script> must not end it.
std::string script_text(const nlohmann::ordered_json& data) {
  const std::string json =
      data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string text;
  for (const char c : json) text += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return text;
}

void put(std::string& page, std::string_view mark, std::string_view text) {
  if (const std::size_t at = page.find(mark); at != std::string::npos)
    page.replace(at, mark.size(), text);
}

}  // namespace

nlohmann::ordered_json page_data(std::vector<nlohmann::ordered_json> runs) {
  nlohmann::ordered_json data;
  sort_runs(runs);
  if (has_both_clocks(runs))
    for (nlohmann::ordered_json& run : runs)
      run["label"] = run.value("label", "") +
                     (run.value("clock", "") == "real" ? " (sockets)" : " (simulated)");
  data["verdict"] = verdict_text(runs);
  data["runs"] = std::move(runs);
  return data;
}

Result<std::string> page_html(const std::string& title, const nlohmann::ordered_json& data,
                              bool live) {
  const std::string_view charts = web_file("uPlot.iife.min.js");
  if (charts.empty())
    return unavailable(
        "this program was built without the chart library of its pages: run scripts/fetch-web and "
        "build again");
  std::string page(web_file("page.html"));
  for (int i = 0; i < 2; ++i) put(page, "<!--title-->", xml_text(title));  // title and heading
  put(page, "/*charts.css*/", web_file("uPlot.min.css"));
  put(page, "/*page.css*/", web_file("page.css"));
  put(page, "/*live*/", live ? "true" : "false");
  put(page, "/*charts.js*/", charts);
  put(page, "/*ticks.js*/", web_file("ticks.js"));
  put(page, "/*page.js*/", web_file("page.js"));
  put(page, "/*data*/", script_text(data));  // last: it may hold any of these marks
  return page;
}

}  // namespace longhaul::report
