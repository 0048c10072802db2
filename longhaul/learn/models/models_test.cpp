#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "longhaul/base/testing/result.h"
#include "longhaul/learn/models/registry.h"

namespace longhaul::learn {
namespace {

const DataShape kMnist{{1, 28, 28}, 10, Task::classification};
const DataShape kCifar{{3, 32, 32}, 10, Task::classification};
const DataShape kRows{{14}, 6, Task::classification};
const DataShape kText{{128}, 256, Task::text};
const DataShape kNumbers{{14}, 1, Task::regression};

ModelSpec spec(ModelConfig config, const DataShape& shape) {
  auto spec = model_spec(config, shape);
  EXPECT_TRUE(spec) << (spec ? "" : spec.error().what);
  return *std::move(spec);
}

std::uint64_t parameters(ModelConfig config, const DataShape& shape) {
  return layout_of(spec(std::move(config), shape))->parameters().length;
}

Settings table(std::vector<std::pair<std::string, Value>> entries) {
  Settings settings{.table = "model", .file = "job.toml", .line = 3, .entries = {}};
  for (auto& [key, value] : entries)
    settings.entries.push_back({key, std::move(value), "job.toml", 4});
  return settings;
}

std::string error_of(const Settings& settings) {
  auto config = read_model(settings);
  return config ? "" : config.error().what;
}

TEST(Models, HaveTheParametersThatThePapersCount) {
  EXPECT_EQ(parameters({.kind = "lenet"}, kMnist), 61'706u);
  EXPECT_EQ(parameters({.kind = "lenet"}, kCifar), 62'006u);
  EXPECT_EQ(parameters({.kind = "lenet", .norm = "group"}, kMnist), 61'706u + 2 * 22);
  EXPECT_EQ(parameters({.kind = "lenet", .norm = "batch"}, kMnist), 61'706u + 2 * 22);
  EXPECT_EQ(layout_of(spec({.kind = "lenet", .norm = "batch"}, kMnist))->size(), 61'706u + 4 * 22);
  // He et al. say 0.27 million.
  EXPECT_EQ(parameters({.kind = "resnet20", .norm = "batch"}, kCifar), 269'722u);
  EXPECT_EQ(parameters({.kind = "resnet20", .norm = "group"}, kCifar), 269'722u);
  EXPECT_EQ(parameters({.kind = "mlp", .hidden = {200, 100}}, kMnist),
            785u * 200 + 201 * 100 + 101 * 10);
  EXPECT_EQ(parameters({.kind = "mlp", .hidden = {}}, kMnist), 7850u);
  EXPECT_EQ(parameters({.kind = "logistic"}, kRows), 15u * 6);
  EXPECT_EQ(parameters({.kind = "logistic"}, {{14}, 2, Task::classification}), 15u);
  EXPECT_EQ(parameters({.kind = "logistic"}, {{14}, 2, Task::multilabel}), 2 * 15u);
  EXPECT_EQ(parameters({.kind = "linear"}, {{14}, 3, Task::regression}), 3 * 15u);
  EXPECT_EQ(parameters({.kind = "linear"}, kNumbers), 15u);
  EXPECT_EQ(parameters({.kind = "gpt"}, kText), 124'672u);
  EXPECT_EQ(parameters({.kind = "gpt"}, {{128}, 50257, Task::text}),
            124'672u + (50257u - 256) * 64);
  EXPECT_EQ(parameters({.kind = "gpt", .layers = 1, .width = 8, .context = 200}, kText),
            (256u + 200) * 8 + 12 * 64 + 13 * 8 + 2 * 8);
  EXPECT_EQ(parameters({.kind = "linear", .bias = false}, kNumbers), 14u);
  EXPECT_EQ(parameters({.kind = "logistic", .bias = false}, kRows), 14u * 6);
  EXPECT_EQ(parameters({.kind = "phantom", .mbytes = 44.7}, kMnist), 11'175'000u);
  EXPECT_EQ(parameters({.kind = "phantom", .mbytes = 4.03}, kMnist), 1'007'500u);
}

const DataShape kRatings{{2}, 1, Task::regression, {30, 50}};

TEST(Models, AFactorisationReadsTheRowsOfItsSamplesAlone) {
  const ModelSpec model = spec({.kind = "matrix_factorisation", .factors = 4}, kRatings);
  const auto layout = layout_of(model);
  EXPECT_EQ(layout->size(), 80u * (4 + 1) + 1);
  EXPECT_EQ(layout->layers()[1].name, "items.weight");
  DataSet data{.shape = kRatings, .features = {3, 7, 4, 7, 29, 0}, .targets = {1, 2, 3}};
  const std::vector<std::uint32_t> first = {0, 1};
  // Rows 3 and 4 of the users, row 7 of the items, their biases, and the mean.
  EXPECT_EQ(reads_of(model, data, first),
            (std::vector<Range>{{12, 8}, {120 + 28, 4}, {320 + 3, 2}, {350 + 7, 1}, {400, 1}}));
  const std::vector<std::uint32_t> last = {2};
  EXPECT_EQ(reads_of(model, data, last), (std::vector<Range>{{116, 8}, {349, 2}, {400, 1}}));
  EXPECT_TRUE(reads_of(spec({.kind = "linear"}, kNumbers), data, last).empty()) << "all";
  EXPECT_TRUE(says(failure(model_spec({.kind = "matrix_factorisation"}, kNumbers)).what,
                   "set [data] kind = \"ratings\""));
}

const DataShape kClicks{{3}, 2, Task::classification, {15, 15, 15}};

TEST(Models, ClicksReadOneRowOfEachFieldAndAllLayers) {
  const ModelSpec model = spec({.kind = "clicks", .hidden = {5}, .factors = 4}, kClicks);
  const std::uint64_t layers = (12 * 5 + 5) + (5 + 1);
  EXPECT_EQ(layout_of(model)->size(), 15u * 4 + layers);
  DataSet data{.shape = kClicks, .features = {0, 5, 14, 1, 5, 10}, .labels = {0, 1}};
  const std::vector<std::uint32_t> both = {0, 1};
  EXPECT_EQ(reads_of(model, data, both),
            (std::vector<Range>{{0, 8}, {20, 4}, {40, 4}, {56, 4 + layers}}));
  EXPECT_TRUE(says(model_spec({.kind = "clicks"}, kMnist), "set [data] kind = \"clicks\""));
}

TEST(Models, AnMlpMayStartByTheRuleOfHe) {
  const ModelSpec he = spec({.kind = "mlp", .hidden = {64}, .start = "he"}, kRows);
  const ModelSpec torch = spec({.kind = "mlp", .hidden = {64}}, kRows);
  EXPECT_EQ(he.tensors[0].init, TensorSpec::Init::normal);
  EXPECT_DOUBLE_EQ(he.tensors[0].scale, std::sqrt(2.0 / double(he.tensors[0].shape[1])));
  EXPECT_EQ(he.tensors[1].init, TensorSpec::Init::zeros);
  EXPECT_EQ(torch.tensors[0].init, TensorSpec::Init::uniform);
}

TEST(Models, NameTheirLayersParametersFirst) {
  const auto layout = layout_of(spec({.kind = "resnet20", .norm = "batch"}, kCifar));
  EXPECT_EQ(layout->layers().front().name, "conv1.weight");
  EXPECT_EQ(layout->layers().front().shape, (std::vector<std::int64_t>{16, 3, 3, 3}));
  EXPECT_EQ(layout->buffers().length, 2u * (7 * 16 + 6 * 32 + 6 * 64));
  for (const LayerRange& layer : layout->layers())
    EXPECT_EQ(layer.role == LayerRange::Role::buffer,
              layer.name.find("running") != std::string::npos)
        << layer.name;
  EXPECT_EQ(layout_of(spec({.kind = "resnet20", .norm = "group"}, kCifar))->buffers().length, 0u);
  EXPECT_EQ(exchanged_layout({.kind = "resnet20", .norm = "batch"}, layout), layout);
  const auto exchanged =
      exchanged_layout({.kind = "resnet20", .norm = "batch", .bn = "local"}, layout);
  EXPECT_EQ(exchanged->size(), layout->parameters().length);
  EXPECT_EQ(exchanged->layers().back().name, "fc.bias");
}

TEST(Models, StartFromTheSeedAloneWithinTheirBounds) {
  const ModelSpec lenet = spec({.kind = "lenet"}, kMnist);
  const auto layout = layout_of(lenet);
  std::vector<float> one(layout->size(), 9.f), again(layout->size()), other(layout->size());
  initialise(lenet, 7, one);
  initialise(lenet, 7, again);
  initialise(lenet, 8, other);
  EXPECT_EQ(one, again);
  EXPECT_NE(one, other);
  double largest = 0, mean = 0;
  const Range fc1 = layout->layers()[4].range;
  for (std::uint64_t i = fc1.offset; i < fc1.end(); ++i) {
    largest = std::max(largest, std::abs(double(one[i])));
    mean += one[i] / double(fc1.length);
  }
  EXPECT_LE(largest, 1 / std::sqrt(400.0));
  EXPECT_GT(largest, 0.99 / std::sqrt(400.0));
  EXPECT_NEAR(mean, 0, 1e-3);
  // Every layer has a stream of its own: these two differ by their scale alone if it has not.
  const float first = one[layout->layers()[0].range.offset] * std::sqrt(25.f);
  const float third = one[layout->layers()[2].range.offset] * std::sqrt(150.f);
  EXPECT_GT(std::abs(first - third), 1e-3f);
  std::set<float> distinct(one.begin(), one.end());
  EXPECT_GT(distinct.size(), one.size() * 9 / 10);
}

TEST(Models, HeNormalHasItsVariance) {
  const ModelSpec resnet = spec({.kind = "resnet20"}, kCifar);
  const auto layout = layout_of(resnet);
  std::vector<float> values(layout->size());
  initialise(resnet, 7, values);
  for (const LayerRange& layer : layout->layers()) {
    if (layer.shape.size() != 4) continue;
    double square = 0;
    for (std::uint64_t i = layer.range.offset; i < layer.range.end(); ++i)
      square += double(values[i]) * values[i];
    const double expected = 2.0 / double(layer.shape[0] * 9);
    EXPECT_NEAR(square / double(layer.range.length) / expected, 1, 0.2) << layer.name;
  }
}

TEST(Models, RefuseDataThatDoNotFitWithTheRemedy) {
  const auto refuses = [](const std::string& kind, const DataShape& shape, const char* remedy) {
    auto spec = model_spec({.kind = kind}, shape);
    ASSERT_FALSE(spec) << kind;
    EXPECT_TRUE(says(spec, "[model] kind = \"" + kind + "\""));
    EXPECT_TRUE(says(spec, remedy));
  };
  refuses("linear", kMnist, "logistic");
  refuses("logistic", kNumbers, "linear");
  refuses("lenet", kNumbers, "linear");
  refuses("lenet", kRows, "mlp");
  refuses("lenet", {{1, 30, 30}, 10, Task::classification}, "resnet20");
  refuses("resnet20", kRows, "mlp");
  EXPECT_FALSE(model_spec({.kind = "resnet20", .norm = "none"}, kCifar));
  refuses("resnet20", {{1, 4, 4}, 10, Task::classification}, "mlp");
  EXPECT_TRUE(model_spec({.kind = "mlp"}, kNumbers));
}

TEST(Models, EveryKindIsFoundAndAWrongOneIsNamedWithTheNearest) {
  for (const ModelEntry& entry : model_registry()) EXPECT_TRUE(find_model(std::string(entry.name)));
  EXPECT_TRUE(says(find_model("lenett"), "'lenet'"));
}

TEST(ModelConfig, ReadsItsTable) {
  auto config = good(read_model(table({{"kind", {std::string("mlp")}},
                                       {"hidden", {std::vector<Value>{{std::int64_t{32}}, {16.0}}}},
                                       {"device", {std::string("cpu")}}})));
  EXPECT_EQ(config->hidden, (std::vector<double>{32, 16}));
  EXPECT_EQ(config->device, "cpu");
}

TEST(ModelConfig, NamesFileLineKeyAndRemedy) {
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_TRUE(says(text, part));
  };
  const Value lenet{std::string("lenet")}, mlp{std::string("mlp")};
  const std::string unknown = error_of(table({{"kind", {std::string("lenett")}}}));
  has(unknown, "job.toml:4");
  has(unknown, "lenet");
  has(error_of(table({{"kind", lenet}, {"hidden", {std::vector<Value>{}}}})), "belongs to \"mlp\"");
  has(error_of(table({{"kind", mlp}, {"hidden", {std::vector<Value>{{2.5}}}}})), "whole numbers");
  has(error_of(table({{"kind", mlp}, {"hidden", {std::vector<Value>{{0.0}}}}})), "whole numbers");
  has(error_of(table({{"kind", {std::string("script")}}})), "TorchScript");
  has(error_of(table({{"kind", {std::string("phantom")}}, {"mbytes", {0.0}}})), "mbytes");
  has(error_of(table({{"kind", {std::string("resnet20")}}, {"norm", {std::string("layer")}}})),
      "group");
  has(error_of(table({{"kind", lenet}, {"bn", {std::string("local")}}})), "norm = \"batch\"");
  has(error_of(table({{"kind", mlp}, {"bn", {std::string("local")}}})), "belongs to \"lenet\"");
  has(error_of(table({{"kind", lenet}, {"devise", {std::string("cpu")}}})), "device");
}

}  // namespace
}  // namespace longhaul::learn
