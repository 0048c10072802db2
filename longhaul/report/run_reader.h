#pragma once
// The data of one run for a report, read from its folder (docs/run-folder.md): once for a finished
// run, repeatedly for a running one. Missing keys and unknown kinds of events are skipped. Memory
// is bounded for any length of run, because long curves are thinned.
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

// Durations summed over time in a fixed number of bins. When the time passes the last bin, pairs of
// bins are merged and become twice as wide.
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
  // Widens the bins until one contains the time.
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
  std::optional<double> loss = {}, score = {}, wan_bytes = {};
};

class RunReader {
 public:
  static constexpr std::size_t kMaxScores = 2000;  // beyond it, every second point is dropped
  static constexpr std::size_t kMaxLanes = 2048;   // sites x causes of waiting

  // Reads nothing yet. Used by one thread. `nodes`: the folders of the sites by rank, for a run
  // over sockets without a folder of its own. `folder` is then only its name.
  explicit RunReader(std::string folder, std::vector<std::string> nodes = {});

  // Reads everything written since the last call. Error: the folder holds no run (no job.toml).
  Status refresh();
  // Returns the number of changes so far. data() is equal if this number is.
  std::uint64_t version() const { return version_; }
  const std::string& folder() const { return folder_; }
  // Returns the folder with the run's job.toml.
  std::string job_folder() const { return nodes_of_.empty() ? folder_ : nodes_of_.front(); }

  // Returns the run as JSON for the page; docs/report.md lists the keys.
  nlohmann::ordered_json data() const;
  // Returns the summary; null while the run continues.
  const nlohmann::json& summary() const { return summary_; }
  const std::vector<ScorePoint>& scores() const { return scores_; }
  double time_s() const { return time_s_; }

 private:
  struct Stream {
    std::string path;
    std::uintmax_t read = 0;  // bytes read, in whole lines
  };
  struct ActivityFile {
    std::filesystem::file_time_type written = {};
    nlohmann::json json;
  };
  struct Lane {  // the waits of one site for one cause
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
  std::vector<std::string> nodes_of_;  // folders of the nodes
  std::vector<Stream> streams_;
  std::map<double, double> scored_;  // newest round, by the rank of the scoring node
  std::vector<ScorePoint> scores_;
  std::size_t keep_every_ = 1, offered_ = 0;
  std::map<Lane, TimeBins> waits_;
  std::map<std::string, std::uint64_t> kinds_;  // events seen, by kind
  double time_s_ = 0, round_ = 0;
  nlohmann::json summary_, activity_;
  std::map<std::string, ActivityFile> activities_;  // by path
  nlohmann::ordered_json settings_;
  std::vector<std::string> sites_;
  std::map<std::string, double> nodes_;  // number of nodes, by site
  double samples_per_round_ = 0, max_rounds_ = 0;
  // From the nodes' status.json: bytes sent to other sites, and the time.
  double status_bytes_ = 0, status_time_s_ = 0;
  std::string node_;  // site of this folder, from its status.json; see site_of_folder()
  std::string name_, sync_, overlay_, transfer_, codec_, outer_, data_;
  std::optional<double> target_;
  bool job_read_ = false;
  std::uint64_t version_ = 0;
};

// Returns the site that a process over sockets wrote this folder for, from its status.json.
// Simulated runs: kAllSites; "": unknown.
inline constexpr std::string_view kAllSites = "all sites";
std::string site_of_folder(const std::string& folder);

// Returns the parts in words: "diloco over ring, int8". Omits the default transfer and codec.
std::string parts_text(const nlohmann::ordered_json& run);

inline constexpr std::size_t kMaxChanges = 2000;

// Returns a list of changes that turns `before` into `after`, applied in this order:
//
//   [path, value]           the value at the path is replaced
//   [path, "+", [values]]   the values are appended to the list at the path
//
// A path is a list of keys and indices from the top. Returns nothing if there are more than
// kMaxChanges: the whole is then shorter.
std::optional<nlohmann::ordered_json> changes_of(const nlohmann::ordered_json& before,
                                                 const nlohmann::ordered_json& after);

}  // namespace longhaul::report
