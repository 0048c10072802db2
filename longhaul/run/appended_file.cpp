#include "longhaul/run/appended_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include <fmt/format.h>

#include "longhaul/run/atomic_file.h"

namespace longhaul::run {
namespace {

constexpr std::size_t kBlock = 64 << 10;  // written at once

}  // namespace

AppendedFile::Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

Result<AppendedFile> AppendedFile::open(const std::string& path, std::uint64_t keep,
                                        std::string head) {
  const int flags = O_WRONLY | O_CLOEXEC | (keep > 0 ? 0 : O_CREAT | O_TRUNC);
  Descriptor file(::open(path.c_str(), flags, 0644));
  if (file.number() < 0) return io_failed(path, "opening it for writing");
  std::error_code code;
  const auto size = std::filesystem::file_size(path, code);
  if (code || size < keep)
    return malformed(fmt::format("{}: shorter than the {} bytes to keep", path, keep));
  if (::ftruncate(file.number(), off_t(keep)) != 0 || ::lseek(file.number(), 0, SEEK_END) < 0)
    return io_failed(path, "truncating it");
  return AppendedFile(path, std::move(file), keep, std::move(head));
}

void AppendedFile::append(std::string_view piece) {
  if (pending_.size() >= kBlock) (void)flush();
  if (pending_.size() + piece.size() > kMostPending) {
    ++dropped_;
  } else {
    pending_ += piece;
  }
}

// The old contents are lost.
Status AppendedFile::renew_if_removed() {
  if (::access(path_.c_str(), F_OK) == 0 || errno != ENOENT) return Ok{};
  std::error_code code;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), code);
  Descriptor file(::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL, 0644));
  if (file.number() < 0) return io_failed(path_, "creating it again");
  file_ = std::move(file);
  pending_.insert(0, head_);
  written_ = 0;
  return Ok{};
}

Status AppendedFile::flush() {
  LH_TRY(renew_if_removed());
  std::size_t done = 0;
  while (done < pending_.size()) {
    const ssize_t wrote = ::write(file_.number(), pending_.data() + done, pending_.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) break;
    done += std::size_t(wrote);
  }
  const Status flushed = done == pending_.size() ? Status(Ok{}) : io_failed(path_, "writing it");
  pending_.erase(0, done);
  written_ += done;
  return flushed;
}

Status AppendedFile::sync() {
  LH_TRY(flush());
  if (::fsync(file_.number()) != 0) return io_failed(path_, "forcing it to disk");
  return Ok{};
}

}  // namespace longhaul::run
