#pragma once
// The command line. Each subcommand has its own file, adds itself to the parser and sets its exit
// code. Exit codes: 0 the run ended as configured, 1 it diverged or missed a required target, 2 bad
// job or usage, 3 a peer or the network failed, 4 internal error, 130 Ctrl-C.

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}
namespace longhaul::run {
struct OwnLearners;
}

namespace longhaul::cli {

inline constexpr int kDone = 0, kBadUsage = 2, kFailed = 3, kInternal = 4, kInterrupted = 130;

// A program that embeds the command line with learners of its own. They replace [model] and [data],
// which its job files need not have.
struct Embedding {
  const run::OwnLearners* learners = nullptr;  // outlive run(); null: none
  std::vector<std::string> program = {};       // the words that start that program again
  // Jobs without [model] and [data] are of kind "own", also without learners.
  bool own_jobs = false;
};

// Parses and runs a command; never throws. One call at a time in a process.
int run(int argc, const char* const* argv, const Embedding& = {});

// The same for words without the program's name.
int run_words(const std::vector<std::string>& words);
// Returns run_words for runs in copies of this process; empty if it is embedded, because a copy
// does not have its threads.
std::function<int(const std::vector<std::string>&)> run_words_in_copies();

// Returns the Embedding of the program that embeds this one; empty by default.
const Embedding& embedding();

// Adds every subcommand, or one. `code` is written when the subcommand was chosen and has run.
void add_commands(CLI::App&, int& code);
void add_simulate(CLI::App&, int& code);
void add_launch(CLI::App&, int& code);
void add_site(CLI::App&, int& code);
void add_lab(CLI::App&, int& code);
void add_doctor(CLI::App&, int& code);
void add_evaluate(CLI::App&, int& code);
void add_predict(CLI::App&, int& code);
void add_export(CLI::App&, int& code);
void add_compare(CLI::App&, int& code);
void add_report(CLI::App&, int& code);
void add_view(CLI::App&, int& code);
void add_status(CLI::App&, int& code);
void add_advise(CLI::App&, int& code);  // plan
void add_bound(CLI::App&, int& code);
void add_serve(CLI::App&, int& code);
void add_query(CLI::App&, int& code);
void add_model(CLI::App&, int& code);
void add_sample(CLI::App&, int& code);
void add_try_model(CLI::App&, int& code);
void add_keys(CLI::App&, int& code);
void add_perf(CLI::App&, int& code);
void add_replay(CLI::App&, int& code);
void add_list(CLI::App&, int& code);
void add_explain(CLI::App&, int& code);
void add_version(CLI::App&, int& code);

}  // namespace longhaul::cli
