#include "longhaul/learn/model_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "longhaul/base/rng.h"
#include "longhaul/base/testing/effort.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/learn/scorer.h"
#include "longhaul/learn/testing/learners.h"

namespace longhaul::learn {
namespace {

// Images of one bright square a class, at a place of its own, in noise.
std::shared_ptr<const DataSet> squares(std::size_t samples) {
  auto data = std::make_shared<DataSet>();
  data->shape = {{1, 28, 28}, 4, Task::classification};
  Random random(1, {.purpose = Purpose::data});
  std::vector<std::uint8_t> pixels;
  for (std::size_t i = 0; i < samples; ++i) {
    const auto label = std::size_t(random.below(4));
    data->labels.push_back(std::int64_t(label));
    for (std::size_t y = 0; y < 28; ++y)
      for (std::size_t x = 0; x < 28; ++x) {
        const bool bright = y / 14 == label / 2 && x / 14 == label % 2;
        pixels.push_back(std::uint8_t(random.below(bright ? 256 : 200)));
      }
  }
  const double zero = 0, one = 1;
  data->set_pixels(std::move(pixels), {&zero, 1}, {&one, 1});
  return data;
}

void write_idx(const std::string& path, std::vector<std::uint32_t> extents,
               std::span<const std::uint8_t> values) {
  std::ofstream file(path, std::ios::binary);
  file.put(0).put(0).put(8).put(char(extents.size()));
  for (std::uint32_t extent : extents)
    for (int shift = 24; shift >= 0; shift -= 8) file.put(char(extent >> shift & 255));
  for (std::uint8_t value : values) file.put(char(value));
}

TEST(ModelFileNightly, LoadsInPyTorchWithTheSameAccuracy) {
  const testing::TemporaryFolder folder;
  const auto data = squares(400);
  write_idx(folder.path("images"), {400, 28, 28}, data->pixels);
  write_idx(folder.path("labels"), {400},
            std::vector<std::uint8_t>(data->labels.begin(), data->labels.end()));
  for (const std::string kind : {"lenet", "resnet20"}) {
    LearnerParts parts = testing::parts_for(data, kind);
    parts.model.norm = "batch";
    auto learner = good(make_learner(parts));
    for (int i = 0; i < 8; ++i) ASSERT_TRUE((*learner)->step(LocalStep{}));
    auto scorer = good(make_scorer(parts.model, data));
    auto evaluation = good((*scorer)->score((*learner)->params()));
    EXPECT_LT(evaluation->accuracy, 1) << "too easy to tell two models apart";
    const std::string path =
        folder.write(kind + ".pt", *model_file(parts.model, data->shape, (*learner)->params()));
    const std::string arguments =
        "'" + path + "' '" + folder.path("images") + "' '" + folder.path("labels") + "' ";
    EXPECT_EQ(testing::run_python("load_model.py", arguments + "--accuracy " +
                                                       std::to_string(*evaluation->accuracy)),
              0);
    EXPECT_EQ(testing::run_python("load_model.py", arguments + "--accuracy 2 2>/dev/null"), 1);
  }
}

TEST(ModelFile, ComesBackBitForBitForEveryModel) {
  const testing::TemporaryFolder folder;
  const auto images = testing::patterns({3, 32, 32}, 10, 4), rows = testing::patterns({9}, 2, 4);
  const auto numbers = testing::plane(9, 4);
  const std::pair<std::string, std::shared_ptr<const DataSet>> models[] = {{"linear", numbers},
                                                                           {"logistic", rows},
                                                                           {"mlp", rows},
                                                                           {"lenet", images},
                                                                           {"resnet20", images}};
  for (const auto& [kind, data] : models)
    for (const std::string norm : {"group", "batch"}) {
      if (longhaul::testing::kGate && (kind == "resnet20") != (norm == "batch")) continue;
      ModelConfig config{.kind = kind, .norm = norm};
      const auto outline = good(outline_of(config, data->shape));
      const auto layout = outline->layout;
      std::vector<float> model(layout->size());
      for (std::size_t i = 0; i < model.size(); ++i) model[i] = float(i % 97) / 97;
      auto bytes = good(model_file(config, data->shape, model));
      auto loaded = good(load_model(folder.write(kind + norm + ".pt", *bytes), *layout));
      EXPECT_EQ(*loaded, model) << kind;
    }
}

TEST(ModelFile, AWrongFileIsAnErrorThatNamesIt) {
  const testing::TemporaryFolder folder;
  const auto rows = testing::patterns({9}, 3, 4);
  const auto layout = outline_of({.kind = "mlp"}, rows->shape)->layout;
  const std::vector<float> model(layout->size());
  const auto refuses = [&](const std::string& path) {
    const Error loaded = failure(load_model(path, *layout));
    EXPECT_TRUE(says(loaded.what, path));
    EXPECT_EQ(loaded.what.find('\n'), std::string::npos) << loaded.what;
  };
  refuses(folder.path("none.pt"));
  refuses(folder.path(""));
  std::ofstream(folder.path("text.pt")) << "no archive";
  refuses(folder.path("text.pt"));
  auto other = initial_model({.kind = "logistic"}, rows->shape, 1);
  refuses(folder.write("other.pt", *model_file({.kind = "logistic"}, rows->shape, *other)));
}

}  // namespace
}  // namespace longhaul::learn
