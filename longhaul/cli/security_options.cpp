#include "longhaul/cli/security_options.h"

#include <cstdio>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

namespace longhaul::cli {

void add_insecure_option(CLI::App& app, bool& insecure) {
  app.add_flag("--insecure", insecure,
               "without TLS: who reaches the ports can read and change the model, and take part");
}

void add_security_options(CLI::App& app, run::Security& security) {
  CLI::Option* keys =
      app.add_option("--keys", security.keys,
                     "folder with ca.crt and this site's SITE.pem (longhaul keys; default: [net] "
                     "keys)")
          ->type_name("DIR");
  add_insecure_option(app, security.insecure);
  app.get_option("--insecure")->excludes(keys);
}

void warn_if_insecure(bool insecure) {
  if (insecure)
    fmt::print(stderr,
               "longhaul: WARNING: --insecure: connections are neither encrypted nor "
               "authenticated; whoever reaches the ports can read and change the model\n");
}

}  // namespace longhaul::cli
