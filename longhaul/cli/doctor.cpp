#include "longhaul/run/doctor.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/doctor/report.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/run_pool.h"

namespace longhaul::cli {
namespace {

constexpr int kFindings = 1, kManySites = 200;

struct DoctorArgs : JobOptions {
  std::string site, out, write_wan;
  std::vector<std::string> addresses;
  run::Security security;
  doctor::MeasurementPlan plan;
  double arrival_timeout = 30;
  bool lab = false, one_by_one = false, force = false, json = false, quiet = false;
};

run::DoctorOptions options_of(const DoctorArgs& args, const run::Job& job, std::uint32_t site) {
  run::DoctorOptions options{.site = site,
                             .addresses = args.addresses,
                             .listening = run::inherited_socket(run::process_environment()),
                             .folder = args.out.empty() ? "runs/" + job.job.name : args.out,
                             .release = version_text(),
                             .security = args.security,
                             .plan = args.plan,
                             .arrival_timeout = from_seconds(args.arrival_timeout),
                             .one_by_one = args.one_by_one};
  options.on_progress = [quiet = args.quiet](const std::string& line) {
    if (!quiet) fmt::print(stderr, "doctor: {}\n", line);
  };
  return options;
}

// Checks --write-wan before the measurement, which takes minutes.
Status can_write(const DoctorArgs& args) {
  const std::string& file = args.write_wan;
  if (file.empty()) return Ok{};
  if (args.site.empty() && !args.lab && !args.force)
    return invalid(fmt::format(
        "--write-wan {}: all sites as processes here measure this machine's loopback, not your "
        "network: say --site NAME at each site, or --lab for the job's own [wan]; --force writes "
        "it all the same",
        file));
  const auto folder = std::filesystem::absolute(file).parent_path();
  std::error_code code;
  if (!std::filesystem::is_directory(folder, code) || access(folder.c_str(), W_OK) != 0)
    return invalid(
        fmt::format("--write-wan {}: cannot write to the folder {}; create it, or give "
                    "another one",
                    file, folder.string()));
  if (std::filesystem::is_directory(file, code))
    return invalid(fmt::format("--write-wan {}: is a folder; expected a file's name", file));
  if (std::filesystem::exists(file, code) && !args.force)
    return invalid(fmt::format(
        "--write-wan {}: exists already; --force replaces it, or name another file", file));
  return Ok{};
}

// Prints a remedy once for consecutive findings that share it.
void print_findings(const std::vector<doctor::Finding>& found) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    const doctor::Finding& one = found[i];
    fmt::print("{} {}: {}\n", one.grade == doctor::Grade::bad ? "!" : "?", one.where, one.what);
    if (i + 1 == found.size() || found[i + 1].remedy != one.remedy)
      fmt::print("    {}\n", one.remedy);
  }
}

void print_report(const doctor::Report& report) {
  const doctor::Table sites = site_table(report), pairs = pair_table(report);
  fmt::print("{}: {} sites, job hash {}\n\n", report.job, report.sites.size(), report.job_hash);
  fmt::print("{}\n{}\n", text_table(sites.head, sites.rows), text_table(pairs.head, pairs.rows));
  const auto found = findings(report);
  print_findings(found);
  if (report.interrupted) fmt::print("Interrupted: what is missing was not measured.\n");
  if (found.empty() && !report.interrupted) fmt::print("Nothing is wrong.\n");
}

int exit_code(const doctor::Report& report) {
  if (report.interrupted) return kInterrupted;
  for (const doctor::SiteReport& site : report.sites)
    if (!site.present) return kFailed;
  for (const doctor::PairResult& pair : report.pairs)
    if (!pair.reached) return kFailed;
  return worst(findings(report)) == doctor::Grade::bad ? kFindings : kDone;
}

Result<int> coordinate(const DoctorArgs& args, const run::Job& job) {
  LH_LET(report, run_doctor_coordinator(job, options_of(args, job, 0)));
  if (args.json)
    fmt::print("{}\n", to_json(report));
  else
    print_report(report);
  if (args.write_wan.empty()) return exit_code(report);
  const auto text = wan_toml(report);
  if (!text) {
    print_error(text.error());
    return kFailed;
  }
  LH_TRY(run::write_atomically(args.write_wan, *text));
  if (!args.json) fmt::print("The network as measured is in {}\n", args.write_wan);
  return exit_code(report);
}

Result<int> follow(const DoctorArgs& args, const run::Job& job, std::uint32_t site) {
  const Status done = run_doctor_participant(job, options_of(args, job, site));
  if (!done) {
    const int code = print_error(done.error());
    return done.error().kind == Error::Kind::invalid_argument ? code : kFailed;
  }
  const std::string& first = job.sites[0].name;
  if (args.json)
    fmt::print("{}\n", nlohmann::ordered_json{{"site", args.site}, {"reported_by", first}}.dump(2));
  else
    fmt::print("done; {} has the report\n", first);
  return kDone;
}

// Returns the arguments that give each process the settings of this doctor.
std::vector<std::string> arguments_of(const DoctorArgs& args) {
  std::vector<std::string> words = {"--patience",  fmt::format("{}", args.arrival_timeout),
                                    "--seconds",   fmt::format("{}", args.plan.seconds),
                                    "--mbytes",    fmt::format("{}", args.plan.mbytes),
                                    "--datagrams", fmt::format("{}", args.plan.datagrams),
                                    "--pings",     fmt::format("{}", args.plan.pings)};
  for (const auto& [option, value] :
       {std::pair("--out", args.out), std::pair("--write-wan", args.write_wan)})
    if (!value.empty()) words.insert(words.end(), {option, value});
  if (args.one_by_one) words.push_back("--one-by-one");
  if (args.force) words.push_back("--force");
  if (args.json) words.push_back("--json");
  if (args.quiet) words.push_back("--quiet");
  return words;
}

Result<int> start(const DoctorArgs& args, const run::Job& job) {
  LH_LET(program, run::own_program());
  if (job.sites.size() > kManySites)
    return invalid(fmt::format(
        "{}: {} sites are too many processes for this machine (at most {}); --site NAME is for "
        "real sites",
        job.file, job.sites.size(), kManySites));
  run::DoctorsOptions with{.program = program,
                           .network = args.job_arguments(),
                           .lab = args.lab,
                           .insecure = args.security.insecure};
  with.arguments = arguments_of(args);
  with.arguments.insert(with.arguments.begin(), with.network.begin(), with.network.end());
  // The first site's output is the result; that of the others is progress.
  with.line = [first = job.sites[0].name, quiet = args.quiet](const std::string& name, bool error,
                                                              std::string_view line) {
    if (!error && name == first) {
      fmt::print("{}\n", line);
    } else if (error || !quiet) {
      fmt::print(stderr, "{}: {}\n", name, line);
    }
    std::fflush(stdout);
  };
  const auto ended = launch_doctors(job, with);
  if (ended) return *ended;
  const int told = print_error(ended.error());
  return ended.error().kind == Error::Kind::invalid_argument ? told : kFailed;
}

Result<int> run_doctor(const DoctorArgs& args) {
  warn_if_insecure(args.security.insecure);
  LH_LET(job, args.load());
  LH_LET(site, args.site.empty() ? Result<std::uint32_t>(0u) : run::find_site(job, args.site));
  if (site != 0) return follow(args, job, site);
  LH_TRY(can_write(args));
  return args.site.empty() ? start(args, job) : coordinate(args, job);
}

void add_measuring(CLI::App& sub, DoctorArgs& args) {
  option(sub, "--patience", args.arrival_timeout, "seconds to wait for a site (default: 30)", "S",
         CLI::Range(1.0, 86400.0));
  option(sub, "--seconds", args.plan.seconds, "limit of a bulk transfer, in seconds (default: 4)",
         "S", CLI::Range(0.1, 60.0));
  option(sub, "--mbytes", args.plan.mbytes, "limit of a bulk transfer, in MB (default: 250)", "MB",
         CLI::Range(0.1, 100000.0));
  option(sub, "--datagrams", args.plan.datagrams,
         "UDP probes per direction, for loss and DSCP; 0: none (default: 200)", "N",
         CLI::Range(0u, doctor::kMaxDatagrams));
  option(sub, "--pings", args.plan.pings, "TCP probes of round trip and clock (default: 11)", "N",
         CLI::Range(1u, 1000u));
  sub.add_flag("--one-by-one", args.one_by_one,
               "measures one pair at a time, for pairs that share a link (default: one per site)");
}

}  // namespace

void add_doctor(CLI::App& app, int& code) {
  auto args = std::make_shared<DoctorArgs>();
  CLI::App* sub =
      app.add_subcommand("doctor", "measures the network between sites and suggests fixes");
  args->add_job_to(*sub);
  CLI::Option* site = option(*sub, "--site", args->site,
                             "measures real sites, and this is the site NAME: start it at each; "
                             "the first prints (default: all sites as processes here)",
                             "NAME");
  option(*sub, "--addresses", args->addresses,
         "host:port of all sites, with commas (default: [[site]] address)", "LIST")
      ->delimiter(',')
      ->needs(site);
  add_security_options(*sub, args->security);
  sub->get_option("--keys")->needs(site);
  sub->add_flag(
         "--lab", args->lab,
         "a network namespace for each site, with the job's [wan] between them (docs/lab.md; "
         "as root)")
      ->excludes(site);
  option(*sub, "--write-wan", args->write_wan,
         "writes the measured network for --wan, at the first site", "FILE");
  add_measuring(*sub, *args);
  option(*sub, "--out", args->out, "folder of the planned run (default: runs/NAME)", "DIR");
  sub->add_flag("--force", args->force,
                "lets --write-wan replace a file, or write what loopback gave");
  sub->add_flag("--quiet", args->quiet, "no progress");
  add_json_option(*sub, args->json);
  sub->footer(
      "Examples:\n  longhaul doctor job.toml --site virginia     # at each site its own name\n"
      "  longhaul doctor examples/bsp.toml --lab --write-wan wan.toml\n"
      "Exit codes: 0 no problem, 1 a cell is bad (marked !), 2 bad job or usage, 3 a site cannot "
      "be "
      "reached,\n4 internal error, 130 Ctrl-C");
  sub->callback([args, &code] { code = code_of(run_doctor(*args)); });
}

}  // namespace longhaul::cli
