#pragma once
// Atomic file writes: after a crash at any time a file is complete or absent.
#include <span>
#include <string>

#include "longhaul/base/bytes.h"
#include "longhaul/base/result.h"

namespace longhaul::run {

inline constexpr std::string_view kTemporary = ".tmp";

// Writes a temporary file beside `path`, forces it to disk and renames it into place. A process
// that is killed meanwhile leaves that file, `path` + kTemporary, behind; one that fails to write
// it (the disk is full) removes it.
Status write_atomically(const std::string& path, std::span<const std::byte> bytes);
Status write_atomically(const std::string& path, std::string_view text);
// The same without forcing anything to disk, for what is of no use after a crash: a reader sees the
// file of before or of after. A disk that is full is no reason to end a run: errors are ignored.
void replace_file(const std::string& path, std::string_view text);
// Makes the folder and those above it where they are not there.
Status make_folder(const std::string& path);
// Forces to disk what others, or this process, have written to the file.
Status force_to_disk(const std::string& path);
// An Error for errno of the operation `doing` ("write") on the file.
Error io_failed(const std::string& path, const char* doing);
// Ok, or the Error with its remedy, of a file that is written when a run is over.
Status kept_at_the_end(const Status&);
// The whole file; an Error names the path.
Result<Buffer> read_file(const std::string& path);
Result<std::string> read_text(const std::string& path);
// Writes all to the descriptor of the file at this path.
Status write_all(int file, std::span<const std::byte> bytes, const std::string& path);

}  // namespace longhaul::run
