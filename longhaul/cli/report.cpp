
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/report_runs.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/report/page.h"
#include "longhaul/report/picture.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/progress.h"

namespace longhaul::cli {
namespace {

struct ReportArgs {
  std::vector<std::string> runs;
  std::string out, svg;
};

Status write_picture(const std::string& file, const nlohmann::ordered_json& data) {
  LH_LET(svg, report::picture_svg(data));
  if (const Status written = run::write_atomically(file, svg); !written)
    return invalid("--svg: " + written.error().what + "; name another file");
  fmt::print("{}: a picture, {}\n", file, run::bytes_text(double(svg.size())));
  return Ok{};
}

Result<int> report_pages(const ReportArgs& args) {
  LH_LET(folders, run_folders(args.runs));
  if (folders.size() > report::kMaxRuns)
    return invalid(fmt::format("{} runs; at most {} in one report: name those to compare",
                               folders.size(), report::kMaxRuns));
  std::vector<nlohmann::ordered_json> runs;
  PlanAdder plans;
  for (const RunFolder& folder : folders) {
    report::RunReader reader(folder.folder, folder.nodes);
    LH_TRY(reader.refresh());
    runs.push_back(plans.add(reader.data(), reader.job_folder()));
  }
  name_apart(runs, folders);
  const nlohmann::ordered_json data = report::page_data(std::move(runs));
  if (!args.svg.empty()) {
    LH_TRY(write_picture(args.svg, data));
    if (args.out.empty()) return kDone;
  }
  const std::string title =
      data["runs"][0].value("name", args.runs.front()) +
      (folders.size() == 1 ? "" : ": " + std::to_string(folders.size()) + " runs");
  LH_LET(page, report::page_html(title, data, /*live=*/false));
  const std::string out = args.out.empty() ? args.runs.front() + "/report.html" : args.out;
  if (const Status written = run::write_atomically(out, page); !written)
    return invalid(written.error().what + "; choose another with --out");
  fmt::print("{}\n{}: {}, {}\n", data["verdict"].get<std::string>(), out,
             count_text(folders.size(), "run"), run::bytes_text(double(page.size())));
  return kDone;
}

}  // namespace

void add_report(CLI::App& app, int& code) {
  auto args = std::make_shared<ReportArgs>();
  CLI::App* sub = app.add_subcommand("report", "writes an HTML file with charts of runs");
  sub->add_option("RUN", args->runs,
                  "folders of up to 30 runs; that of a comparison stands for all its runs")
      ->required();
  option(*sub, "--out", args->out, "the file (default: report.html in the first folder)",
         "FILE.html");
  option(*sub, "--svg", args->svg,
         "writes a picture instead, the score over time and over bytes; with --out both",
         "FILE.svg");
  sub->footer(
      "Examples:\n  longhaul report runs/mnist-4-sites\n"
      "  longhaul report runs/mnist-4-sites-compare --svg compare.svg\n"
      "  longhaul report runs/mnist-4-sites-compare --out compare.html\n"
      "Folders of the sites of one run count as one.\nExit codes: 0 done, 2 bad run or usage");
  sub->callback([args, &code] { code = code_of(report_pages(*args)); });
}

}  // namespace longhaul::cli
