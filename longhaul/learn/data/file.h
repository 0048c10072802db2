#pragma once
// Internal to the readers: whole files.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "longhaul/base/result.h"

namespace longhaul::learn {

// An Error where there is no such file, it is a directory, or it cannot be read; `remedy` ends it.
Result<std::vector<std::byte>> read_file(const std::string& path, std::string_view remedy);
// The regular files under `folder`, in all of its sub-folders, as paths in it ("a/b.txt"), in the
// order of their bytes; not what begins with a '.'. An Error where there is no such folder, or none
// in it; `remedy` ends it.
Result<std::vector<std::string>> files_in(const std::string& folder, std::string_view remedy);
bool file_exists(const std::string& path);
// "data/mnist/" and "x" as "data/mnist/x".
std::string join_path(const std::string& folder, std::string_view name);

}  // namespace longhaul::learn
