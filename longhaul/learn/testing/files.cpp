#include "longhaul/learn/testing/files.h"

#include <stdlib.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "longhaul/base/check.h"

namespace longhaul::learn::testing {

TemporaryFolder::TemporaryFolder()
    : folder_((std::filesystem::temp_directory_path() / "longhaul-XXXXXX").string()) {
  LH_CHECK(mkdtemp(folder_.data()));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string TemporaryFolder::write(const std::string& name, const std::string& bytes) const {
  std::ofstream out(path(name), std::ios::binary);
  LH_CHECK(out << bytes && out.flush());
  return path(name);
}

int run_python(const std::string& script, const std::string& arguments) {
  const std::string command = "/usr/bin/python3 -B tests/python/" + script + " " + arguments;
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace longhaul::learn::testing
