#pragma once
// Files that are whole or not there, whenever the process dies.
#include <span>
#include <string>

#include "longhaul/base/bytes.h"
#include "longhaul/base/result.h"

namespace longhaul::run {

// Writes a temporary file beside `path`, forces it to disk and renames it into place.
Status write_atomically(const std::string& path, std::span<const std::byte> bytes);
Status write_atomically(const std::string& path, std::string_view text);
// The whole file; an Error names the path.
Result<Buffer> read_file(const std::string& path);

}  // namespace longhaul::run
