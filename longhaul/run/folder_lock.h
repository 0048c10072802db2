#pragma once
// The lock of a folder that one process at a time writes: of a run, or of a plan with its trials.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include <fmt/format.h>

#include "longhaul/base/result.h"
#include "longhaul/run/status_file.h"

namespace longhaul::run {

// The file FOLDER/lock, which the kernel locks for as long as its owner lives. The file holds the
// owner's process id and host.
class FolderLock {
 public:
  static constexpr const char* kFile = "lock";

  explicit FolderLock(const std::string& folder) : file_(open(folder)) {}
  ~FolderLock() { close(); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // Opens the file in the remade folder, and closes the old one.
  void open_again(const std::string& folder) {
    close();
    file_ = open(folder);
  }
  // Returns false if another process has the lock. Some network file systems have no locks.
  bool take() {
    if (file_ < 0 || ::flock(file_, LOCK_EX | LOCK_NB) == 0) return true;
    return errno != EWOULDBLOCK;
  }
  void sign() {
    if (file_ < 0) return;
    const std::string host = host_name();
    const std::string text =
        fmt::format("process {} on {}\n", ::getpid(), host.empty() ? "unknown host" : host);
    if (::ftruncate(file_, 0) == 0) (void)!::pwrite(file_, text.data(), text.size(), 0);
  }
  std::string owner() const {
    char text[512] = "";
    const ssize_t size = ::pread(file_, text, sizeof text - 1, 0);
    std::string owner(text, size > 0 ? std::size_t(size) : 0);
    owner.erase(owner.find_last_not_of('\n') + 1);
    return owner.empty() ? "another process" : owner;
  }
  static Error in_use(const std::string& path, const std::string& owner) {
    return invalid(
        fmt::format("{}: {} uses it; end that one first, or choose another folder with "
                    "--out",
                    path, owner));
  }

 private:
  // Unlocks first: a process that a user's loop has forked holds the file, too, and may live on.
  void close() {
    if (file_ < 0) return;
    (void)::flock(file_, LOCK_UN);
    ::close(file_);
  }
  static int open(const std::string& folder) {
    return ::open((folder + "/" + kFile).c_str(), O_RDWR | O_CLOEXEC | O_CREAT, 0644);
  }
  int file_;
};

}  // namespace longhaul::run
