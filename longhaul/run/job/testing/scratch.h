#pragma once
// A folder of a test's own, also while other processes run the same test.
#include <unistd.h>

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace longhaul::run::testing {

class Scratch {
 public:
  Scratch()
      : path_(std::filesystem::path(::testing::TempDir()) /
              ("longhaul-" + std::to_string(::getpid()) + "-" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace longhaul::run::testing
