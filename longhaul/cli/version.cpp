#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"

namespace longhaul::cli {

std::string version_text() { return "longhaul " LONGHAUL_VERSION; }

void add_version(CLI::App& app, int& code) {
  CLI::App* sub = app.add_subcommand("version", "prints the version");
  sub->footer("Example:\n  longhaul version");
  sub->callback([&code] {
    fmt::print("{}\n", version_text());
    code = kDone;
  });
}

}  // namespace longhaul::cli
