#include "longhaul/run/run_folder.h"

#include <filesystem>

#include <fmt/format.h>

#include "longhaul/run/atomic_file.h"
#include "longhaul/run/job/dump.h"

namespace longhaul::run {
namespace {

namespace fs = std::filesystem;

// job.toml last: while it is there, the folder is known as ours.
constexpr const char* kOurFiles[] = {"metrics.jsonl",    "activity.json",   "summary.json",
                                     "model.pt",         "checkpoints",     "recordings",
                                     "lab.json",         "lab.json.router", "index.sqlite",
                                     "index.sqlite-wal", "api.json",        "job.toml"};

Status check_same_job(const std::string& path, const Job& job) {
  auto before = job_of_run(path);
  if (!before) return before.error();
  if (auto changed = difference(*before, job))
    return invalid(
        fmt::format("{}: the job changed since the run began: {}; undo that, or start again with "
                    "--force",
                    path, *changed));
  return Ok{};
}

// Whether something is in it; not so the job.toml of a run that was killed while it began.
bool is_used(const std::string& path) {
  std::error_code code;
  const std::string begun = fmt::format("job.toml{}", kTemporary);
  for (const auto& entry : fs::directory_iterator(path, code))
    if (entry.path().filename() != begun) return true;
  return false;
}

// What a session that was killed while it wrote has left.
void remove_temporaries(const std::string& path) {
  std::error_code code;
  for (const char* name : kOurFiles)
    fs::remove(fmt::format("{}/{}{}", path, name, kTemporary), code);
  for (const auto& entry : fs::directory_iterator(path + "/checkpoints", code))
    if (entry.path().extension() == kTemporary) fs::remove(entry.path(), code);
}

}  // namespace

Result<Job> job_of_run(const std::string& folder) {
  if (!fs::is_directory(folder)) return unavailable(fmt::format("{}: no such run folder", folder));
  const std::string file = folder + "/job.toml";
  if (!fs::exists(file))
    return invalid(fmt::format("{}: not a run folder: it has no job.toml", folder));
  return load_job(file);
}

ExistingFolder RunFolder::resolve(const std::string& path, ExistingFolder existing) {
  std::error_code code;
  if (existing != ExistingFolder::resume_or_begin) return existing;
  return fs::exists(path + "/job.toml", code) ? ExistingFolder::resume : ExistingFolder::refuse;
}

Status RunFolder::check(const std::string& path, const Job& job, ExistingFolder existing) {
  std::error_code code;
  const bool there = fs::exists(path, code);
  if (there && !fs::is_directory(path, code))
    return invalid(fmt::format("{}: is not a folder; choose another with --out", path));
  const bool used = is_used(path);
  existing = resolve(path, existing);
  if (existing == ExistingFolder::resume) {
    if (!used) return unavailable(fmt::format("{}: nothing to resume; leave --resume out", path));
    return check_same_job(path, job);
  }
  if (used && !fs::exists(path + "/job.toml", code))
    return invalid(
        fmt::format("{}: holds files but no run (no job.toml); choose another with --out", path));
  if (used && existing == ExistingFolder::refuse)
    return invalid(fmt::format(
        "{}: exists already; --resume continues it, --force replaces it, --out DIR writes "
        "elsewhere",
        path));
  return Ok{};
}

Result<RunFolder> RunFolder::open(std::string path, const Job& job, ExistingFolder existing) {
  LH_TRY(check(path, job, existing));
  existing = resolve(path, existing);
  remove_temporaries(path);
  if (existing == ExistingFolder::resume) return RunFolder(std::move(path));
  std::error_code code;
  for (const char* name : kOurFiles) fs::remove_all(path + "/" + name, code);
  fs::create_directories(path, code);
  if (code)
    return Error{Error::Kind::io, fmt::format("{}: cannot be created: {}", path, code.message())};
  RunFolder folder(std::move(path));
  LH_TRY(write_atomically(folder.file("job.toml"), to_toml(job)));
  return folder;
}

}  // namespace longhaul::run
