#pragma once
// metrics.jsonl: one JSON object a line for each event, in the order of virtual time. The text is a
// function of the run only: no real times, no addresses, the shortest decimals that read back
// exactly.
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "longhaul/base/archive.h"
#include "longhaul/base/result.h"
#include "longhaul/core/types.h"

namespace longhaul::run {

// Which events of a run metrics.jsonl keeps, so that a run without an end does not fill the disk:
// of each kind and node the first kWhole, then every second up to twice as many, every fourth up to
// four times as many, and so on.
class Thinning {
 public:
  static constexpr std::uint64_t kWhole = 10'000;
  // For how many events the next one of that kind stands; 0: it is left out.
  std::uint64_t next(Rank, std::string_view kind);
  void state(Archive&);

 private:
  std::map<std::pair<Rank, std::string>, std::uint64_t> seen_;
};

struct MetricsEvent {
  Time time{0};
  std::string_view site;
  Rank rank = 0;
  Round round = 0;
  std::string_view kind;  // "score", "train_loss", "wait_s" ...
  std::span<const std::pair<std::string_view, double>> values;
  std::uint64_t stands_for = 1;  // events of its kind and node; others are left out
};

std::string to_json_line(const MetricsEvent&);
// Rounded once, so that it prints as short as the nanoseconds allow.
inline double exact_seconds(Time t) { return double(t.count()) / 1e9; }

// Bytes of a file up to the end of its last whole line; 0 if it cannot be read.
std::uint64_t whole_lines(const std::string& path);

// Lines that cannot be written, as on a full disk, wait in memory, at most kMostPending bytes of
// them; flush() and sync() try again. One thread calls it.
class MetricsFile {
 public:
  static constexpr std::size_t kMostPending = 16u << 20;

  // Keeps the first `keep` bytes of an existing file and appends. A file shorter than that is an
  // Error.
  static Result<MetricsFile> open(const std::string& path, std::uint64_t keep);

  MetricsFile(MetricsFile&&) = default;
  ~MetricsFile() { (void)flush(); }

  void write(const MetricsEvent&);
  // Ok: everything written so far can be read by others. The file may end with a part of a line
  // otherwise.
  Status flush();
  // Ok: everything written so far is on disk.
  Status sync();
  std::uint64_t bytes() const { return written_ + pending_.size(); }
  std::uint64_t written() const { return written_; }  // of them can be read by others
  std::uint64_t dropped() const { return dropped_; }  // events, as too many waited
  const std::string& path() const { return path_; }

 private:
  class Descriptor {  // closes itself
   public:
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    ~Descriptor();
    int number() const { return number_; }

   private:
    int number_;
  };
  MetricsFile(std::string path, Descriptor file, std::uint64_t written)
      : path_(std::move(path)), file_(std::move(file)), written_(written) {}

  std::string path_;
  Descriptor file_;
  std::string pending_;
  std::uint64_t written_ = 0, dropped_ = 0;
};

}  // namespace longhaul::run
