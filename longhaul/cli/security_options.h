#pragma once
// --keys and --insecure, of the commands that open connections.
#include "longhaul/run/security.h"

namespace CLI {
class App;
}

namespace longhaul::cli {

void add_security_options(CLI::App&, run::Security&);
void add_insecure_option(CLI::App&, bool& insecure);
// On standard error, whatever else is quiet.
void warn_if_insecure(bool insecure);

}  // namespace longhaul::cli
