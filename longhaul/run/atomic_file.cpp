#include "longhaul/run/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

namespace longhaul::run {
namespace {

// A file descriptor that closes itself.
class File {
 public:
  File(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool is_open() const { return fd_ >= 0; }
  bool write_all(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t wrote = ::write(fd_, bytes.data(), bytes.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return false;
      bytes = bytes.subspan(std::size_t(wrote));
    }
    return true;
  }
  bool sync() { return ::fsync(fd_) == 0; }

 private:
  int fd_;
};

Status write_whole(const std::string& path, std::span<const std::byte> bytes) {
  File file(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (!file.is_open()) return io_failed(path, "creating it");
  if (!file.write_all(bytes)) return io_failed(path, "writing it");
  if (!file.sync()) return io_failed(path, "forcing it to disk");
  return Ok{};
}

}  // namespace

Error io_failed(const std::string& path, const char* doing) {
  return {Error::Kind::io, fmt::format("{}: {} failed: {}", path, doing, std::strerror(errno))};
}

Status write_atomically(const std::string& path, std::span<const std::byte> bytes) {
  const std::string temporary = path + std::string(kTemporary);
  if (const Status written = write_whole(temporary, bytes); !written) {
    ::unlink(temporary.c_str());
    return written;
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    return io_failed(path, "renaming it into place");
  // The new name is safe only when the folder is on disk too.
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder.push_back('.');
  File directory(folder, O_RDONLY | O_DIRECTORY);
  if (!directory.is_open() || !directory.sync()) return io_failed(folder, "forcing it to disk");
  return Ok{};
}

Status write_atomically(const std::string& path, std::string_view text) {
  return write_atomically(path, std::as_bytes(std::span(text.data(), text.size())));
}

void replace_file(const std::string& path, std::string_view text) {
  const std::string temporary = path + std::string(kTemporary);
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  File file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
  if (file.is_open() && file.write_all(bytes))
    (void)::rename(temporary.c_str(), path.c_str());
  else
    ::unlink(temporary.c_str());
}

Status force_to_disk(const std::string& path) {
  File file(path, O_RDONLY);
  if (!file.is_open() || !file.sync()) return io_failed(path, "forcing it to disk");
  return Ok{};
}

Status kept_at_the_end(const Status& written) {
  if (written) return written;
  return Error{written.error().kind, written.error().what +
                                         "; the run is over, but not all of it is kept: make room, "
                                         "and start again with --resume"};
}

Result<Buffer> read_file(const std::string& path) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code))
    return unavailable(fmt::format("{}: no such file", path));
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return unavailable(fmt::format("{}: cannot be opened for reading", path));
  Buffer bytes(std::size_t(in.tellg()));
  in.seekg(0);
  in.read(reinterpret_cast<char*>(bytes.data()), std::streamsize(bytes.size()));
  if (!in) return unavailable(fmt::format("{}: reading it failed", path));
  return bytes;
}

}  // namespace longhaul::run
