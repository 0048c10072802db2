#include "longhaul/run/focus/sample.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/run/interrupt.h"

namespace longhaul::cli {
namespace {

struct SampleArgs : JobOptions {
  run::SampleOptions options;
  bool json = false, quiet = false;
};

using SampleJson = nlohmann::ordered_json;

std::string percent(const SampleJson& value) {
  return fmt::format("{:.1f} %", 100 * value.get<double>());
}

void print_choice(const std::string& policy, const SampleJson& chosen) {
  if (chosen.contains("why"))
    return fmt::print("  {:<11} {}\n", policy, chosen["why"].get<std::string>());
  const auto line = [](const SampleJson& p) {
    return fmt::format("recall {}, precision {}, {} clusters, {:.1f} checks a query",
                       percent(p["recall"]), percent(p["precision"]),
                       p["clusters"].get<std::uint64_t>(), p["checks"].get<double>());
  };
  fmt::print("  {:<11} cheap model {}, K = {}, T = {:.4g}: {}\n", policy,
             chosen["cheap"].get<int>(), chosen["K"].get<int>(), chosen["T"].get<double>(),
             line(chosen));
  if (chosen.contains("held_out"))
    fmt::print("  {:<11} held out: {}\n", "", line(chosen["held_out"]));
}

void print_sample(const SampleJson& site) {
  fmt::print("{}: {} objects, accurate model {:.3f} ms each\n", site["site"].get<std::string>(),
             site["objects"].get<std::uint64_t>(), site["gt_ms"].get<double>());
  for (std::size_t i = 0; i < site["cheap"].size(); ++i) {
    const SampleJson& cheap = site["cheap"][i];
    fmt::print("  cheap model {}: {:.3f} ms each; agrees in {}, among its four best in {}\n", i,
               cheap["ms"].get<double>(), percent(cheap["top_1"]), percent(cheap["top_4"]));
  }
  if (!site.contains("chosen")) return;
  for (const auto& [policy, chosen] : site["chosen"].items()) print_choice(policy, chosen);
}

Result<int> sample(SampleArgs& args) {
  LH_LET(job, args.load_index());
  if (args.options.held_out > 0 && args.options.every > 1)
    return invalid("--held-out: expected no --every beside it");
  if (!args.quiet)
    args.options.note = [](const std::string& text) { fmt::print(stderr, "longhaul: {}\n", text); };
  const auto found = run::sample_streams(job, args.options);
  if (!found) {
    const int code = print_error(found.error());
    return run::interrupted() ? kInterrupted : code;
  }
  if (args.json) {
    fmt::print("{}\n", found->dump(2));
    return kDone;
  }
  for (const SampleJson& site : (*found)["sites"]) print_sample(site);
  if (found->contains("data"))
    fmt::print("train a cheap model with [data] {} and data = \"{}/SITE\" of each [[site]]\n",
               (*found)["data"].dump(), args.options.labels);
  return kDone;
}

}  // namespace

void add_sample(CLI::App& app, int& code) {
  auto args = std::make_shared<SampleArgs>();
  CLI::App* sub = app.add_subcommand(
      "sample", "runs all models of an index over the first objects of each site's stream");
  args->add_job_to(*sub, kIndexJob, /*with_wan=*/false);
  option(*sub, "--objects", args->options.objects,
         "labelled objects of each site (default: [focus] sample)", "N", CLI::Range(1, 10000000));
  option(*sub, "--every", args->options.every, "takes one of N objects; no policy chooses", "N",
         CLI::Range(1, 1000000));
  option(*sub, "--held-out", args->options.held_out, "tries the choice on this many later objects",
         "N", CLI::Range(1, 10000000));
  option(*sub, "--labels", args->options.labels,
         "writes images and the accurate model's classes to DIR/SITE, for [data] kind = "
         "\"idx\"; the last tenth is the test set",
         "DIR");
  add_json_option(*sub, args->json);
  sub->add_flag("--quiet", args->quiet, "no progress");
  sub->footer(
      "Examples:\n  longhaul sample examples/focus.toml --held-out 10000\n"
      "  longhaul sample images.toml --objects 3000 --every 7 --labels labelled\n"
      "Exit codes: 0 done, 2 bad job, usage, data or model, 4 internal error,\n"
      "130 Ctrl-C");
  sub->callback([args, &code] { code = code_of(sample(*args)); });
}

}  // namespace longhaul::cli
