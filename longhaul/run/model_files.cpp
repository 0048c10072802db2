#include "longhaul/run/model_files.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/run/atomic_file.h"

namespace longhaul::run {
namespace {

using nlohmann::ordered_json;

const std::map<learn::Task, std::string> kTasks = {{learn::Task::classification, "classification"},
                                                   {learn::Task::regression, "regression"},
                                                   {learn::Task::multilabel, "labels"}};

ordered_json column_json(const learn::Split& data, std::size_t i) {
  ordered_json column = {{"name", data.train->columns[i]}};
  if (!data.scales.empty()) {
    column["mean"] = data.scales[i].mean;
    column["std"] = data.scales[i].std;
  }
  if (!data.fills.empty()) column["fill"] = data.fills[i];
  if (data.statistics.empty()) return column;
  const learn::ColumnFacts& facts = data.statistics[i];
  column["count"] = facts.count;
  column["missing"] = facts.missing;
  column["sum"] = facts.sum.value();
  column["sum_of_squares"] = facts.squares.value();
  column["min"] = facts.least;
  column["max"] = facts.most;
  return column;
}

}  // namespace

bool is_better(const Job& job, const Evaluation& now, const std::optional<BestScore>& before) {
  if (!std::isfinite(now.loss)) return false;
  if (!before) return true;
  if (job.stop.target_loss()) return now.loss < before->loss;
  if (now.accuracy != before->accuracy) return now.accuracy > before->accuracy;
  return now.loss < before->loss;
}

std::string model_extension(const Job& job) { return job.kind("model") == "own" ? "f32" : "pt"; }

Workload::NodeScore ModelFiles::keeping_best(Workload::NodeScore score) {
  if (!score || folder_.empty()) return score;
  return [this, score = std::move(score)](Rank rank,
                                          std::span<const float> model) -> Result<Evaluation> {
    auto evaluation = score(rank, model);
    if (!evaluation || !is_better(job_, *evaluation, best_)) return evaluation;
    best_ = BestScore{0, evaluation->loss, evaluation->accuracy};
    save_best(model);
    return evaluation;
  };
}

std::string ModelFiles::file(std::string_view name) const {
  return fmt::format("{}/{}.{}", folder_, name, model_extension(job_));
}

void ModelFiles::save_best(std::span<const float> model) {
  const std::lock_guard one(saving_);
  const Status saved = workload_.save(file("best"), model);
  has_best_ = bool(saved);
  const std::lock_guard lock(mutex_);
  newest_ = saved;
  tried_ = Clock::now();
  unwritten_ =
      saved ? nullptr : std::make_shared<const std::vector<float>>(model.begin(), model.end());
}

// Unless a better one has been written meanwhile.
void ModelFiles::save_best_again() {
  const std::lock_guard one(saving_);
  Snapshot model;
  {
    const std::lock_guard lock(mutex_);
    model = unwritten_;
  }
  if (!model) return;
  const Status saved = workload_.save(file("best"), *model);
  has_best_ = bool(saved);
  const std::lock_guard lock(mutex_);
  newest_ = saved;
  tried_ = Clock::now();
  if (saved) unwritten_.reset();
}

// A server's reports get no score, nor those that the senior worker leaves out.
void ModelFiles::reported(Round round, Snapshot model) {
  if (folder_.empty()) return;
  reported_[round] = std::move(model);
  while (reported_.size() > kMostReported) reported_.erase(reported_.begin());
}

void ModelFiles::summed(Round round, const Evaluation& evaluation) {
  const auto found = reported_.find(round);
  const Snapshot model = found == reported_.end() ? nullptr : found->second;
  reported_.erase(reported_.begin(), reported_.upper_bound(round));
  if (folder_.empty() || !is_better(job_, evaluation, best_)) return;
  best_ = BestScore{round, evaluation.loss, evaluation.accuracy};
  if (writing_.valid()) writing_.wait();
  has_best_ = false;  // this node may have no copy of it
  if (model) writing_ = std::async(std::launch::async, [this, model] { save_best(*model); });
}

bool ModelFiles::has_best() const {
  if (writing_.valid()) writing_.wait();
  return has_best_ && !folder_.empty() && std::filesystem::exists(file("best"));
}

std::optional<Status> ModelFiles::look() {
  const std::lock_guard lock(mutex_);
  const bool idle = !writing_.valid() || writing_.wait_for(kAgain * 0) == std::future_status::ready;
  if (unwritten_ && idle && Clock::now() > tried_ + kAgain)
    writing_ = std::async(std::launch::async, [this] { save_best_again(); });
  return std::exchange(newest_, std::nullopt);
}

Status ModelFiles::end(std::span<const float> params, bool reached_target) {
  if (folder_.empty() || workload_.phantom()) return Ok{};
  return kept_at_the_end(write_last(params, reached_target));
}

Status ModelFiles::write_last(std::span<const float> params, bool reached_target) {
  if (const std::string meaning = data_json(workload_.data()); !meaning.empty())
    LH_TRY(write_atomically(folder_ + "/data.json", meaning));
  LH_TRY(workload_.save(file("last"), params));
  if (writing_.valid()) writing_.wait();
  save_best_again();
  if (unwritten_) return *newest_;
  return copy_into_place(file(reached_target && has_best() ? "best" : "last"), file("model"));
}

Status copy_into_place(const std::string& from, const std::string& to) {
  namespace fs = std::filesystem;
  std::error_code code;
  const std::string temporary = to + std::string(kTemporary);
  fs::remove(temporary, code);
  fs::create_hard_link(from, temporary, code);
  if (code) fs::copy_file(from, temporary, code);
  if (!code) fs::rename(temporary, to, code);
  std::error_code none;
  fs::remove(temporary, none);  // renaming one file onto another name of it leaves both
  if (code) return unavailable(fmt::format("cannot copy {} to {}: {}", from, to, code.message()));
  return Ok{};
}

std::string data_json(const learn::Split& data) {
  if (!data.train || data.train->columns.empty()) return "";
  const learn::DataSet& train = *data.train;
  ordered_json columns = nlohmann::json::array(), categories = nlohmann::json::array();
  for (std::size_t i = 0; i < train.columns.size(); ++i) columns.push_back(column_json(data, i));
  for (const learn::Categories& one : train.categories)
    categories.push_back({{"column", one.column}, {"values", one.values}, {"first", one.first}});
  ordered_json json = {{"task", kTasks.at(train.shape.task)},
                       {"targets", train.target_columns},
                       {"outputs", train.shape.outputs},
                       {"classes", train.names},
                       {"columns", columns}};
  if (!train.categories.empty()) json["categories"] = categories;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Result<DataMeaning> read_data_file(const std::string& folder) {
  const std::string path = folder + "/data.json";
  const auto bytes = read_file(path);
  if (!bytes)
    return unavailable(path +
                       ": no such file; is this the folder of a run of csv data that has ended?");
  try {
    const auto json =
        nlohmann::json::parse(reinterpret_cast<const char*>(bytes->data()),
                              reinterpret_cast<const char*>(bytes->data()) + bytes->size());
    DataMeaning meaning;
    learn::DataSet& like = meaning.like;
    const std::string said = json.at("task").get<std::string>();
    const auto task = std::ranges::find(kTasks, said, [](const auto& one) { return one.second; });
    if (task == kTasks.end()) return malformed(path + ": \"task\" says " + said);
    like.shape.task = task->first;
    like.shape.outputs = json.at("outputs").get<std::int64_t>();
    like.names = json.at("classes").get<std::vector<std::string>>();
    like.target_columns = json.at("targets").get<std::vector<std::string>>();
    for (const auto& column : json.at("columns")) {
      like.columns.push_back(column.at("name").get<std::string>());
      if (column.contains("std"))
        meaning.scales.push_back({column.at("mean").get<double>(), column.at("std").get<double>()});
      if (column.contains("fill")) meaning.fills.push_back(column.at("fill").get<double>());
    }
    for (const auto& one : json.value("categories", nlohmann::json::array()))
      like.categories.push_back({one.at("column").get<std::string>(),
                                 one.at("values").get<std::vector<std::string>>(),
                                 one.at("first").get<std::size_t>()});
    like.shape.sample = {std::int64_t(like.columns.size())};
    const bool whole = (meaning.scales.empty() || meaning.scales.size() == like.columns.size()) &&
                       (meaning.fills.empty() || meaning.fills.size() == like.columns.size());
    if (!whole || like.columns.empty()) return malformed(path + ": is damaged");
    return meaning;
  } catch (const nlohmann::json::exception&) {
    return malformed(path + ": is damaged, or of an earlier release");
  }
}

}  // namespace longhaul::run
