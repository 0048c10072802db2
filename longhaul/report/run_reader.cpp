#include "longhaul/report/run_reader.h"

#include <cmath>
#include <fstream>
#include <set>

#include <fmt/format.h>

#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/json.h"
#include "longhaul/run/job/parts.h"

namespace longhaul::report {
namespace {

using nlohmann::json;
constexpr std::size_t kMaxBins = 4096;

struct JoinedSite {
  std::uint64_t nodes = 1;
  std::vector<double> computing, sent;
  json lost = json::array();
};

bool is_activity(const json& file) {
  if (!file.is_object() || !file.contains("sites") || !file["sites"].is_array()) return false;
  if (!file.contains("bin_s") || !file["bin_s"].is_number()) return false;
  return file["bin_s"] > 0 && file.contains("links") && file["links"].is_array();
}

// Adds the values of `from` to bins that are `factor` times as wide.
void add_bins(const json& from, std::size_t factor, std::vector<double>& to) {
  if (!from.is_array()) return;
  for (std::size_t i = 0; i < from.size() && i < kMaxBins; ++i) {
    if (!from[i].is_number()) continue;
    if (to.size() <= i / factor) to.resize(i / factor + 1);
    to[i / factor] += from[i].get<double>();
  }
}

class Join {
 public:
  explicit Join(double bin_s) : bin_s_(bin_s) {}

  void add(const json& file) {
    const auto factor = std::size_t(std::llround(bin_s_ / file["bin_s"].get<double>()));
    std::vector<std::string> names;
    for (const json& one : file["sites"]) {
      if (!one.is_object() || !one.contains("name") || !one["name"].is_string()) return;
      names.push_back(one["name"]);
      JoinedSite& site = site_of(names.back());
      if (one.contains("nodes") && one["nodes"].is_number_unsigned()) site.nodes = one["nodes"];
      if (one.contains("computing")) add_bins(one["computing"], factor, site.computing);
      if (one.contains("sent")) add_bins(one["sent"], factor, site.sent);
      // All survivors report a loss; the longest list counts.
      if (one.contains("lost") && one["lost"].is_array() && one["lost"].size() > site.lost.size())
        site.lost = one["lost"];
    }
    for (const json& link : file["links"]) {
      if (!link.is_array() || link.size() != 3 || !link[2].is_number()) continue;
      if (!link[0].is_number_unsigned() || !link[1].is_number_unsigned()) continue;
      const std::size_t from = link[0], to = link[1];
      if (from < names.size() && to < names.size())
        links_[{index_[names[from]], index_[names[to]]}] += link[2].get<double>();
    }
  }

  json take() const {
    json all = {{"bin_s", bin_s_}, {"sites", json::array()}, {"links", json::array()}};
    for (std::size_t i = 0; i < sites_.size(); ++i)
      all["sites"].push_back({{"name", names_[i]},
                              {"nodes", sites_[i].nodes},
                              {"computing", sites_[i].computing},
                              {"sent", sites_[i].sent},
                              {"lost", sites_[i].lost}});
    for (const auto& [pair, bytes] : links_)
      all["links"].push_back({pair.first, pair.second, std::int64_t(bytes)});
    return all;
  }

 private:
  JoinedSite& site_of(const std::string& name) {
    const auto [at, fresh] = index_.emplace(name, sites_.size());
    if (fresh) {
      names_.push_back(name);
      sites_.emplace_back();
    }
    return sites_[at->second];
  }

  const double bin_s_;
  std::map<std::string, std::size_t> index_;
  std::vector<std::string> names_;
  std::vector<JoinedSite> sites_;
  std::map<std::pair<std::size_t, std::size_t>, double> links_;
};

// Joins the activity of several files: sites by name, times in the widest bins. Skips files that do
// not fit, for example damaged ones or those of another release. Returns null if none remains.
json joined_activity(const std::vector<json>& files) {
  double widest = 0;
  for (const json& file : files)
    if (is_activity(file)) widest = std::max(widest, file["bin_s"].get<double>());
  if (widest == 0) return nullptr;
  Join join(widest);
  for (const json& file : files)
    if (is_activity(file)) join.add(file);
  return join.take();
}

using nlohmann::json;

// Adds numbers, and objects key by key. A null stays null.
void add_to(json& sum, const json& value) {
  if (sum.is_object() && value.is_object()) {
    for (const auto& [key, one] : value.items())
      if (sum.contains(key))
        add_to(sum[key], one);
      else
        sum[key] = one;
  } else if (!sum.is_number() || !value.is_number()) {
    sum = nullptr;
  } else if (sum.is_number_integer() && value.is_number_integer()) {
    sum = sum.get<std::int64_t>() + value.get<std::int64_t>();
  } else {
    sum = sum.get<double>() + value.get<double>();
  }
}

bool is_number(const json& summary, const char* key) {
  return summary.contains(key) && summary[key].is_number();
}

void take_larger(json& all, const json& one, const char* key) {
  if (is_number(one, key) && (!is_number(all, key) || all[key] < one[key])) all[key] = one[key];
}

// Joins the summaries of the nodes, in the order of their ranks. Returns null if one has not ended.
json joined_summary(const std::vector<json>& summaries) {
  for (const json& one : summaries)
    if (!one.is_object()) return nullptr;
  if (summaries.empty()) return nullptr;
  json all = summaries.front();
  for (std::size_t i = 1; i < summaries.size(); ++i) {
    const json& one = summaries[i];
    for (const char* key :
         {"wan_bytes", "wan_messages", "compute_utilisation", "samples", "waiting_s", "staleness"})
      if (one.contains(key)) {
        if (all.contains(key))
          add_to(all[key], one[key]);
        else
          all[key] = one[key];
      }
    for (const char* key : {"time_s", "real_s", "rounds"}) take_larger(all, one, key);
    for (const char* key : {"participation", "participation_of_live"})  // senior worker's
      if (is_number(one, key) && is_number(all, key) && one[key] < all[key]) all[key] = one[key];
    // The node that had the models scored knows the target's time first.
    const char* const kReached = "time_to_target_s";
    if (is_number(one, kReached) && (!is_number(all, kReached) || one[kReached] < all[kReached]))
      for (const char* key : {kReached, "target_after_s"})
        if (one.contains(key)) all[key] = one[key];
    for (const char* key : {"final_accuracy", "final_loss", "bits_per_byte"})
      if (!is_number(all, key) && is_number(one, key)) all[key] = one[key];
  }
  if (is_number(all, "compute_utilisation"))
    all["compute_utilisation"] =
        all["compute_utilisation"].get<double>() / double(summaries.size());
  if (is_number(all, "time_to_target_s")) all["stop_reason"] = "target";
  return all;
}

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

std::optional<double> number_in(const json& object, const char* key) {
  const auto at = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || at == object.end() || !at->is_number()) return std::nullopt;
  return at->get<double>();
}

std::string text_in(const json& object, const char* key) {
  const auto at = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || at == object.end() || !at->is_string()) return "";
  return at->get<std::string>();
}

std::optional<json> json_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  json value = run::parse_json(in);
  if (!value.is_object()) return std::nullopt;
  return value;
}

// Returns "exchange" for "wait_s" and "verdict" for "verdict_wait_s"; nothing for other kinds.
std::optional<std::string> cause_of(const std::string& kind) {
  constexpr std::string_view kEnd = "wait_s";
  if (!kind.ends_with(kEnd)) return std::nullopt;
  if (kind.size() == kEnd.size()) return "exchange";
  return kind.substr(0, kind.size() - kEnd.size() - 1);
}

using nlohmann::ordered_json;

bool has_same_keys(const ordered_json& a, const ordered_json& b) {
  if (a.size() != b.size()) return false;
  for (auto at = a.begin(); at != a.end(); ++at)
    if (!b.contains(at.key())) return false;
  return true;
}

class Changes {
 public:
  void add(const ordered_json& before, const ordered_json& after) {
    if (list_.size() > kMaxChanges || before == after) return;
    if (before.is_object() && after.is_object() && has_same_keys(before, after)) {
      for (auto at = after.begin(); at != after.end(); ++at)
        inside(at.key(), before[at.key()], at.value());
    } else if (before.is_array() && after.is_array() && !before.empty() &&
               before.size() <= after.size()) {
      add_list(before, after);
    } else {
      list_.push_back({path_, after});
    }
  }
  std::optional<ordered_json> take() {
    if (list_.size() > kMaxChanges) return std::nullopt;
    return std::move(list_);
  }

 private:
  void inside(const ordered_json& step, const ordered_json& before, const ordered_json& after) {
    path_.push_back(step);
    add(before, after);
    path_.erase(path_.size() - 1);
  }
  void add_list(const ordered_json& before, const ordered_json& after) {
    for (std::size_t i = 0; i < before.size(); ++i) inside(i, before[i], after[i]);
    if (before.size() == after.size()) return;
    ordered_json more = ordered_json::array();
    for (std::size_t i = before.size(); i < after.size(); ++i) more.push_back(after[i]);
    list_.push_back({path_, "+", std::move(more)});
  }

  ordered_json list_ = ordered_json::array(), path_ = ordered_json::array();
};

}  // namespace

RunReader::RunReader(std::string folder, std::vector<std::string> nodes)
    : folder_(std::move(folder)), nodes_of_(std::move(nodes)) {
  while (folder_.size() > 1 && folder_.ends_with('/')) folder_.pop_back();
}

void RunReader::read_job() {
  auto job = run::load_job(job_folder() + "/job.toml");
  job_read_ = true;
  sites_.clear();
  nodes_.clear();
  if (!job) return;  // another release, or a missing file: without settings
  name_ = job->job.name;
  sync_ = job->kind("sync");
  overlay_ = job->kind("overlay");
  transfer_ = job->kind("transfer");
  codec_ = job->kind("codec");
  outer_ = job->kind("outer");
  data_ = job->kind("data");
  max_rounds_ = double(job->stop.max_rounds);
  samples_per_round_ = double(run::samples_per_round(*job));
  target_ = data_ == "text" ? job->stop.target_bits_per_byte : job->stop.target_accuracy;
  for (const run::SiteTable& site : job->sites) {
    sites_.push_back(site.name);
    nodes_[site.name] = double(site.nodes);
  }
  settings_ = ordered_json::object();
  for (const run::ResolvedTable& table : run::resolved(*job))
    for (const run::ResolvedKey& key : table.keys)
      if (!key.local) settings_[fmt::format("[{}] {}", table.name, key.key)] = key.value;
}

// Reads the bytes sent so far from the status files, while there is no summary.
void RunReader::read_statuses() {
  if (node_.empty() && nodes_of_.empty()) node_ = site_of_folder(folder_);
  if (!summary_.is_null()) return;
  const double before = status_bytes_;
  status_bytes_ = 0;
  std::vector<std::string> folders = node_folders();
  if (nodes_of_.empty()) folders.push_back(folder_);
  for (const std::string& folder : folders) {
    const auto status = json_file(folder + "/status.json");
    if (!status) continue;
    status_bytes_ += number_in(*status, "wan_bytes").value_or(0);
    status_time_s_ = std::max(status_time_s_, number_in(*status, "time_s").value_or(0));
  }
  if (status_bytes_ != before) ++version_;
}

double RunReader::sent() const { return number_in(summary_, "wan_bytes").value_or(status_bytes_); }

// Returns the folders in which nodes of the run may write.
std::vector<std::string> RunReader::node_folders() const {
  if (!nodes_of_.empty()) return nodes_of_;
  std::vector<std::string> folders;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder_, code))
    if (folders.size() < kMaxLanes && entry.is_directory(code))
      folders.push_back(entry.path().string());
  std::sort(folders.begin(), folders.end());
  return folders;
}

void RunReader::read_summary() {
  std::error_code code;
  if (!nodes_of_.empty()) {
    std::vector<json> parts;
    for (const std::string& node : nodes_of_)
      parts.push_back(json_file(node + "/summary.json").value_or(nullptr));
    if (json all = joined_summary(parts); all != summary_) summary_ = std::move(all), ++version_;
    return;
  }
  if (!summary_.is_null() && !fs::exists(folder_ + "/summary.json", code)) {
    start_again();  // the run has started again
    job_read_ = false;
  }
  if (auto summary = json_file(folder_ + "/summary.json"); summary && *summary != summary_) {
    summary_ = std::move(*summary);
    ++version_;
  }
}

// Reads the run's own activity, or over sockets that of its nodes.
void RunReader::read_activity() {
  const std::string own = folder_ + "/activity.json";
  std::error_code code;
  std::vector<std::string> paths = {own};
  if (!nodes_of_.empty() || !fs::exists(own, code)) {
    paths.clear();
    for (const std::string& node : node_folders()) paths.push_back(node + "/activity.json");
  }
  bool changed = false;
  std::map<std::string, ActivityFile> files;
  for (const std::string& path : paths) {
    const auto written = fs::last_write_time(path, code);
    if (code) continue;
    ActivityFile& file = files[path];
    if (const auto before = activities_.find(path); before != activities_.end())
      file = std::move(before->second);
    if (file.written == written) continue;
    file.written = written;
    changed = true;
    if (auto json = json_file(path)) file.json = std::move(*json);
  }
  changed |= files.size() != activities_.size();
  activities_ = std::move(files);
  if (!changed) return;
  std::vector<json> parts;
  for (const auto& [path, file] : activities_) parts.push_back(file.json);
  json activity = paths.size() == 1 && paths[0] == own ? parts[0] : joined_activity(parts);
  if (activity == activity_) return;
  activity_ = std::move(activity);
  ++version_;
}

// Finds the run's own metrics. While `launch` has not merged them yet, finds those of its nodes.
void RunReader::find_streams() {
  std::error_code code;
  const std::string own = folder_ + "/metrics.jsonl";
  const bool whole = nodes_of_.empty() && fs::exists(own, code);
  if (whole && (streams_.size() != 1 || streams_[0].path != own)) {
    start_again();
    streams_ = {{own}};
  }
  if (whole) return;
  for (const std::string& node : node_folders()) {
    const std::string path = node + "/metrics.jsonl";
    const bool known = std::any_of(streams_.begin(), streams_.end(),
                                   [&](const Stream& stream) { return stream.path == path; });
    if (!known && streams_.size() < kMaxLanes && fs::exists(path, code)) streams_.push_back({path});
  }
}

void RunReader::start_again() {
  for (Stream& stream : streams_) stream.read = 0;
  scores_.clear();
  scored_.clear();
  waits_.clear();
  kinds_.clear();
  keep_every_ = 1;
  offered_ = 0;
  time_s_ = round_ = status_bytes_ = status_time_s_ = 0;
  summary_ = activity_ = nullptr;
  activities_.clear();
  ++version_;
}

// Reads whole lines only, because the last line may be incomplete. Returns false if the file is
// shorter than before.
bool RunReader::read_lines(Stream& stream) {
  std::error_code code;
  const std::uintmax_t size = fs::file_size(stream.path, code);
  if (code) return true;
  if (size < stream.read) return false;
  if (size == stream.read) return true;
  std::ifstream in(stream.path, std::ios::binary);
  in.seekg(std::streamoff(stream.read));
  for (std::string line; std::getline(in, line) && !in.eof();) {
    stream.read += line.size() + 1;
    const json event = run::parse_json(line);
    if (event.is_object()) add_event(event);
  }
  return true;
}

Status RunReader::refresh() {
  std::error_code code;
  if (!fs::exists(job_folder() + "/job.toml", code))
    return unavailable(fmt::format("{}: not the folder of a run: it has no job.toml", folder_));
  if (!job_read_) read_job();
  find_streams();
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (read_lines(streams_[i])) continue;
    start_again();  // started again with --force, or cut back to a checkpoint
    i = std::size_t(-1);
  }
  read_summary();
  read_statuses();
  read_activity();
  return Ok{};
}

void RunReader::add_score(const json& event, const json& values) {
  ScorePoint point;
  point.time_s = number_in(event, "time_s").value_or(0);
  point.round = number_in(event, "round").value_or(0);
  // All nodes write the score, each in its own file.
  const double rank = number_in(event, "rank").value_or(0);
  const auto before = scored_.find(rank);
  if (before != scored_.end() && point.round <= before->second) return;
  if (before != scored_.end() || scored_.size() < kMaxLanes) scored_[rank] = point.round;
  point.loss = number_in(values, "loss");
  point.score = number_in(values, data_ == "text" ? "bits_per_byte" : "accuracy");
  point.wan_bytes = number_in(values, "wan_bytes");
  if (offered_++ % keep_every_ != 0) {
    if (!scores_.empty()) scores_.back() = point;  // the newest point is always kept
    return;
  }
  scores_.push_back(point);
  if (scores_.size() < kMaxScores) return;
  for (std::size_t i = 0; 2 * i < scores_.size(); ++i) scores_[i] = scores_[2 * i];
  scores_.resize((scores_.size() + 1) / 2);
  keep_every_ *= 2;
}

void RunReader::add_event(const json& event) {
  ++version_;
  const std::string kind = text_in(event, "kind"), site = text_in(event, "site");
  const double time = number_in(event, "time_s").value_or(0);
  const json values = event.contains("values") ? event["values"] : json();
  time_s_ = std::max(time_s_, time);
  round_ = std::max(round_, number_in(event, "round").value_or(0));
  if (kinds_.size() < kMaxLanes || kinds_.contains(kind)) ++kinds_[kind];
  if (kind == "score") return add_score(event, values);
  const auto cause = cause_of(kind);
  const auto value = number_in(values, "value");
  if (!cause || !value || *value <= 0) return;
  const Lane lane{site, *cause};
  if (!waits_.contains(lane) && waits_.size() >= kMaxLanes) return;
  // In a long run, one logged wait stands for several (run/metrics.h). Its duration counts for each
  // of them.
  const double waits = std::max(1.0, number_in(event, "stands_for").value_or(1));
  waits_[lane].add(std::max(0.0, time - waits * *value), time);
}

double RunReader::bytes_at(const ScorePoint& point) const {
  if (point.wan_bytes) return *point.wan_bytes;
  const double end = number_in(summary_, "time_s").value_or(std::max(time_s_, status_time_s_));
  return end > 0 ? sent() * point.time_s / end : 0;  // assumes a constant rate
}

ordered_json RunReader::score_json() const {
  ordered_json scores = {{"time_s", json::array()},  {"round", json::array()},
                         {"samples", json::array()}, {"wan_bytes", json::array()},
                         {"loss", json::array()},    {"score", json::array()}};
  std::vector<ScorePoint> points = scores_;
  if (streams_.size() > 1)  // the points are grouped by node
    std::stable_sort(points.begin(), points.end(),
                     [](const ScorePoint& a, const ScorePoint& b) { return a.time_s < b.time_s; });
  for (const ScorePoint& point : points) {
    scores["time_s"].push_back(point.time_s);
    scores["round"].push_back(point.round);
    scores["samples"].push_back(point.round * samples_per_round_);
    scores["wan_bytes"].push_back(bytes_at(point));
    scores["loss"].push_back(run::json_of(point.loss));
    scores["score"].push_back(run::json_of(point.score));
  }
  return scores;
}

// Returns the shares of each bin, in thousandths, for one node of the site.
ordered_json RunReader::lane_json() const {
  ordered_json lanes = ordered_json::array();
  for (const auto& [lane, bins] : waits_) {
    TimeBins wide = bins;
    wide.cover(time_s_);
    const auto nodes = nodes_.find(lane.site);
    const double whole =
        wide.width_s() * (nodes == nodes_.end() ? 1 : std::max(1.0, nodes->second));
    json shares = json::array();
    const auto count = std::min(TimeBins::kBins, std::size_t(time_s_ / wide.width_s()) + 1);
    for (std::size_t i = 0; i < count; ++i)
      shares.push_back(int(1000 * std::min(1.0, wide.sums()[i] / whole)));
    lanes.push_back({{"site", lane.site},
                     {"cause", lane.cause},
                     {"bin_s", wide.width_s()},
                     {"shares", std::move(shares)}});
  }
  return lanes;
}

// Returns the sites whose folders were read, if others are missing; "": the run is complete.
std::string RunReader::told_by() const {
  if (nodes_of_.empty()) return node_ == kAllSites ? "" : node_;
  std::set<std::string> told;
  for (const std::string& node : nodes_of_) told.insert(site_of_folder(node));
  if (told.size() >= sites_.size()) return "";
  return fmt::format("{}", fmt::join(told, ", "));
}

// Returns the clock of the run's times: "virtual" or "real"; "": unknown.
std::string RunReader::clock() const {
  const auto told = [](const ScorePoint& point) { return point.wan_bytes.has_value(); };
  // During a run, only the simulator knows the bytes that all sites have sent.
  if (node_ == kAllSites || std::any_of(scores_.begin(), scores_.end(), told)) return "virtual";
  const bool of_nodes = !activities_.empty() && !activities_.contains(folder_ + "/activity.json");
  return scores_.empty() && node_.empty() && !of_nodes ? "" : "real";
}

ordered_json RunReader::data() const {
  const std::string label = fs::path(folder_).filename().string();
  ordered_json run = {
      {"label", label},
      {"folder", folder_},
      {"name", name_},
      {"sync", sync_},
      {"overlay", overlay_},
      {"transfer", transfer_},
      {"codec", codec_},
      {"outer", outer_},
      {"score_unit", data_ == "text" ? "bits per byte" : "accuracy"},
      {"target", run::json_of(target_)},
      {"clock", clock()},
      {"of_site", told_by()},
      {"time_s", number_in(summary_, "time_s").value_or(time_s_)},
      {"round", round_},
      {"wan_bytes", sent()},
      {"max_rounds", max_rounds_ < 0x1p53 ? ordered_json(max_rounds_) : ordered_json(nullptr)},
      {"sites", sites_},
      {"scores", score_json()},
      {"waits", lane_json()}};
  run["summary"] = summary_;
  run["activity"] = activity_;
  run["settings"] = settings_;
  return run;
}

std::string site_of_folder(const std::string& folder) {
  const auto status = json_file(folder + "/status.json");
  return status ? text_in(*status, "site") : "";
}

std::string parts_text(const ordered_json& run) {
  std::string text = text_in(run, "sync") + " over " + text_in(run, "overlay");
  if (const std::string transfer = text_in(run, "transfer");
      !transfer.empty() && transfer != "reliable")
    text += ", " + transfer;
  if (const std::string codec = text_in(run, "codec"); !codec.empty() && codec != "fp32")
    text += ", " + codec;
  return text;
}

std::optional<ordered_json> changes_of(const ordered_json& before, const ordered_json& after) {
  Changes changes;
  changes.add(before, after);
  return changes.take();
}

}  // namespace longhaul::report
