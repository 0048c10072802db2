#pragma once
// Files of a test, and Debian's Python beside it.
#include <string>

namespace longhaul::learn::testing {

// A folder that is removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string write(const std::string& name, const std::string& bytes) const;  // its path

 private:
  std::string folder_;
};

// Exit code of `/usr/bin/python3 tests/python/SCRIPT ARGUMENTS`; tests run in the repository's
// root.
int run_python(const std::string& script, const std::string& arguments);

}  // namespace longhaul::learn::testing
