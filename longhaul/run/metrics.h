#pragma once
// metrics.jsonl: one JSON object a line for each event, in the order of virtual time. The text is a
// function of the run only: no real times, no addresses, the shortest decimals that read back
// exactly.
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "longhaul/base/result.h"
#include "longhaul/core/types.h"

namespace longhaul::run {

struct MetricsEvent {
  Time time{0};
  std::string_view site;
  Rank rank = 0;
  Round round = 0;
  std::string_view kind;  // "score", "train_loss", "wait_s" ...
  std::span<const std::pair<std::string_view, double>> values;
};

std::string to_json_line(const MetricsEvent&);
// Rounded once, so that it prints as short as the nanoseconds allow.
inline double exact_seconds(Time t) { return double(t.count()) / 1e9; }

// Bytes of a file up to the end of its last whole line; 0 if it cannot be read.
std::uint64_t whole_lines(const std::string& path);

class MetricsFile {
 public:
  // Keeps the first `keep` bytes of an existing file and appends. A file shorter than that is an
  // Error.
  static Result<MetricsFile> open(const std::string& path, std::uint64_t keep);

  void write(const MetricsEvent&);
  // Everything written so far can be read by others.
  void flush() { failed_ |= std::fflush(file_.get()) != 0; }
  // Everything written so far is on disk; an Error if writing failed at any time.
  Status sync();
  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  MetricsFile(std::string path, std::FILE* file, std::uint64_t bytes)
      : path_(std::move(path)), file_(file), bytes_(bytes) {}

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::uint64_t bytes_ = 0;
  bool failed_ = false;
};

}  // namespace longhaul::run
