#pragma once
// Internal to the readers of text files: lines, numbers and labels, free of the locale. Every error
// reads "FILE:LINE:COLUMN: expected ..., found ...".
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "longhaul/learn/data/dataset.h"
#include "longhaul/learn/data/errors.h"

namespace longhaul::learn {

// Returns `text` in quotes, at most 40 bytes of it, with unprintable bytes as "\xNN".
inline std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text.substr(0, 40)) {
    if (c >= 0x20 && c < 0x7f)
      out += c;
    else
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return out + (text.size() > 40 ? "...'" : "'");
}

// A place in a file, for messages; lines and columns (bytes) count from 1.
struct TextPlace {
  std::string_view file;
  std::size_t line = 0;
  std::size_t column = 0;
};

inline Error bad_text(const TextPlace& at, const std::string& expected, std::string_view found) {
  return malformed("{}:{}:{}: expected {}, found {}", at.file, at.line, at.column, expected,
                   found.empty() ? "nothing" : in_quotes(found));
}

// The lines of a text, without line ends (\n or \r\n), a byte order mark or a final empty line.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {
    if (rest_.starts_with("\xef\xbb\xbf")) rest_.remove_prefix(3);
  }

  bool next(std::string_view& line) {
    if (rest_.empty()) return false;
    const std::size_t end = rest_.find('\n');
    line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number_;
    return true;
  }

  std::size_t number() const { return number_; }  // number of the last line, from 1

 private:
  std::string_view rest_;
  std::size_t number_ = 0;
};

// Returns the text without blanks and tabs at both ends.
inline std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Returns the whole of `text` as a finite number; a leading '+' is allowed.
inline std::optional<double> parse_number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

// Returns the same if a float holds it.
inline std::optional<float> parse_float(std::string_view text) {
  const auto value = parse_number(text);
  if (!value || !std::isfinite(float(*value))) return {};
  return float(*value);
}

inline std::optional<std::uint64_t> parse_whole(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

// Returns one label for "1", "+1" and "1.0"; other text unchanged.
inline std::string canonical_label(std::string_view text) {
  const auto number = parse_number(text);
  return number ? fmt::format("{}", *number + 0.0) : std::string(text);  // + 0.0: -0 is 0
}

inline constexpr std::size_t kMaxClasses = 1000;  // in a file; more are numbers to fit

// The meaning of a table's last column; see DataConfig for the user's view.
struct TargetOptions {
  Task task = Task::classification;
  std::vector<std::string> labels = {};  // names of the classes; empty: those found, sorted
  std::size_t columns = 1;               // columns of numbers or labels: targets of a sample
};

// A collector of the targets in a file, which writes them into a DataSet.
class Targets {
 public:
  explicit Targets(TargetOptions options) : options_(std::move(options)) {
    for (std::size_t i = 0; i < options_.labels.size(); ++i) {
      names_.push_back(canonical_label(options_.labels[i]));
      sorted_.emplace_back(names_.back(), i);
    }
    std::ranges::sort(sorted_);
  }

  // Adds a target. With several columns: one call for each, in order.
  Status add(std::string_view text, const TextPlace& at) {
    if (options_.task == Task::regression) {
      const auto value = parse_float(text);
      if (!value) return bad_text(at, "a number", text);
      targets_.push_back(*value);
      return Ok{};
    }
    if (options_.task == Task::multilabel) {
      const auto value = parse_float(text);
      if (!value || (*value != 0 && *value != 1))
        return bad_text(at, "0 or 1 ([data] loss = \"bce\")", text);
      targets_.push_back(*value);
      return Ok{};
    }
    if (text.empty()) return bad_text(at, "a label", text);
    const std::string name = canonical_label(text);
    auto found = std::ranges::lower_bound(sorted_, name, {}, [](const auto& e) { return e.first; });
    if (found == sorted_.end() || found->first != name) {
      if (!options_.labels.empty()) {
        std::string known;
        for (std::size_t i = 0; i < std::min<std::size_t>(names_.size(), 10); ++i)
          known += (i ? ", " : "") + in_quotes(names_[i]);
        return bad_text(
            at, fmt::format("one of the labels {}{}", known, names_.size() > 10 ? " ..." : ""),
            text);
      }
      const auto number = parse_number(text);
      if (number && *number != std::floor(*number))
        return bad_text(at,
                        "a label (a whole number or a name; to fit numbers: [data] task = "
                        "\"regression\")",
                        text);
      if (names_.size() == kMaxClasses)
        return bad_text(at,
                        fmt::format("at most {} labels (to fit numbers: [data] task = "
                                    "\"regression\")",
                                    kMaxClasses),
                        text);
      found = sorted_.emplace(found, name, names_.size());
      names_.push_back(name);
    }
    labels_.push_back(std::int64_t(found->second));
    return Ok{};
  }

  // Fills shape.task, shape.outputs, labels, names or targets.
  Status finish(std::string_view file, DataSet& data) && {
    data.shape.task = options_.task;
    data.shape.outputs = 1;
    if (labels_.empty() && targets_.empty())
      return malformed("{}: expected samples, found none", file);
    if (options_.task == Task::classification) {
      if (options_.labels.empty()) LH_TRY(find_names(file));
      data.shape.outputs = std::int64_t(names_.size());
      data.labels = std::move(labels_);
      data.names = std::move(names_);
    } else {
      data.shape.outputs = std::int64_t(options_.columns);
      data.targets = std::move(targets_);
    }
    return Ok{};
  }

 private:
  Status find_names(std::string_view file) {
    if (names_.size() < 2)
      return malformed("{}: all samples have the label {}; expected two classes or more", file,
                       in_quotes(names_.front()));
    std::vector<std::size_t> order(names_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const bool numbers = std::ranges::all_of(names_, [](auto& n) { return bool(parse_number(n)); });
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
      if (numbers) return *parse_number(names_[a]) < *parse_number(names_[b]);
      return names_[a] < names_[b];
    });
    std::vector<std::int64_t> rank(order.size());
    std::vector<std::string> names;
    for (const std::size_t place : order) {
      rank[place] = std::int64_t(names.size());
      names.push_back(names_[place]);
    }
    for (std::int64_t& label : labels_) label = rank[std::size_t(label)];
    names_ = std::move(names);
    return Ok{};
  }

  TargetOptions options_;
  std::vector<std::string> names_;                           // in file order, or options_.labels
  std::vector<std::pair<std::string, std::size_t>> sorted_;  // name -> place in names_, for look-up
  std::vector<std::int64_t> labels_;                         // places in names_
  std::vector<float> targets_;
};

}  // namespace longhaul::learn
