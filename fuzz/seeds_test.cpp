// Every fuzzer on its seeds and on inputs made from them, the same ones in each run. It finds what
// breaks a parser at once, with any compiler and in seconds; scripts/fuzz looks for what is new.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "longhaul/base/rng.h"

// LONGHAUL_FUZZERS is X(net) X(job) ...: CMake lists the files NAME_fuzz.cpp and compiles each with
// its entry point renamed to NAME_fuzz.
#define X(name) extern "C" int name##_fuzz(const std::uint8_t* data, std::size_t size);
LONGHAUL_FUZZERS
#undef X

namespace longhaul {
namespace {

using Input = std::vector<std::uint8_t>;
constexpr std::size_t kMost = 4096;  // bytes of an input
constexpr int kFromEach = 60;        // inputs made from each seed

struct Fuzzer {
  std::string name;
  int (*run)(const std::uint8_t*, std::size_t);
};

const std::vector<Fuzzer> kFuzzers = {
#define X(name) {#name, name##_fuzz},
    LONGHAUL_FUZZERS
#undef X
};

std::vector<Input> seeds_of(const std::string& name) {
  std::vector<std::filesystem::path> files;
  const std::filesystem::path folder = std::filesystem::path(LONGHAUL_SOURCE_DIR) / "fuzz/corpus";
  for (const auto& entry : std::filesystem::directory_iterator(folder / name))
    files.push_back(entry.path());
  std::ranges::sort(files);
  std::vector<Input> all;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    all.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return all;
}

// One to four edits: a bit, a byte, a piece less, a piece more, the end of another seed.
Input changed(Input input, const std::vector<Input>& seeds, Random& random) {
  for (auto edits = 1 + random.below(4); edits > 0; --edits) {
    const auto at = std::ptrdiff_t(random.below(input.size() + 1));
    const auto left = std::uint64_t(std::ssize(input) - at);
    const auto piece = std::ptrdiff_t(random.below(std::min<std::uint64_t>(left, 16) + 1));
    const Input& other = seeds[random.below(seeds.size())];
    switch (random.below(5)) {
      case 0:
        if (left > 0) input[std::size_t(at)] ^= std::uint8_t(1u << random.below(8));
        break;
      case 1:
        if (left > 0) input[std::size_t(at)] = std::uint8_t(random.below(256));
        break;
      case 2:
        input.erase(input.begin() + at, input.begin() + at + piece);
        break;
      case 3:
        input.insert(input.begin() + at, std::size_t(piece), std::uint8_t(random.below(256)));
        break;
      default:
        input.resize(std::size_t(at));
        input.insert(input.end(), other.begin() + std::min(at, std::ssize(other)), other.end());
    }
  }
  if (input.size() > kMost) input.resize(kMost);
  return input;
}

class Seeds : public ::testing::TestWithParam<Fuzzer> {};
INSTANTIATE_TEST_SUITE_P(Fuzzer, Seeds, ::testing::ValuesIn(kFuzzers),
                         [](const auto& one) { return one.param.name; });

// A fuzzer answers 0, or ends the process.
TEST_P(Seeds, AndWhatIsMadeFromThemEndInOrder) {
  const auto [name, run] = GetParam();
  const std::vector<Input> seeds = seeds_of(name);
  ASSERT_FALSE(seeds.empty()) << "no seed in fuzz/corpus/" << name;
  EXPECT_EQ(run(nullptr, 0), 0);
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    EXPECT_EQ(run(seeds[i].data(), seeds[i].size()), 0);
    Random random(1, {Purpose::test, i, 0});
    for (int made = 0; made < kFromEach; ++made) {
      const Input input = changed(seeds[i], seeds, random);
      EXPECT_EQ(run(input.data(), input.size()), 0);
    }
  }
}

}  // namespace
}  // namespace longhaul
