#include "longhaul/learn/data/file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

namespace longhaul::learn {

namespace fs = std::filesystem;

Result<std::vector<std::byte>> read_file(const std::string& path, std::string_view remedy) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return unavailable(fmt::format("{}: no such file: {}", path, remedy));
  if (fs::is_directory(status))
    return unavailable(fmt::format("{}: is a directory, expected a file: {}", path, remedy));
  if (!fs::is_regular_file(status))
    return unavailable(fmt::format("{}: expected a regular file: {}", path, remedy));
  const auto size = fs::file_size(path, error);
  std::ifstream in(path, std::ios::binary);
  if (error || !in) return unavailable(fmt::format("{}: cannot be opened for reading", path));
  std::vector<std::byte> bytes(size);
  in.read(reinterpret_cast<char*>(bytes.data()), std::streamsize(bytes.size()));
  if (std::size_t(in.gcount()) != bytes.size())
    return unavailable(
        fmt::format("{}: expected {} bytes, could read {}", path, bytes.size(), in.gcount()));
  return bytes;
}

Result<std::vector<std::string>> files_in(const std::string& folder, std::string_view remedy) {
  std::error_code error;
  std::vector<std::string> names;
  fs::recursive_directory_iterator it(folder, error), end;
  if (error) return unavailable(fmt::format("{}: {}: {}", folder, error.message(), remedy));
  while (it != end) {
    const bool hidden = it->path().filename().string().starts_with('.');
    if (hidden) it.disable_recursion_pending();
    if (!hidden && it->is_regular_file(error))
      names.push_back(it->path().lexically_relative(folder).generic_string());
    it.increment(error);
    if (error) return unavailable(fmt::format("{}: {}", folder, error.message()));
  }
  if (names.empty()) return unavailable(fmt::format("{}: holds no file: {}", folder, remedy));
  std::ranges::sort(names);
  return names;
}

bool file_exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::string join_path(const std::string& folder, std::string_view name) {
  return (fs::path(folder) / name).string();
}

}  // namespace longhaul::learn
