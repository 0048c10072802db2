#include "longhaul/cli/cli.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "longhaul/base/printable.h"
#include "longhaul/base/settings.h"
#include "longhaul/cli/output.h"
#include "longhaul/run/run_pool.h"

namespace longhaul::cli {
namespace {

Embedding embedded;

std::string suggest_subcommand(const CLI::App& app, int argc, const char* const* argv) {
  if (argc < 2 || argv[1][0] == '-') return "";
  std::vector<std::string> known;
  for (const CLI::App* sub : app.get_subcommands({})) {
    if (sub->get_name() == argv[1]) return "";
    if (!sub->get_group().empty()) known.push_back(sub->get_name());  // those for users
  }
  std::vector<std::string_view> names(known.begin(), known.end());
  return fmt::format("{}: unknown subcommand{}", argv[1], suggestion(argv[1], names));
}

// "; did you mean --budget-minutes?" of the first option that the subcommand does not have; or "".
std::string suggest_option(const CLI::App& app, int argc, const char* const* argv) {
  const CLI::App* sub = nullptr;
  for (const CLI::App* one : app.get_subcommands({}))
    if (argc > 1 && one->get_name() == argv[1]) sub = one;
  if (!sub) return "";
  std::vector<std::string> known;
  for (const CLI::Option* option : sub->get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  const std::vector<std::string_view> names(known.begin(), known.end());
  for (int i = 2; i < argc; ++i) {
    const std::string_view word =
        std::string_view(argv[i]).substr(0, std::string_view(argv[i]).find('='));
    if (!word.starts_with("--") || word == "--") continue;
    if (std::find(names.begin(), names.end(), word) != names.end()) continue;
    const std::string_view near = nearest(word, names);
    return near.empty() ? "" : fmt::format("; did you mean {}?", near);
  }
  return "";
}

int parse_and_run(int argc, const char* const* argv) {
  CLI::App app{
      "longhaul trains machine-learning models across wide-area networks: over sockets, or in a "
      "deterministic simulation of them.",
      "longhaul"};
  int code = kDone;
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text(), "prints the version");
  app.footer("Start with: longhaul simulate examples/mnist-4-sites.toml");
  add_commands(app, code);
  if (const std::string unknown = suggest_subcommand(app, argc, argv); !unknown.empty()) {
    fmt::print(stderr, "longhaul: {}\n", printable(unknown));
    return kBadUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    fmt::print(stderr, "longhaul: {}{}; see longhaul {}--help\n", printable(error.what()),
               suggest_option(app, argc, argv),
               argc > 1 && argv[1][0] != '-' ? std::string(argv[1]) + " " : "");
    return kBadUsage;
  }
  return code;
}

// Printed text is a result, too: a full disk that loses it is no success.
int printed(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  if (errno == EBADF) return code;  // the caller has closed it: >&-
  fmt::print(stderr, "longhaul: standard output cannot be written: {}; make room there\n",
             std::strerror(errno));
  return code == kDone ? kBadUsage : code;
}

}  // namespace

void add_commands(CLI::App& app, int& code) {
  add_simulate(app, code);
  add_launch(app, code);
  add_site(app, code);
  add_lab(app, code);
  add_doctor(app, code);
  add_evaluate(app, code);
  add_predict(app, code);
  add_export(app, code);
  add_compare(app, code);
  add_report(app, code);
  add_view(app, code);
  add_status(app, code);
  add_advise(app, code);
  add_bound(app, code);
  add_serve(app, code);
  add_query(app, code);
  add_model(app, code);
  add_sample(app, code);
  add_try_model(app, code);
  add_keys(app, code);
  add_perf(app, code);
  add_replay(app, code);
  add_list(app, code);
  add_explain(app, code);
  add_version(app, code);
}

std::string version_text() { return "longhaul " LONGHAUL_VERSION; }

void add_version(CLI::App& app, int& code) {
  CLI::App* sub = app.add_subcommand("version", "prints the version");
  sub->footer("Example:\n  longhaul version\nExit codes: 0 done");
  sub->callback([&code] {
    fmt::print("{}\n", version_text());
    code = kDone;
  });
}

int run_words(const std::vector<std::string>& words) {
  std::vector<const char*> argv = {"longhaul"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return run(int(argv.size()), argv.data());
}

std::function<int(const std::vector<std::string>&)> run_words_in_copies() {
  if (embedded.learners) return {};
  return run_words;
}

const Embedding& embedding() { return embedded; }

int run(int argc, const char* const* argv, const Embedding& by) {
  embedded = by;
  run::set_own_program(by.program);
  // A failed check has said what failed; the exit code tells that the fault is ours.
  std::signal(SIGABRT, [](int) { std::_Exit(kInternal); });
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an Error, as a full disk is
  try {
    return printed(parse_and_run(argc, argv));
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "longhaul: out of memory; use fewer sites or a smaller model\n");
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) return printed(kBadUsage);
    fmt::print(stderr, "longhaul: internal error: {}\n", error.what());
  } catch (const std::exception& error) {
    fmt::print(stderr, "longhaul: internal error: {}\n", error.what());
  } catch (...) {
    fmt::print(stderr, "longhaul: internal error\n");
  }
  return kInternal;
}

}  // namespace longhaul::cli
