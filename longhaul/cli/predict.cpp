#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/experiment.h"

namespace longhaul::cli {
namespace {

struct PredictArgs {
  std::string run, file, out;
  bool probabilities = false, json = false;
};

// Quoted where a field needs it.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string csv_line(const std::vector<std::string>& fields) {
  std::string line;
  for (std::size_t i = 0; i < fields.size(); ++i) line += (i ? "," : "") + csv_field(fields[i]);
  return line + "\n";
}

// Returns the names of the outcomes that have probabilities: classes, or labels.
const std::vector<std::string>& outcomes(const run::Answers& all) {
  return all.classes.empty() ? all.targets : all.classes;
}

std::string csv_text(const run::Answers& all, bool probabilities) {
  std::vector<std::string> head = all.targets;
  if (probabilities)
    for (const std::string& one : outcomes(all)) head.push_back("probability of " + one);
  std::string text = csv_line(head);
  for (std::size_t i = 0; i < all.predicted.size(); ++i) {
    std::vector<std::string> fields = all.predicted[i];
    if (probabilities)
      for (const double one : all.probabilities[i]) fields.push_back(fmt::format("{:.6g}", one));
    text += csv_line(fields);
  }
  return text;
}

std::string json_of(const run::Answers& all, bool probabilities) {
  nlohmann::ordered_json rows = nlohmann::json::array();
  for (std::size_t i = 0; i < all.predicted.size(); ++i) {
    nlohmann::ordered_json row;
    for (std::size_t k = 0; k < all.targets.size(); ++k) row[all.targets[k]] = all.predicted[i][k];
    if (probabilities)
      for (std::size_t k = 0; k < all.probabilities[i].size(); ++k)
        row["probabilities"][outcomes(all)[k]] = all.probabilities[i][k];
    rows.push_back(std::move(row));
  }
  return json_text(rows) + "\n";
}

Result<int> predict(const PredictArgs& args) {
  LH_LET(all, run::answers(args.run, args.file));
  const bool numbers = !all.probabilities.empty() && all.probabilities.front().empty();
  if (args.probabilities && numbers)
    return invalid("--probabilities: " + args.run + " predicts numbers, which have none");
  const std::string text =
      args.json ? json_of(all, args.probabilities) : csv_text(all, args.probabilities);
  if (args.out.empty()) return fmt::print("{}", text), kDone;
  LH_TRY(run::write_atomically(args.out, text));
  return kDone;
}

}  // namespace

void add_predict(CLI::App& app, int& code) {
  auto args = std::make_shared<PredictArgs>();
  CLI::App* sub =
      app.add_subcommand("predict", "predicts labels or numbers for the rows of a CSV file");
  sub->add_option("RUN", args->run, "folder of a finished run on CSV data")->required();
  sub->add_option(
         "FILE", args->file,
         "CSV file with the columns of the training data, by name; the target may be missing")
      ->required();
  sub->add_flag("--probabilities", args->probabilities, "adds a column for each class or label");
  option(*sub, "--out", args->out, "writes this file (default: standard output)", "FILE");
  sub->add_flag("--json", args->json, "prints one JSON list instead of CSV");
  sub->footer(
      "Example:\n  longhaul predict runs/hospitals new-patients.csv --probabilities --out "
      "answers.csv\n"
      "Answers have the order of the file.\nExit codes: 0 done, 2 bad files or usage");
  sub->callback([args, &code] { code = code_of(predict(*args)); });
}

}  // namespace longhaul::cli
