// A model file is a program: what it may do, and that the rest never runs.
#include <gtest/gtest.h>
#include <sanitizer/lsan_interface.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "longhaul/learn/script.h"
#include "longhaul/learn/testing/learners.h"

namespace longhaul::learn {
namespace {

namespace fs = std::filesystem;

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
using NoLeakCheck = __lsan::ScopedDisabler;
#define LONGHAUL_LEAKS_ARE_CHECKED
#endif
#endif
#ifndef LONGHAUL_LEAKS_ARE_CHECKED
struct NoLeakCheck {
  NoLeakCheck() {}  // a variable of it is used
};
#endif

class ScriptOperators : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {  // importing torch takes Python its time
    shared_ = std::make_unique<testing::TemporaryFolder>();
    ASSERT_EQ(testing::run_python("make_script_kinds.py", "'" + shared_->path("") + "'"), 0);
  }
  static void TearDownTestSuite() { shared_.reset(); }
  static Result<torch::jit::Module> read(const std::string& path) {
    const NoLeakCheck libtorch_keeps_interfaces_in_a_cycle;
    std::ifstream in(path, std::ios::binary);
    return read_script(in, path, at::kCPU);
  }
  static std::vector<std::string> files(const std::string& folder) {
    std::vector<std::string> paths;
    for (const auto& file : fs::directory_iterator(shared_->path(folder)))
      paths.push_back(file.path());
    std::ranges::sort(paths);
    return paths;
  }
  static inline std::unique_ptr<testing::TemporaryFolder> shared_;
};

TEST_F(ScriptOperators, UsualModelsScriptedAndTracedAreTaken) {
  const auto all = files("good");
  EXPECT_EQ(all.size(), 14u);
  for (const std::string& path : all) {
    const auto module = read(path);
    ASSERT_TRUE(module) << module.error().what;
    const auto plain = torch::jit::load(path);
    EXPECT_EQ(module->named_parameters().size(), plain.named_parameters().size()) << path;
    EXPECT_EQ(module->named_buffers().size(), plain.named_buffers().size()) << path;
  }
}

// Where the forbidden call stands, and what the refusal says of it.
TEST_F(ScriptOperators, WhatIsNoComputationIsRefusedWhereverItStands) {
  const std::map<std::string, std::pair<std::string, std::string>> said = {
      {"calls", {"read_file", "aten::from_file"}},
      {"class", {"Helper.take", "aten::from_file"}},
      {"exported", {"read_file", "aten::from_file"}},
      {"forks", {"read_file", "aten::from_file"}},
      {"hooked", {"read_file", "aten::from_file"}},
      {"interface", {"read_file", "aten::from_file"}},
      {"nested", {"read_file", "aten::from_file"}},
      {"prints", {"Prints.forward", "prim::Print"}},
      {"property", {"Property", "aten::from_file"}},
      {"quantised", {"LinearPackedParamsBase", "a class of C++"}},
      {"saves", {"Saves.forward", "aten::save"}},
      {"seeds", {"Seeds.forward", "aten::manual_seed"}},
      {"setstate", {"SetState.__setstate__", "aten::from_file"}},
      {"submodule", {"read_file", "aten::from_file"}}};
  const auto all = files("bad");
  EXPECT_EQ(all.size(), said.size());
  for (const std::string& path : all) {
    std::string why;
    try {
      const auto module = read(path);
      ASSERT_FALSE(module) << path;
      why = module.error().what;
      EXPECT_NE(why.find(path), std::string::npos) << why;
    } catch (const std::exception& error) {
      why = error.what();
    }
    const auto& [where, what] = said.at(fs::path(path).stem());
    EXPECT_NE(why.find(where), std::string::npos) << path << ": " << why;
    EXPECT_NE(why.find(what), std::string::npos) << path << ": " << why;
  }
  EXPECT_FALSE(fs::exists("written"));  // __setstate__ would have run before any forward()
}

TEST_F(ScriptOperators, OtherFormatsThatTorchReadsAreRefused) {
  for (const char* bytes :
       {"", "P", "RIFF1234", "\x1c\x00\x00\x00PTMF", "PK\x03\x04 and no more"}) {
    std::istringstream in(bytes);
    try {
      EXPECT_FALSE(read_script(in, "x.pt", at::kCPU)) << bytes;
    } catch (const std::exception& error) {
      EXPECT_NE(std::string(error.what()), "");
    }
  }
}

}  // namespace
}  // namespace longhaul::learn
