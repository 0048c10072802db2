#include "longhaul/run/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "longhaul/lab/descriptor.h"

namespace longhaul::run {
namespace {

lab::Descriptor open_file(const std::string& path, int flags) {
  return lab::Descriptor(::open(path.c_str(), flags | O_CLOEXEC, 0644));
}

Status write_whole(const std::string& path, std::span<const std::byte> bytes) {
  const lab::Descriptor file = open_file(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (!file) return io_failed(path, "creating it");
  LH_TRY(write_all(file.get(), bytes, path));
  if (::fsync(file.get()) != 0) return io_failed(path, "forcing it to disk");
  return Ok{};
}

}  // namespace

Error io_failed(const std::string& path, const char* doing) {
  return {Error::Kind::io, fmt::format("{}: {} failed: {}", path, doing, std::strerror(errno))};
}

Status write_all(int file, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(file, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return io_failed(path, "writing it");
    bytes = bytes.subspan(std::size_t(wrote));
  }
  return Ok{};
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
  return force_to_disk(folder);
}

Status write_atomically(const std::string& path, std::string_view text) {
  return write_atomically(path, std::as_bytes(std::span(text.data(), text.size())));
}

Status make_folder(const std::string& path) {
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (!code) return Ok{};
  return Error{Error::Kind::io, fmt::format("{}: cannot be created: {}", path, code.message())};
}

Status check_writable(const std::string& folder, std::string_view remedy) {
  const auto failed = [&](const Error& error) {
    return Error{error.kind, fmt::format("{}; {}", error.what, remedy)};
  };
  if (const Status made = make_folder(folder); !made) return failed(made.error());
  const std::string probe = fmt::format("{}/writable{}", folder, kTemporary);
  const bool can = bool(open_file(probe, O_WRONLY | O_CREAT));
  if (!can) return failed(io_failed(folder, "writing to it"));
  ::unlink(probe.c_str());
  return Ok{};
}

void replace_file(const std::string& path, std::string_view text) {
  const std::string temporary = path + std::string(kTemporary);
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  const lab::Descriptor file = open_file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
  if (file && write_all(file.get(), bytes, temporary))
    (void)::rename(temporary.c_str(), path.c_str());
  else
    ::unlink(temporary.c_str());
}

Status force_to_disk(const std::string& path) {
  const lab::Descriptor file = open_file(path, O_RDONLY);
  if (!file || ::fsync(file.get()) != 0) return io_failed(path, "forcing it to disk");
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

Result<std::string> read_text(const std::string& path) {
  LH_LET(bytes, read_file(path));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace longhaul::run
