#pragma once
// metrics.jsonl: one JSON object a line for each event, in the order of virtual time. The text is a
// function of the run only: no real times, no addresses, the shortest decimals that read back
// exactly.
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

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

// A resume keeps the first bytes of the file and cuts the others.
struct ResumedMetrics {
  Round void_from = 0;                  // all lines that it cuts are of this round or later ones
  std::vector<nlohmann::json> kept_on;  // the kept lines of this round or later ones
};
ResumedMetrics resumed_metrics(const std::string& path, std::uint64_t keep);

}  // namespace longhaul::run
