#include "longhaul/run/recording.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "longhaul/run/atomic_file.h"
#include "longhaul/run/job/dump.h"

namespace longhaul::run {
namespace {

namespace fs = std::filesystem;

std::string file_of(const std::string& folder, const Member& member, unsigned session) {
  return fmt::format("{}/recordings/{}-{}-{}.rec", folder, member.site, member.rank_in_site,
                     session);
}

record::Header header_of(const Job& job, const Workload& workload, const Place& place,
                         record::Mode mode) {
  record::Header header;
  header.cpu = cpu_name();
  header.job = to_toml(job);
  header.job_hash = job_hash(job);
  header.seed = job.job.seed;
  header.mode = mode;
  header.rank = place.self;
  header.nodes = place.size();
  header.site = place.me().site;
  header.rank_in_site = place.me().rank_in_site;
  header.incarnation = place.me().incarnation;
  header.learner = place.me().is(Role::worker);
  header.phantom = workload.phantom();
  header.training_samples = workload.training_samples();
  header.layout = workload.layout();
  return header;
}

}  // namespace

// Straight to the system: what was written is there when the process is killed.
class Recording::FileSink final : public record::Sink {
 public:
  FileSink(std::string path, int file) : path_(std::move(path)), file_(file) {}
  ~FileSink() override { ::close(file_); }
  Status write(std::span<const std::byte> bytes) override { return write_all(file_, bytes, path_); }

 private:
  const std::string path_;
  const int file_;
};

Recording::Recording(std::string path) : path_(std::move(path)) {}
Recording::~Recording() = default;

Result<std::unique_ptr<Recording>> Recording::open(const std::string& folder, const Job& job,
                                                   const Workload& workload, const Place& place,
                                                   record::Mode mode) {
  LH_TRY(make_folder(folder + "/recordings"));
  unsigned session = 1;
  int file = -1;
  do {
    file = ::open(file_of(folder, place.me(), session).c_str(),
                  O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  } while (file < 0 && errno == EEXIST && ++session < 1000000);
  const std::string path = file_of(folder, place.me(), session);
  if (file < 0) return io_failed(path, "creating it");
  std::unique_ptr<Recording> recording(new Recording(path));
  recording->sink_ = std::make_unique<FileSink>(path, file);
  recording->recorder_ =
      std::make_unique<record::Recorder>(header_of(job, workload, place, mode), *recording->sink_);
  return recording;
}

Status Recording::finish() { return recorder_->finish(); }

std::vector<std::string> recordings_of(const std::string& folder, const Member& member) {
  std::vector<std::string> paths;
  for (unsigned session = 1;; ++session) {
    std::string path = file_of(folder, member, session);
    std::error_code code;
    if (!fs::exists(path, code)) return paths;
    paths.push_back(std::move(path));
  }
}

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  std::string name = "an unknown CPU", vectors;
  for (std::string line; std::getline(in, line) && !line.empty();) {  // the first core
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    if (line.starts_with("model name")) name = line.substr(colon + 2);
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;
    const std::string flags = line.substr(colon + 1) + " ";
    for (const char* set : {"avx512f", "avx2", "avx", "asimd"})
      if (vectors.empty() && flags.find(fmt::format(" {} ", set)) != std::string::npos)
        vectors = fmt::format(", {}", set);
  }
  return name + vectors;
}

}  // namespace longhaul::run
