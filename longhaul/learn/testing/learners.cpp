#include "longhaul/learn/testing/learners.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <numeric>
#include <string_view>
#include <tuple>

#include "longhaul/base/check.h"
#include "longhaul/base/rng.h"

namespace longhaul::learn::testing {

std::shared_ptr<const DataSet> patterns(std::vector<std::int64_t> sample, std::int64_t classes,
                                        std::size_t samples, std::uint64_t seed) {
  // Drawn once for all tests that ask for it.
  using Key = std::tuple<std::vector<std::int64_t>, std::int64_t, std::size_t, std::uint64_t>;
  static std::mutex mutex;
  static std::map<Key, std::shared_ptr<const DataSet>> drawn;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const DataSet>& kept = drawn[{sample, classes, samples, seed}];
  if (kept) return kept;
  auto data = std::make_shared<DataSet>();
  const auto width = std::size_t(
      std::accumulate(sample.begin(), sample.end(), std::int64_t{1}, std::multiplies<>()));
  data->shape = {std::move(sample), classes, Task::classification};
  Random random(seed, {.purpose = Purpose::data});
  std::vector<float> pattern(std::size_t(classes) * width);
  for (float& value : pattern) value = float(random.normal());
  for (std::size_t i = 0; i < samples; ++i) {
    const auto label = std::size_t(random.below(std::uint64_t(classes)));
    data->labels.push_back(std::int64_t(label));
    for (std::size_t j = 0; j < width; ++j)
      data->features.push_back(pattern[label * width + j] + float(random.normal()));
  }
  kept = data;
  return data;
}

std::shared_ptr<const DataSet> plane(std::int64_t features, std::size_t samples,
                                     std::uint64_t seed) {
  auto data = std::make_shared<DataSet>();
  data->shape = {{features}, 1, Task::regression};
  Random random(seed, {.purpose = Purpose::data});
  for (std::size_t i = 0; i < samples; ++i) {
    double target = 0.5;
    for (std::int64_t j = 0; j < features; ++j) {
      const double value = random.normal();
      data->features.push_back(float(value));
      target += value * double(j % 3 - 1);
    }
    data->targets.push_back(float(target + 0.01 * random.normal()));
  }
  return data;
}

std::shared_ptr<const DataSet> half_planes(std::int64_t features, std::int64_t labels,
                                           std::size_t samples, std::uint64_t seed) {
  auto data = std::make_shared<DataSet>();
  data->shape = {{features}, labels, Task::multilabel};
  Random random(seed, {.purpose = Purpose::data});
  for (std::size_t i = 0; i < samples; ++i) {
    std::vector<double> sides(std::size_t(labels), 0.2);
    for (std::int64_t j = 0; j < features; ++j) {
      const double value = random.normal();
      data->features.push_back(float(value));
      for (std::int64_t k = 0; k < labels; ++k)
        sides[std::size_t(k)] += value * double((j + k) % 3 - 1);
    }
    for (const double side : sides)
      data->targets.push_back(side + 0.5 * random.normal() > 0 ? 1.f : 0.f);
  }
  return data;
}

std::shared_ptr<const DataSet> words(std::uint32_t context, std::size_t samples,
                                     std::uint64_t seed) {
  auto data = std::make_shared<DataSet>();
  data->shape = {{std::int64_t{context}}, 256, Task::text};
  data->names = {"all"};
  Random random(seed, {.purpose = Purpose::data});
  constexpr std::string_view list[] = {"one ", "little ", "fox "};
  while (data->labels.size() < samples) {
    std::string text;
    while (text.size() <= context) text += list[random.below(3)];
    data->text.insert(data->text.end(), text.begin(), text.begin() + context + 1);
    data->labels.push_back(0);
  }
  return data;
}

LearnerParts parts_for(std::shared_ptr<const DataSet> data, const std::string& kind,
                       OptimizerConfig optimizer) {
  LearnerParts parts;
  parts.model.kind = kind;
  parts.optimizer = std::move(optimizer);
  parts.shard.resize(data->size());
  std::iota(parts.shard.begin(), parts.shard.end(), 0u);
  parts.data = std::move(data);
  parts.seed = 7;
  return parts;
}

std::unique_ptr<Learner> make(LearnerParts parts) {
  auto learner = make_learner(std::move(parts));
  EXPECT_TRUE(learner) << (learner ? "" : learner.error().what);
  return *std::move(learner);
}

StepResult take(Learner& learner, const Work& work) {
  auto result = learner.step(work);
  EXPECT_TRUE(result) << (result ? "" : result.error().what);
  return *result;
}

Buffer save(Learner& learner) {
  Archive ar;
  learner.state(ar);
  return ar.take();
}

void load(Learner& learner, const Buffer& state) {
  Archive ar(state);
  learner.state(ar);
  EXPECT_TRUE(ar.finish());
}

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
