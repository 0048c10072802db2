#include "longhaul/run/export.h"

#include <filesystem>

#include <fmt/format.h>

#include "longhaul/run/checkpoint.h"
#include "longhaul/run/met_facts.h"
#include "longhaul/run/model_files.h"
#include "longhaul/run/run_folder.h"

namespace longhaul::run {
namespace {

namespace fs = std::filesystem;

Result<Checkpoint> find_checkpoint(const std::string& path, const std::string& folder) {
  if (!fs::is_directory(path)) return read_checkpoint(path);
  auto newest = Checkpoints(folder + "/checkpoints").newest();
  if (!newest) return newest.error();
  if (*newest) return **std::move(newest);
  return unavailable(fmt::format(
      "{}: no checkpoint in {}/checkpoints; over sockets each node has its own: RUN/SITE", path,
      folder));
}

}  // namespace

Result<Exported> export_checkpoint(const std::string& path, const std::string& out) {
  const bool is_folder = fs::is_directory(path);
  if (!is_folder && !fs::exists(path))
    return unavailable(fmt::format("{}: no such checkpoint or run folder", path));
  const std::string folder =
      is_folder ? path : fs::absolute(path).parent_path().parent_path().string();
  LH_LET(job, job_of_run(folder));
  LH_LET(checkpoint, find_checkpoint(path, folder));
  if (checkpoint.model.empty())
    return invalid(path + ": holds no model: its node has no learner, or the model is a phantom");
  LH_LET(workload, workload_of_run(job, folder));
  if (checkpoint.model.size() != workload.whole_layout()->size())
    return malformed(fmt::format("{}: holds {} values, but the job's model has {}", path,
                                 checkpoint.model.size(), workload.whole_layout()->size()));
  const std::string file = out.empty() ? folder + "/exported." + model_extension(job) : out;
  LH_TRY(workload.save(file, checkpoint.model));
  return Exported{file, checkpoint.round, checkpoint.model.size()};
}

}  // namespace longhaul::run
