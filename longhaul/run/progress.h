#pragma once
// Progress of a run for the user, on standard error: a live line on a terminal, plain lines
// otherwise, nothing with --quiet. NO_COLOR is honoured.
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
};

class Progress {
 public:
  enum class Style { quiet, plain, live };
  // live on a terminal, else plain.
  static Style detect(bool quiet);

  Progress(Style style, std::string name);
  ~Progress();
  // Cheap; draws at most ten times a second; plain lines only for new scores.
  void update(const ProgressState&, bool scored);
  // A line of its own, above the live one.
  void note(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;
  std::string line(const ProgressState&) const;
  void clear();

  Style style_;
  bool color_;
  std::string name_;
  Clock::time_point begin_ = Clock::now(), drawn_{};
  std::optional<Round> first_;  // rounds done when this session began
  bool on_screen_ = false;
};

// "1.24 MB", "3 h 12 min", "850 ms"
std::string bytes_text(double bytes);
std::string duration_text(double seconds);

}  // namespace longhaul::run
