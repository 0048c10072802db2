#pragma once
// Atomic file writes: after a crash at any time a file is complete or absent.
#include <span>
#include <string>

#include "longhaul/base/bytes.h"
#include "longhaul/base/result.h"

namespace longhaul::run {

inline constexpr std::string_view kTemporary = ".tmp";

// Writes a temporary file next to `path`, forces it to disk and renames it into place. A process
// that is killed meanwhile leaves that file, `path` + kTemporary, behind. A process that fails to
// write it (the disk is full) removes it.
Status write_atomically(const std::string& path, std::span<const std::byte> bytes);
Status write_atomically(const std::string& path, std::string_view text);
// The same without forcing the file to disk, for files that are not needed after a crash. A reader
// sees the old or the new file. Ignores errors: a full disk must not end a run.
void replace_file(const std::string& path, std::string_view text);
// Makes the folder and its parents if they do not exist.
Status make_folder(const std::string& path);
// Makes the folder and checks that files can be written to it; an Error ends with `remedy`.
Status check_writable(const std::string& folder, std::string_view remedy);
// Forces to disk the data that this or another process has written to the file.
Status force_to_disk(const std::string& path);
// Returns an Error for errno of the operation `doing` ("write") on the file.
Error io_failed(const std::string& path, const char* doing);
// Adds a remedy to the Error of a file that is written after the end of a run.
Status kept_at_the_end(const Status&);
// Returns the whole file; an Error names the path.
Result<Buffer> read_file(const std::string& path);
Result<std::string> read_text(const std::string& path);
// Writes all to the descriptor of the file at this path.
Status write_all(int file, std::span<const std::byte> bytes, const std::string& path);

}  // namespace longhaul::run
