#include "longhaul/run/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "longhaul/base/printable.h"

namespace longhaul::run {
namespace {

// Seconds of real time.
constexpr double kWaits_s = 2;  // shorter waits are part of any round
constexpr double kLongWait_s = 5, kWaitPause_s = 30;
constexpr double kLeastPause_s = 1, kFirstPause_s = 10, kLongestPause_s = 60;

std::size_t columns() {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col - 1u : 200;
}

// A standard error that takes nothing, as a file on a full disk, ends no run.
void say(const std::string& text) { (void)std::fputs(text.c_str(), stderr); }

}  // namespace

std::string bytes_text(double bytes) {
  for (const char* unit : {"B", "kB", "MB", "GB"}) {
    if (bytes < 1000)
      return bytes == double(std::uint64_t(bytes)) && *unit == 'B'
                 ? fmt::format("{:.0f} B", bytes)
                 : fmt::format("{:.3g} {}", bytes, unit);
    bytes /= 1000;
  }
  return fmt::format("{:.4g} TB", bytes);
}

std::string duration_text(double seconds) {
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1000);
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  const auto whole = std::uint64_t(seconds);
  if (whole < 7200) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

Progress::Style Progress::detect(bool quiet) {
  if (quiet) return Style::quiet;
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal && std::string_view(terminal) == "dumb";
  return ::isatty(STDERR_FILENO) && !dumb ? Style::live : Style::plain;
}

Progress::Progress(Style style, std::string name) : style_(style), lines_(std::move(name)) {
  const char* no_color = std::getenv("NO_COLOR");
  color_ = style == Style::live && !(no_color && *no_color);
}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (on_screen_) std::fputs("\r\x1b[K", stderr);
  on_screen_ = false;
}

std::string ProgressLines::line(const ProgressState& state, double now_s) {
  std::string text = name_;
  const bool has_begun = state.rounds > 0 || state.virtual_time > Time{0};
  if (has_begun) text += fmt::format("  round {}/{}", state.rounds, state.max_rounds);
  if (state.waited_s >= kWaits_s)
    text += fmt::format("  waiting for {}, {}", state.waits_for, duration_text(state.waited_s));
  if (!has_begun) return text;
  if (state.loss) text += fmt::format("  loss {:.4f}", *state.loss);
  if (state.bits_per_byte)
    text += fmt::format("  {:.4f} bits per byte", *state.bits_per_byte);
  else if (state.accuracy)
    text += fmt::format("  accuracy {:.2f} %", 100 * *state.accuracy);
  text += fmt::format("  {} on the WAN  {} {}", bytes_text(double(state.wan_bytes)),
                      state.is_virtual ? "virtual" : "time",
                      duration_text(seconds(state.virtual_time)));
  if (state.live < state.members)
    text += fmt::format("  {} of {} workers live", state.live, state.members);
  return text + time_left(state, now_s);
}

// By the rounds since the first ones that were seen: a session that resumes or rejoins finds many
// done.
std::string ProgressLines::time_left(const ProgressState& state, double now_s) {
  if (!first_ && state.rounds > 0) first_ = {state.rounds, now_s};
  if (!first_ || state.rounds <= first_->rounds || state.max_rounds <= state.rounds) return "";
  const double a_round = (now_s - first_->at_s) / double(state.rounds - first_->rounds);
  return "  real time left <= " + duration_text(a_round * double(state.max_rounds - state.rounds));
}

bool ProgressLines::is_due(const ProgressState& state, bool scored, double now_s) const {
  if (scored && (!said_s_ || now_s - *said_s_ >= kLeastPause_s)) return true;
  if (state.waited_s >= kLongWait_s)
    return told_wait_s_ == 0 || state.waited_s >= told_wait_s_ + kWaitPause_s;
  return now_s - said_s_.value_or(0) >= std::clamp(now_s / 4, kFirstPause_s, kLongestPause_s);
}

std::optional<std::string> ProgressLines::plain(const ProgressState& state, bool scored,
                                                double now_s) {
  if (state.waited_s < told_wait_s_) told_wait_s_ = 0;  // it has ended
  std::string text = line(state, now_s);
  if (!is_due(state, scored, now_s)) return std::nullopt;
  said_s_ = now_s;
  if (state.waited_s >= kLongWait_s) told_wait_s_ = state.waited_s;
  return text;
}

void Progress::update(const ProgressState& state, bool scored) {
  if (style_ == Style::quiet) return;
  const auto now = Clock::now();
  const double now_s = std::chrono::duration<double>(now - begin_).count();
  if (style_ == Style::plain) {
    if (const auto text = lines_.plain(state, scored, now_s)) say(*text + "\n");
    return;
  }
  if (now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  // A line that wraps cannot be redrawn.
  std::string text = lines_.line(state, now_s).substr(0, columns());
  if (const std::string& name = lines_.name(); color_ && text.size() > name.size())
    text = "\x1b[1m" + name + "\x1b[0m" + text.substr(name.size());
  say("\r\x1b[K" + text);
  std::fflush(stderr);
  on_screen_ = true;
}

void Progress::note(const std::string& text) {
  if (style_ == Style::quiet) return;
  clear();
  say(printable(text) + "\n");
}

}  // namespace longhaul::run
