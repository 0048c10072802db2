#include "longhaul/run/model_files.h"

#include <cmath>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/run/atomic_file.h"

namespace longhaul::run {

bool is_better(const Job& job, const Evaluation& now, const std::optional<BestScore>& before) {
  if (!std::isfinite(now.loss)) return false;
  if (!before) return true;
  if (job.stop.target_loss()) return now.loss < before->loss;
  if (now.accuracy != before->accuracy) return now.accuracy > before->accuracy;
  return now.loss < before->loss;
}

std::string model_extension(const Job& job) { return job.kind("model") == "own" ? "f32" : "pt"; }

Workload::Score ModelFiles::keeping_best(Workload::Score score) {
  if (!score || folder_.empty()) return score;
  return [this, score = std::move(score)](std::span<const float> model) -> Result<Evaluation> {
    auto evaluation = score(model);
    if (!evaluation || !is_better(job_, *evaluation, best_)) return evaluation;
    best_ = BestScore{0, evaluation->loss, evaluation->accuracy};
    const Status saved = workload_.save(folder_, model, "best");
    has_best_ = bool(saved);
    const std::lock_guard lock(mutex_);
    newest_ = saved;
    return evaluation;
  };
}

std::optional<Status> ModelFiles::kept_best() {
  const std::lock_guard lock(mutex_);
  return std::exchange(newest_, std::nullopt);
}

Status ModelFiles::end(std::span<const float> params, bool reached_target) const {
  if (folder_.empty() || workload_.phantom()) return Ok{};
  return kept_at_the_end(write_last(params, reached_target));
}

namespace {

// What the numbers of a table mean to who uses model.pt: classes in the order of the outputs, and
// columns in the order of the inputs. "": other data, whose page says it.
std::string data_json(const learn::Split& data) {
  if (!data.train || data.train->columns.empty()) return "";
  nlohmann::ordered_json columns = nlohmann::json::array();
  for (std::size_t i = 0; i < data.train->columns.size(); ++i) {
    nlohmann::ordered_json column = {{"name", data.train->columns[i]}};
    if (!data.scales.empty()) {
      column["mean"] = data.scales[i].mean;
      column["std"] = data.scales[i].std;
    }
    columns.push_back(std::move(column));
  }
  nlohmann::ordered_json json = {{"classes", data.train->names}, {"columns", columns}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

Status ModelFiles::write_last(std::span<const float> params, bool reached_target) const {
  if (const std::string meaning = data_json(workload_.data()); !meaning.empty())
    LH_TRY(write_atomically(folder_ + "/data.json", meaning));
  LH_TRY(workload_.save(folder_, params, "last"));
  const std::string extension = model_extension(job_);
  std::string result = fmt::format("{}/best.{}", folder_, extension);
  if (!reached_target || !has_best_ || !std::filesystem::exists(result))
    result = fmt::format("{}/last.{}", folder_, extension);
  return copy_into_place(result, fmt::format("{}/model.{}", folder_, extension));
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

}  // namespace longhaul::run
