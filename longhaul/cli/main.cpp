#include "longhaul/cli/cli.h"

int main(int argc, char** argv) { return longhaul::cli::run(argc, argv); }
