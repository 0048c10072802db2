#pragma once
// Progress of a run for the user, on standard error: a live line on a terminal, plain lines
// otherwise, nothing with --quiet. NO_COLOR is honoured. One thread.
#include <chrono>
#include <optional>
#include <string>

#include "longhaul/core/types.h"

namespace longhaul::run {

struct ProgressState {
  Round rounds = 0, max_rounds = 0;
  Time virtual_time{0};
  std::uint64_t wan_bytes = 0;
  std::optional<double> loss, accuracy;      // of the newest score
  std::optional<double> bits_per_byte = {};  // the same, of data of kind text
  std::uint64_t members = 0, live = 0;       // workers
  bool is_virtual = true;                    // virtual_time is that of the simulator
  std::string waits_for = {};                // "lima, oslo (2 of 4)"; "": nothing
  double waited_s = 0;                       // real time that it has waited for that
};

// The lines about a run, and when each is due. `now_s`: real time since it began, ascending.
class ProgressLines {
 public:
  explicit ProgressLines(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }
  std::string line(const ProgressState&, double now_s);
  // For an output that is no terminal. A new score gives a line, at most one a second. Without
  // scores a line comes after 10 s, then ever more rarely, at last one a minute. A wait gives one
  // after 5 s and each half minute.
  std::optional<std::string> plain(const ProgressState&, bool scored, double now_s);

 private:
  bool is_due(const ProgressState&, bool scored, double now_s) const;
  std::string time_left(const ProgressState&, double now_s);

  const std::string name_;
  std::optional<double> said_s_;  // when the last plain line was due
  double told_wait_s_ = 0;        // how long the wait was that it told of
  struct Mark {
    Round rounds = 0;
    double at_s = 0;
  };
  std::optional<Mark> first_;  // the first rounds of this session
};

class Progress {
 public:
  enum class Style { quiet, plain, live };
  // live on a terminal, else plain.
  static Style detect(bool quiet);

  Progress(Style style, std::string name);
  ~Progress();
  // Cheap; call it some times a second. Draws at most ten times a second.
  void update(const ProgressState&, bool scored);
  // A line of its own, above the live one.
  void note(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;
  void clear();

  Style style_;
  bool color_;
  ProgressLines lines_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point drawn_{};
  bool on_screen_ = false;
};

// "1.24 MB", "3 h 12 min", "850 ms"
std::string bytes_text(double bytes);
std::string duration_text(double seconds);

}  // namespace longhaul::run
