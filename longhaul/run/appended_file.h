#pragma once
// A file of a run that grows at its end while others read it: metrics.jsonl, TensorBoard's events.
// On a full disk pieces wait in memory; flush() and sync() try again. A file that is removed while
// it grows begins again. One thread calls it.
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "longhaul/base/result.h"
#include "longhaul/lab/descriptor.h"
#include "longhaul/run/atomic_file.h"

namespace longhaul::run {

class AppendedFile {
  static constexpr std::size_t kBlock = 64 << 10;  // written at once

 public:
  static constexpr std::size_t kMostPending = 16u << 20;

  // Keeps the first `keep` bytes of an existing file and appends. A file shorter than that is an
  // Error. `head`: what a file without any begins with.
  static Result<AppendedFile> open(const std::string& path, std::uint64_t keep,
                                   std::string head = "") {
    const int flags = O_WRONLY | O_CLOEXEC | (keep > 0 ? 0 : O_CREAT | O_TRUNC);
    lab::Descriptor file(::open(path.c_str(), flags, 0644));
    if (!file) return io_failed(path, "opening it for writing");
    std::error_code code;
    const auto size = std::filesystem::file_size(path, code);
    if (code || size < keep)
      return malformed(fmt::format("{}: shorter than the {} bytes to keep", path, keep));
    if (::ftruncate(file.get(), off_t(keep)) != 0 || ::lseek(file.get(), 0, SEEK_END) < 0)
      return io_failed(path, "truncating it");
    return AppendedFile(path, std::move(file), keep, std::move(head));
  }

  AppendedFile(AppendedFile&&) = default;
  ~AppendedFile() { (void)flush(); }

  // The whole piece or, when too much waits, nothing of it.
  void append(std::string_view piece) {
    if (pending_.size() >= kBlock) (void)flush();
    if (pending_.size() + piece.size() > kMostPending) {
      ++dropped_;
    } else {
      pending_ += piece;
    }
  }

  // Ok: everything so far can be read by others. The file may end with a part of a piece otherwise.
  Status flush() {
    LH_TRY(renew_if_removed());
    std::size_t done = 0;
    while (done < pending_.size()) {
      const ssize_t wrote = ::write(file_.get(), pending_.data() + done, pending_.size() - done);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) break;
      done += std::size_t(wrote);
    }
    const Status flushed = done == pending_.size() ? Status(Ok{}) : io_failed(path_, "writing it");
    pending_.erase(0, done);
    written_ += done;
    return flushed;
  }

  // Ok: everything so far is on disk.
  Status sync() {
    LH_TRY(flush());
    if (::fsync(file_.get()) != 0) return io_failed(path_, "forcing it to disk");
    return Ok{};
  }

  std::uint64_t bytes() const { return written_ + pending_.size(); }
  std::uint64_t written() const { return written_; }  // others can read these
  std::uint64_t dropped() const { return dropped_; }  // pieces, as too many waited
  const std::string& path() const { return path_; }

 private:
  AppendedFile(std::string path, lab::Descriptor file, std::uint64_t written, std::string head)
      : path_(std::move(path)), head_(std::move(head)), file_(std::move(file)), written_(written) {
    if (written == 0) pending_ = head_;
  }
  // The old contents are lost.
  Status renew_if_removed() {
    if (::access(path_.c_str(), F_OK) == 0 || errno != ENOENT) return Ok{};
    std::error_code code;
    std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), code);
    lab::Descriptor file(::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL, 0644));
    if (!file) return io_failed(path_, "creating it again");
    file_ = std::move(file);
    pending_.insert(0, head_);
    written_ = 0;
    return Ok{};
  }

  std::string path_, head_;
  lab::Descriptor file_;
  std::string pending_;
  std::uint64_t written_ = 0, dropped_ = 0;
};

}  // namespace longhaul::run
