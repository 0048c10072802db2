#include "longhaul/cli/ask_options.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/run/focus/api.h"
#include "longhaul/run/focus/serve.h"
#include "longhaul/run/job/json.h"
#include "longhaul/run/nodes.h"

namespace longhaul::cli {

void add_ask_options(CLI::App& sub, AskOptions& options) {
  option(sub, "--site", options.site, "asks this site (default: the first that serves)", "NAME");
  option(sub, "--out", options.out, "folder of longhaul serve (default: runs/NAME)", "DIR");
  option(sub, "--address", options.address,
         "host:port of a site's interface, instead of --site and --out", "ADDRESS");
}

namespace {

// Sites to try in order. Errors: no such site; none serves (unavailable).
Result<std::vector<AskedSite>> sites_to_ask(const AskOptions& options, const std::string& file,
                                            const run::Job& job) {
  if (!options.address.empty()) {
    if (const Status good = run::check_api_address(options.address); !good)
      return invalid("--address: " + good.error().what);
    return std::vector{AskedSite{options.address, ""}};
  }
  const std::string folder = options.out.empty() ? "runs/" + job.job.name : options.out;
  const Members members = job.members();
  if (!options.site.empty()) {
    LH_LET(rank, run::find_node(job, options.site));
    const std::string own = run::node_folder(folder, members[rank]);
    LH_LET(address, run::api_address(own));
    return std::vector{AskedSite{std::move(address), own}};
  }
  std::vector<AskedSite> all;
  for (const Member& member : members) {
    const std::string own = run::node_folder(folder, member);
    if (auto address = run::api_address(own)) all.push_back({*std::move(address), own});
  }
  if (all.empty())
    return unavailable(
        fmt::format("{}: no site serves there; start longhaul serve {}, or say --out or --address",
                    folder, file));
  return all;
}

// Sets the exit code where the answer is the last one, and returns false then.
bool print_answer(const std::string& line, bool as_json, int& code) {
  const auto json = run::parse_json<nlohmann::ordered_json>(line);
  if (!json.is_object() || !json.contains("kind") || !json["kind"].is_string()) {
    fmt::print(stderr, "longhaul: an answer that cannot be read\n");
    code = kFailed;
    return false;
  }
  const std::string kind = json["kind"].get<std::string>();
  if (as_json)
    fmt::print("{}\n", line);
  else
    fmt::print(kind == "refused" ? stderr : stdout, "{}", run::answer_text(json));
  std::fflush(stdout);
  if (kind == "refused") code = kBadUsage;
  if (kind == "ended" || kind == "given") code = json.at("partial").get<bool>() ? kFailed : kDone;
  return kind == "found" || kind == "caught_up" || kind == "taken";
}

}  // namespace

int ask_sites(const AskOptions& at, const std::string& file, const run::Job& job, bool as_json,
              const std::function<Status(const AskedSite&, const OnLine&)>& ask) {
  const auto sites = sites_to_ask(at, file, job);
  if (!sites) {
    const int bad = print_error(sites.error());
    return sites.error().kind == Error::Kind::unavailable ? kFailed : bad;
  }
  Status asked = Ok{};
  for (const AskedSite& site : *sites) {
    int code = -1;  // nothing has come
    bool goes_on = true;
    asked = ask(site, [&](const std::string& line) {
      code = kFailed;  // unless the last answer comes
      return goes_on = print_answer(line, as_json, code);
    });
    if (code >= 0) {
      if (goes_on && asked)
        asked = unavailable(site.address + ": the site ended before its answer did");
      if (!asked) (void)print_error(asked.error());
      return code;
    }
  }
  if (asked) asked = unavailable("the site that was asked ended");
  (void)print_error(asked.error());
  return kFailed;
}

}  // namespace longhaul::cli
