#pragma once
// Internal to the readers of text files: lines, numbers and labels, free of the locale. Every error
// reads "FILE:LINE:COLUMN: expected ..., found ...".
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/learn/data/dataset.h"

namespace longhaul::learn {

// A place in a file, for messages; lines and columns (bytes) count from 1.
struct TextPlace {
  std::string_view file;
  std::size_t line = 0;
  std::size_t column = 0;
};
Error bad_text(const TextPlace&, const std::string& expected, std::string_view found);
// `text` in quotes, at most 40 bytes of it, everything that does not print as "\xNN".
std::string in_quotes(std::string_view text);

// The lines of a text, without their ends (\n or \r\n), a byte order mark or a final empty line.
class Lines {
 public:
  explicit Lines(std::string_view text);
  bool next(std::string_view& line);
  std::size_t number() const { return number_; }  // of the line last given, from 1

 private:
  std::string_view rest_;
  std::size_t number_ = 0;
};

std::string_view trimmed(std::string_view);  // without blanks and tabs at both ends

// The whole of `text` as a finite number; a leading '+' is allowed.
std::optional<double> parse_number(std::string_view text);
// The same where a float holds it.
std::optional<float> parse_float(std::string_view text);
std::optional<std::uint64_t> parse_whole(std::string_view text);

inline constexpr std::size_t kMaxClasses = 1000;  // found in a file; more are numbers to fit

// What the last column of a table means; see DataConfig for the user's view.
struct TargetOptions {
  Task task = Task::classification;
  std::vector<std::string> labels = {};  // names of the classes; empty: those found, sorted
  std::size_t columns = 1;               // of numbers or labels: targets of a sample
};

// Collects what a file gives as its samples' targets, and writes them into a DataSet.
class Targets {
 public:
  explicit Targets(TargetOptions);
  // Of several columns one after the other.
  Status add(std::string_view text, const TextPlace&);
  // Fills shape.task, shape.outputs, labels, names or targets.
  Status finish(std::string_view file, DataSet&) &&;

 private:
  Status find_names(std::string_view file);

  TargetOptions options_;
  std::vector<std::string> names_;                           // as they were met, or options_.labels
  std::vector<std::pair<std::string, std::size_t>> sorted_;  // name -> place in names_, for look-up
  std::vector<std::int64_t> labels_;                         // places in names_
  std::vector<float> targets_;
};

// "1", "+1" and "1.0" are one label; what is no number is kept as it is.
std::string canonical_label(std::string_view text);

}  // namespace longhaul::learn
