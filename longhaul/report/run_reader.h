#pragma once
// What a report shows of one run, read from its folder (docs/run-folder.md): of a finished run
// once, of one under way again and again. Keys that are missing, and kinds of events that are not
// known, are passed over. Memory is bounded, however long the run: long curves are thinned.
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <nlohmann/json.hpp>

#include "longhaul/base/result.h"
#include "longhaul/report/time_bins.h"

namespace longhaul::report {

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

}  // namespace longhaul::report
