#include <ctime>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/run/job/job.h"
#include "longhaul/secure/key_folder.h"

namespace longhaul::cli {
namespace {

constexpr std::int64_t kDay = 24 * 3600;
// A site whose clock is late takes a new certificate all the same.
constexpr std::int64_t kBackdated = 3600;

struct KeysArgs {
  std::string folder = "keys", job;
  std::vector<std::string> sites;
  std::int64_t days = 0;
  bool json = false;
};

int keys_failure(const Error& error) {
  (void)print_error(error);
  return kBadUsage;
}

secure::Validity validity(std::int64_t days) {
  const std::int64_t now = std::time(nullptr);
  return {now - kBackdated, now + days * kDay};
}

int init(const KeysArgs& args) {
  const secure::KeyFolder folder(args.folder);
  if (const Status made = folder.make_authority(validity(args.days)); !made)
    return keys_failure(made.error());
  fmt::print(
      "{}: private key of the authority: whoever has it can issue certificates; keep it here\n"
      "{}: certificate of the authority, for every site\n"
      "Next: longhaul keys issue SITE --keys {}\n",
      folder.authority_key_file(), folder.authority_file(), args.folder);
  return kDone;
}

Result<std::vector<std::string>> sites_of(const KeysArgs& args) {
  std::vector<std::string> sites = args.sites;
  if (!args.job.empty()) {
    LH_LET(job, run::load_job(args.job, {}));
    for (const run::SiteTable& site : job.sites) sites.push_back(site.name);
  }
  if (sites.empty())
    return invalid("keys issue: expected names of sites, or --job JOB for all sites of a job");
  return sites;
}

int issue(const KeysArgs& args) {
  const auto sites = sites_of(args);
  if (!sites) return keys_failure(sites.error());
  const secure::KeyFolder folder(args.folder);
  const secure::Validity valid = validity(args.days);
  for (const std::string& site : *sites) {
    if (const Status issued = folder.issue(site, valid); !issued)
      return keys_failure(issued.error());
    fmt::print(
        "{}: private key and certificate of {}, valid until {}; copy it to that site, with "
        "{}\n",
        folder.site_file(site), site, secure::time_text(valid.until), folder.authority_file());
  }
  return kDone;
}

std::string state_of(const secure::KeyFolder::Entry& entry, std::int64_t now) {
  if (!entry.problem.empty()) return entry.problem;
  const secure::Validity& valid = entry.facts.valid;
  if (now > valid.until) return "EXPIRED on " + secure::time_text(valid.until);
  if (now < valid.from) return "not valid before " + secure::time_text(valid.from);
  return fmt::format("valid until {} ({} days)", secure::time_text(valid.until),
                     (valid.until - now) / kDay);
}

// 1: something is expired or unusable.
int show(const KeysArgs& args) {
  const auto entries = secure::KeyFolder(args.folder).list();
  if (!entries) return keys_failure(entries.error());
  const std::int64_t now = std::time(nullptr);
  bool good = true;
  auto array = nlohmann::ordered_json::array();
  for (const auto& entry : *entries) {
    const auto& facts = entry.facts;
    const bool usable =
        entry.problem.empty() && now >= facts.valid.from && now <= facts.valid.until;
    good = good && usable;
    if (!args.json) {
      fmt::print("{:20} {}\n", entry.file, state_of(entry, now));
      if (entry.problem.empty())
        fmt::print("{:20} {}, serial {}\n{:20} SHA-256 {}\n", "",
                   facts.is_authority ? facts.issuer : "issued by " + facts.issuer, facts.serial,
                   "", facts.fingerprint);
      continue;
    }
    nlohmann::ordered_json one = {{"file", entry.file}, {"usable", usable}};
    if (entry.problem.empty()) {
      one["sites"] = facts.sites;
      one["issuer"] = facts.issuer;
      one["serial"] = facts.serial;
      one["sha256"] = facts.fingerprint;
      one["valid_from"] = secure::time_text(facts.valid.from);
      one["valid_until"] = secure::time_text(facts.valid.until);
    } else {
      one["problem"] = entry.problem;
    }
    array.push_back(std::move(one));
  }
  if (args.json) fmt::print("{}\n", array.dump(2));
  return good ? kDone : 1;
}

void add_days(CLI::App& sub, KeysArgs& args, std::int64_t days) {
  option(sub, "--days", args.days,
         fmt::format("days that the certificate is valid (default: {})", days), "N",
         CLI::Range(std::int64_t{1}, std::int64_t{36500}));
}

}  // namespace

void add_keys(CLI::App& app, int& code) {
  auto args = std::make_shared<KeysArgs>();
  CLI::App* keys = app.add_subcommand("keys", "makes and shows the keys of the sites");
  keys->require_subcommand(1);
  keys->footer(
      "Example:\n  longhaul keys init keys\n  longhaul keys issue virginia tokyo\n"
      "  longhaul keys show\n"
      "Exit codes: 0 done, 1 show found an expired or unusable certificate, 2 bad usage or file");
  const auto command = [&](const char* name, const char* what, int (*act)(const KeysArgs&),
                           std::int64_t days) {
    CLI::App* sub = keys->add_subcommand(name, what);
    sub->callback([args, act, days, &code] {
      if (args->days == 0) args->days = days;
      code = act(*args);
    });
    return sub;
  };
  CLI::App* made =
      command("init", "makes the authority of a group of sites; refused if one exists", init, 3650);
  made->add_option("DIR", args->folder, "folder (default: keys)");
  add_days(*made, *args, 3650);
  CLI::App* issued =
      command("issue", "makes or renews the key and certificate of sites", issue, 365);
  issued->add_option("SITE", args->sites, "names of sites");
  option(*issued, "--job", args->job, "for all sites of a job file", "JOB");
  option(*issued, "--keys", args->folder, "folder of the authority (default: keys)", "DIR");
  add_days(*issued, *args, 365);
  CLI::App* shown =
      command("show", "lists the certificates of a folder and until when each is valid", show, 1);
  shown->add_option("DIR", args->folder, "folder (default: keys)");
  shown->add_flag("--json", args->json, "prints a JSON list and nothing else");
}

}  // namespace longhaul::cli
