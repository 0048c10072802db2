#include "longhaul/run/run_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>

#include "longhaul/run/atomic_file.h"
#include "longhaul/run/folder_lock.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/status_file.h"

namespace longhaul::run {
namespace {

namespace fs = std::filesystem;

// job.toml is last, because the folder counts as a run folder while it exists.
constexpr const char* kOurFiles[] = {
    "metrics.jsonl",    "activity.json", "summary.json", "status.json",     "model.pt",
    "checkpoints",      "recordings",    "lab.json",     "lab.json.router", "index.sqlite",
    "index.sqlite-wal", "tensorboard",   "api.json",     "best.pt",         "last.pt",
    "best.f32",         "last.f32",      "model.f32",    "data.json",       "samples.bin",
    "facts.bin",        "votes.bin",     "job.toml"};
// The files of a run are for its user and group; a stricter umask stays.
constexpr mode_t kOthersMask = 0027;

Status check_same_job(const std::string& path, const Job& job) {
  LH_LET(before, job_of_run(path));
  if (auto changed = difference(before, job, /*resumes=*/true))
    return invalid(
        fmt::format("{}: the job changed since the run began: {}; undo that, or start again with "
                    "--force ([stop], [report] and [run] may change)",
                    path, *changed));
  return Ok{};
}

// Returns true if the folder is not empty. Ignores the job.toml of a run killed at its start.
bool is_used(const std::string& path) {
  std::error_code code;
  const std::string begun = fmt::format("job.toml{}", kTemporary);
  for (const auto& entry : fs::directory_iterator(path, code))
    if (entry.path().filename() != begun && entry.path().filename() != FolderLock::kFile)
      return true;
  return false;
}

// Removes the files of a session that was killed while it wrote.
void remove_temporaries(const std::string& path) {
  std::error_code code;
  for (const char* name : kOurFiles)
    fs::remove(fmt::format("{}/{}{}", path, name, kTemporary), code);
  for (const auto& entry : fs::directory_iterator(path + "/checkpoints", code))
    if (entry.path().extension() == kTemporary) fs::remove(entry.path(), code);
}

void remove_ours(const std::string& path) {
  std::error_code code;
  for (const char* name : kOurFiles) fs::remove_all(fmt::format("{}/{}", path, name), code);
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
  if (fs::exists(path + "/" + FolderLock::kFile, code))
    if (FolderLock lock(path); !lock.take()) return FolderLock::in_use(path, lock.owner());
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
  const bool is_new = !is_used(path);
  ::umask(::umask(kOthersMask) | kOthersMask);
  LH_TRY(make_folder(path));
  auto lock = std::make_shared<FolderLock>(path);
  if (!lock->take()) return FolderLock::in_use(path, lock->owner());
  lock->sign();
  remove_temporaries(path);
  RunFolder folder(std::move(path), to_toml(job), is_new, std::move(lock));
  if (existing != ExistingFolder::resume) remove_ours(folder.path());
  // Also for a resumed run: [stop], [report] and local keys may have changed.
  LH_TRY(write_atomically(folder.file("job.toml"), folder.job_));
  return folder;
}

Result<bool> RunFolder::restore() const {
  std::error_code code;
  if (fs::exists(file("job.toml"), code)) return false;
  fs::create_directories(path_, code);
  if (code)
    return Error{Error::Kind::io,
                 fmt::format("{}: cannot be made again: {}", path_, code.message())};
  lock_->open_again(path_);
  if (!lock_->take()) return FolderLock::in_use(path_, lock_->owner());
  lock_->sign();
  LH_TRY(write_atomically(file("job.toml"), job_));
  return true;
}

void RunFolder::discard(const std::vector<std::string>& of_nodes) const {
  if (!is_new_) return;
  std::error_code code;
  for (const std::string& node : of_nodes) fs::remove_all(node, code);
  remove_temporaries(path_);
  remove_ours(path_);
  fs::remove(file(FolderLock::kFile), code);
  fs::remove(path_, code);  // if it holds no other files
}

Status RunFolder::clear(const std::string& path) {
  if (FolderLock lock(path); !lock.take()) return FolderLock::in_use(path, lock.owner());
  remove_temporaries(path);
  remove_ours(path);
  return Ok{};
}

}  // namespace longhaul::run
