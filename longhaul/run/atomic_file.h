#pragma once
// Files that are whole or not there, whenever the process dies.
#include <span>
#include <string>

#include "longhaul/base/bytes.h"
#include "longhaul/base/result.h"

namespace longhaul::run {

inline constexpr std::string_view kTemporary = ".tmp";

// Writes a temporary file beside `path`, forces it to disk and renames it into place. A process
// that is killed meanwhile leaves that file, `path` + kTemporary, behind.
Status write_atomically(const std::string& path, std::span<const std::byte> bytes);
Status write_atomically(const std::string& path, std::string_view text);
// What errno says of `doing`, as "write", with the file.
Error io_failed(const std::string& path, const char* doing);
// The whole file; an Error names the path.
Result<Buffer> read_file(const std::string& path);

}  // namespace longhaul::run
