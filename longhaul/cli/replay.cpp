#include "longhaul/run/replay.h"
#include "longhaul/cli/run_options.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/progress.h"

namespace longhaul::cli {
namespace {

using record::StreamEnd;

struct ReplayArgs {
  std::string folder, site;
  bool recompute = false, json = false, quiet = false;
};

// The progress of a replay on standard error: a live line on a terminal, else a line every five
// seconds.
class Meter {
 public:
  explicit Meter(bool quiet) : style_(run::Progress::detect(quiet)) {}
  ~Meter() { clear(); }
  void show(const std::string& file, std::uint64_t inputs, std::uint64_t bytes, std::uint64_t all) {
    using run::Progress;
    const bool live = style_ == Progress::Style::live;
    const auto now = Clock::now();
    const auto pause = live ? std::chrono::milliseconds(100) : std::chrono::milliseconds(5000);
    if (style_ == Progress::Style::quiet || now - shown_ < pause) return;
    shown_ = now;
    on_screen_ = live;
    fmt::print(stderr, "{}{}: {:.0f} %, {} inputs{}", live ? "\r\x1b[K" : "", file,
               all > 0 ? 100 * double(bytes) / double(all) : 100, inputs, live ? "" : "\n");
    std::fflush(stderr);
  }
  void clear() {
    if (on_screen_) std::fputs("\r\x1b[K", stderr);
    on_screen_ = false;
  }

 private:
  using Clock = std::chrono::steady_clock;
  const run::Progress::Style style_;
  Clock::time_point shown_ = Clock::now();
  bool on_screen_ = false;
};

std::string or_nothing(const std::string& text) { return text.empty() ? "nothing" : text; }

void print_difference(const record::Difference& d) {
  fmt::print("  differs at input {}, {}, at {}\n", d.input, d.what, record::describe(d.time));
  if (d.action == 0)
    fmt::print("    it cannot come there: {}\n", d.replayed);
  else if (d.recorded == d.replayed)
    fmt::print("    action {}: {}, with another content\n", d.action, d.recorded);
  else
    fmt::print("    action {}\n      recorded: {}\n      replayed: {}\n", d.action,
               or_nothing(d.recorded), or_nothing(d.replayed));
}

void print_ending(const record::Outcome& outcome) {
  const StreamEnd& e = *outcome.ending;
  switch (e.kind) {
    case StreamEnd::Kind::between:
      fmt::print("  without its end, at byte {}: the run was killed, or still runs\n", e.offset);
      break;
    case StreamEnd::Kind::torn:
      fmt::print("  torn in entry {} at byte {}: the run was killed, or the file was cut\n",
                 e.number, e.offset);
      break;
    case StreamEnd::Kind::damaged:
      fmt::print("  damaged in entry {}, bytes {} to {}: nothing behind it was replayed\n",
                 e.number, e.offset, e.offset + e.size - 1);
      break;
  }
  if (outcome.unanswered)
    fmt::print("  input {} was fed, but what the node did then is not recorded\n",
               outcome.inputs + 1);
}

void print_session(const run::ReplayedSession& session) {
  const record::Outcome& o = session.outcome;
  const char* how = !session.header.learner ? "no learner"
                    : session.recomputed    ? "steps taken again"
                                            : "steps as recorded";
  fmt::print("{}: {} inputs answered by the same {} actions; {}\n", session.file, o.inputs,
             o.actions, how);
  if (o.difference) print_difference(*o.difference);
  if (o.refused) fmt::print("  refused: {}\n", o.refused->what);
  if (o.ending) print_ending(o);
  if (o.stopped) fmt::print("  interrupted\n");
}

Result<int> replay(const ReplayArgs& args) {
  const run::InterruptGuard guard;
  Meter meter(args.quiet);
  run::ReplayOptions options{
      .folder = args.folder, .site = args.site, .recompute = args.recompute, .go_on = {}};
  options.go_on = [&](const std::string& file, const record::Outcome& outcome, std::uint64_t bytes,
                      std::uint64_t all) {
    meter.show(file, outcome.inputs, bytes, all);
    return !run::interrupted();
  };
  const auto replayed = run::replay(options);
  meter.clear();
  if (!replayed) return replayed.error();
  if (args.json) {
    fmt::print("{}\n", to_json(*replayed).dump(2));
  } else {
    for (const run::ReplayedSession& session : replayed->sessions) print_session(session);
  }
  return exit_code(*replayed);
}

}  // namespace

void add_replay(CLI::App& app, int& code) {
  auto args = std::make_shared<ReplayArgs>();
  CLI::App* sub =
      app.add_subcommand("replay", "replays a recorded node and prints the first difference");
  sub->add_option("RUN", args->folder, "folder of a run made with --record")->required();
  option(*sub, "--site", args->site,
         "the node: NAME, or NAME/K for the K-th node of its site, from 0", "NAME[/K]")
      ->required();
  sub->add_flag("--recompute", args->recompute,
                "computes steps again although a full recording holds them");
  sub->add_flag("--quiet", args->quiet, "no progress");
  add_json_option(*sub, args->json);
  sub->footer(
      "Example:\n  longhaul simulate examples/fedavg.toml --record\n"
      "  longhaul replay runs/fedavg --site lima\n"
      "Exit codes: 0 equal (a torn file is compared up to its end), 1 a difference, 2 bad usage "
      "or\n"
      "file, or the learner computes other bits on this machine, 130 Ctrl-C");
  sub->callback([args, &code] { code = code_of(replay(*args)); });
}

}  // namespace longhaul::cli
