#pragma once
// What a report shows of one run, read from its folder (docs/run-folder.md): of a finished run
// once, of one under way again and again. Keys that are missing, and kinds of events that are not
// known, are passed over. Memory is bounded, however long the run: long curves are thinned.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <nlohmann/json.hpp>

#include "longhaul/base/result.h"

namespace longhaul::report {

// Durations summed over time in a fixed number of bins, whatever the length of the run: when the
// time passes the last bin, bins are joined in pairs and become twice as wide.
class TimeBins {
 public:
  static constexpr std::size_t kBins = 512;

  explicit TimeBins(double width_s = 1.0 / 64) : width_(width_s) {}

  // Adds the overlap of [from, to), in seconds, to each bin. Times below 0 count as 0.
  void add(double from, double to) {
    from = std::max(from, 0.0);
    if (!(to > from)) return;
    cover(to);
    for (auto bin = std::size_t(from / width_); bin < kBins && double(bin) * width_ < to; ++bin)
      sums_[bin] += std::min(to, double(bin + 1) * width_) - std::max(from, double(bin) * width_);
  }
  // Widens the bins until the time lies in one.
  void cover(double time_s) {
    while (time_s > width_ * double(kBins) && width_ < 1e12) {
      for (std::size_t i = 0; i < kBins / 2; ++i) sums_[i] = sums_[2 * i] + sums_[2 * i + 1];
      std::fill(sums_.begin() + std::ptrdiff_t(kBins / 2), sums_.end(), 0.0);
      width_ *= 2;
    }
  }
  double width_s() const { return width_; }
  const std::vector<double>& sums() const { return sums_; }

 private:
  double width_;
  std::vector<double> sums_ = std::vector<double>(kBins, 0.0);
};

struct ScorePoint {
  double time_s = 0, round = 0;
  std::optional<double> loss, score, wan_bytes;
};

class RunReader {
 public:
  static constexpr std::size_t kMaxScores = 2000;  // beyond it every second one is dropped
  static constexpr std::size_t kMaxLanes = 2048;   // sites x causes of waiting

  // Reads nothing yet. One thread. `nodes`: of a run over sockets that has no folder of its own,
  // the folders of its sites, by rank; `folder` then only names it.
  explicit RunReader(std::string folder, std::vector<std::string> nodes = {});

  // Reads what was written since the last call. Error: there is no run (no job.toml).
  Status refresh();
  // The number of changes seen so far: equal numbers, equal data().
  std::uint64_t version() const { return version_; }
  const std::string& folder() const { return folder_; }
  // Where its job.toml is.
  std::string job_folder() const { return nodes_of_.empty() ? folder_ : nodes_of_.front(); }

  // One run as the page takes it; docs/report.md lists the keys.
  nlohmann::ordered_json data() const;
  // The summary as far as there is one: null while the run is under way.
  const nlohmann::json& summary() const { return summary_; }
  const std::vector<ScorePoint>& scores() const { return scores_; }
  double time_s() const { return time_s_; }

 private:
  struct Stream {
    std::string path;
    std::uintmax_t read = 0;  // bytes of whole lines
  };
  struct ActivityFile {
    std::filesystem::file_time_type written = {};
    nlohmann::json json;
  };
  struct Lane {  // one site waiting for one cause
    std::string site, cause;
    bool operator<(const Lane& other) const {
      return std::tie(site, cause) < std::tie(other.site, other.cause);
    }
  };
  void read_job();
  std::vector<std::string> node_folders() const;
  std::string told_by() const;
  void read_statuses();
  double sent() const;
  void read_summary();
  void read_activity();
  std::string clock() const;
  void find_streams();
  bool read_lines(Stream&);
  void add_event(const nlohmann::json&);
  void add_score(const nlohmann::json& event, const nlohmann::json& values);
  void start_again();
  double bytes_at(const ScorePoint&) const;
  nlohmann::ordered_json score_json() const;
  nlohmann::ordered_json lane_json() const;

  std::string folder_;
  std::vector<std::string> nodes_of_;  // folders
  std::vector<Stream> streams_;
  std::map<double, double> scored_;  // by rank of who had them scored: the newest round
  std::vector<ScorePoint> scores_;
  std::size_t keep_every_ = 1, offered_ = 0;
  std::map<Lane, TimeBins> waits_;
  std::map<std::string, std::uint64_t> kinds_;  // events seen, by kind
  double time_s_ = 0, round_ = 0;
  nlohmann::json summary_, activity_;
  std::map<std::string, ActivityFile> activities_;  // by path
  nlohmann::ordered_json settings_;
  std::vector<std::string> sites_;
  std::map<std::string, double> nodes_;  // of a site
  double samples_per_round_ = 0, max_rounds_ = 0;
  // By status.json, of the nodes whose folders these are: bytes sent to other sites, and when.
  double status_bytes_ = 0, status_time_s_ = 0;
  std::string node_;  // whose folder this is, by its status.json; see site_of_folder()
  std::string name_, sync_, overlay_, transfer_, codec_, outer_, data_;
  std::optional<double> target_;
  bool job_read_ = false;
  std::uint64_t version_ = 0;
};

// The site that a process over sockets wrote this folder for, by its status.json; of a simulated
// run kAllSites; "": neither is known.
inline constexpr std::string_view kAllSites = "all sites";
std::string site_of_folder(const std::string& folder);

// "diloco over ring, int8": the parts in words; ones that are the default are left out.
std::string parts_text(const nlohmann::ordered_json& run);

inline constexpr std::size_t kMaxChanges = 2000;

// A list of changes that makes `after` of `before`, in this order:
//
//   [path, value]           the value at the path is replaced
//   [path, "+", [values]]   the list at the path gets these at its end
//
// A path is a list of keys and indices from the top. Nothing: they are so many that the whole is
// shorter.
std::optional<nlohmann::ordered_json> changes_of(const nlohmann::ordered_json& before,
                                                 const nlohmann::ordered_json& after);

}  // namespace longhaul::report
