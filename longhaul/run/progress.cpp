#include "longhaul/run/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

namespace longhaul::run {
namespace {

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

Progress::Progress(Style style, std::string name) : style_(style), name_(std::move(name)) {
  const char* no_color = std::getenv("NO_COLOR");
  color_ = style == Style::live && !(no_color && *no_color);
}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (on_screen_) std::fputs("\r\x1b[K", stderr);
  on_screen_ = false;
}

std::string Progress::line(const ProgressState& state) const {
  std::string text = fmt::format("{}  round {}/{}", name_, state.rounds, state.max_rounds);
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
  const Round done = state.rounds - first_.value_or(0);
  if (done > 0 && state.max_rounds > state.rounds) {
    const double elapsed = std::chrono::duration<double>(Clock::now() - begin_).count();
    text += fmt::format(
        "  real time left <= {}",
        duration_text(elapsed * double(state.max_rounds - state.rounds) / double(done)));
  }
  return text;
}

void Progress::update(const ProgressState& state, bool scored) {
  if (style_ == Style::quiet) return;
  if (!first_) first_ = state.rounds;
  const auto now = Clock::now();
  if (style_ == Style::plain) {
    if (scored && now - drawn_ >= std::chrono::seconds(1)) {
      drawn_ = now;
      say(line(state) + "\n");
    }
    return;
  }
  if (now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  std::string text = line(state).substr(0, columns());  // a line that wraps cannot be redrawn
  if (color_ && text.size() > name_.size())
    text = "\x1b[1m" + name_ + "\x1b[0m" + text.substr(name_.size());
  say("\r\x1b[K" + text);
  std::fflush(stderr);
  on_screen_ = true;
}

void Progress::note(const std::string& text) {
  if (style_ == Style::quiet) return;
  clear();
  say(text + "\n");
}

}  // namespace longhaul::run
