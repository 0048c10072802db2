#include "longhaul/learn/data/load.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include <gmock/gmock.h>

#include "longhaul/base/check.h"
#include "longhaul/base/testing/effort.h"
#include "longhaul/base/testing/result.h"

namespace longhaul::learn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using namespace std::string_literals;

// A folder of its own, removed with everything in it.
class Load : public ::testing::Test {
 protected:
  Load() {
    std::string folder = ::testing::TempDir() + "longhaul-load-XXXXXX";
    LH_CHECK(mkdtemp(folder.data()) != nullptr);
    folder_ = folder;
  }
  ~Load() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return path(name);
  }
  // `set` of a folder in the manner of MNIST: 2x2 pixels, label i % classes.
  void write_idx(const std::string& folder, const std::string& set, char images, char classes) {
    std::string pixels("\0\0\x08\x03\0\0\0\0\0\0\0\2\0\0\0\2", 16),
        labels("\0\0\x08\x01\0\0\0\0", 8);
    pixels[7] = labels[7] = images;
    for (char i = 0; i < images; ++i) {
      pixels += std::string(4, char(i * 10));
      labels += char(i % classes);
    }
    write(folder + "/" + set + "-images-idx3-ubyte", pixels);
    write(folder + "/" + set + "-labels-idx1-ubyte", labels);
  }

 private:
  std::filesystem::path folder_;
};

template <class T>
Result<T> good(Result<T> result) {
  if (!result) ADD_FAILURE() << result.error().what;
  return result;
}

std::string error_of(const DataConfig& config) {
  auto split = load_data(config);
  return split ? "no error" : split.error().what;
}

DataConfig config_of(std::string kind, std::string path = "") {
  DataConfig config{.kind = std::move(kind), .path = std::move(path)};
  return config;
}

std::string shards_of_three(const DataConfig& config, const DataSet& data) {
  auto shards = partition(data, 3, config, 1);
  return shards ? "no error" : shards.error().what;
}

std::vector<float> row_of(const DataSet& data, std::size_t i) {
  std::vector<float> out(data.shape.width());
  data.copy_row(i, out);
  return out;
}

TEST_F(Load, MnistFolder) {
  write_idx("m", "train", 30, 10);
  write_idx("m", "t10k", 12, 10);
  auto split = good(load_data(config_of("mnist", path("m"))));
  EXPECT_EQ(split->train->size(), 30u);
  EXPECT_EQ(split->test->size(), 12u);
  EXPECT_EQ(split->train->shape, (DataShape{{1, 2, 2}, 10, Task::classification}));
  EXPECT_FLOAT_EQ(row_of(*split->train, 3)[0], float((30 / 255.0 - 0.1307) / 0.3081));
  EXPECT_FLOAT_EQ(row_of(*load_data(config_of("fashion_mnist", path("m")))->test, 3)[0],
                  float((30 / 255.0 - 0.2860) / 0.3530));
}

TEST_F(Load, WhatIsMissingNamesFileAndRemedy) {
  EXPECT_THAT(error_of(config_of("mnist", path("no"))),
              AllOf(HasSubstr("no/train-images-idx3-ubyte: no such file"),
                    HasSubstr("run scripts/fetch-data mnist")));
  EXPECT_THAT(error_of(config_of("fashion_mnist", path("no"))),
              HasSubstr("run scripts/fetch-data fashion-mnist"));
  EXPECT_THAT(error_of(config_of("cifar10", path("no"))),
              AllOf(HasSubstr("no/data_batch_1.bin: no such file"), HasSubstr("binary version")));
  write("file", "x");
  EXPECT_THAT(error_of(config_of("mnist", path("file"))),
              HasSubstr("file: is a file, expected the folder that holds the mnist files"));
  EXPECT_THAT(error_of(config_of("csv", path(""))), HasSubstr("is a directory, expected a file"));
  EXPECT_THAT(error_of(config_of("csv", path("x.csv"))), HasSubstr("x.csv: no such file: set"));
  EXPECT_THAT(error_of(config_of("csv", "/dev/null")), HasSubstr("a regular file"));
  EXPECT_THAT(error_of(config_of("csv")), HasSubstr("expected path = \"...\""));
  EXPECT_THAT(error_of(config_of("none")), HasSubstr("holds no samples"));
  EXPECT_THAT(error_of(config_of("mnits")), HasSubstr("did you mean 'mnist'"));
}

TEST_F(Load, TruncatedIdxNamesTheFile) {
  write_idx("m", "train", 30, 10);
  write_idx("m", "t10k", 12, 10);
  std::filesystem::resize_file(path("m/t10k-images-idx3-ubyte"), 40);
  EXPECT_THAT(error_of(config_of("mnist", path("m"))),
              AllOf(HasSubstr("m/t10k-images-idx3-ubyte: truncated IDX file"),
                    HasSubstr("12 x 2 x 2 numbers"), HasSubstr("found 24")));
}

TEST_F(Load, TextFolder) {
  for (const char* name : {"t/adams/1797", "t/adams/1798", "t/obama/2009"})
    write(name, std::string(50, name[2]));
  write("t/.hidden/x", "no");
  write("other/x", std::string(30, 'x'));
  DataConfig config = config_of("text", path("t"));
  config.context = 10;
  auto split = good(load_data(config));
  EXPECT_EQ(split->train->size(), 12u);  // of 10 and 5 samples the last fifth is held out
  EXPECT_THAT(split->test->labels, ElementsAre(0, 0, 1));
  EXPECT_THAT(split->train->names, ElementsAre("adams", "obama"));
  config.partition = "by_label";
  const Shards shards = *partition(*split->train, 2, config, 1);
  EXPECT_EQ(shards[0].size(), 8u);
  EXPECT_THAT(label_counts(*split->train, shards)[1], ElementsAre(0, 4));
  EXPECT_THAT(shards_of_three(config, *split->train), HasSubstr("only 2 labels"));
  config.test_path = path("other");
  split = good(load_data(config));
  EXPECT_EQ(split->train->size(), 15u);
  EXPECT_EQ(split->test->size(), 3u);
  config.test_path = "";
  config.test_share = 0.01;
  EXPECT_THAT(error_of(config), HasSubstr("leave none for the test set"));
  EXPECT_THAT(error_of(config_of("text", path("no"))), HasSubstr("scripts/fetch-data sotu"));
}

TEST_F(Load, TextOfEverySitesOwn) {
  for (const char* name : {"a/x", "b/x", "b/y", "c/z"}) write(name, std::string(20, 'q'));
  DataConfig config = config_of("text");
  config.context = 5;
  config.test_path = path("c");
  config.partition = "local";
  auto local = good(load_local(config, std::vector{"a"s, "b"s}, std::vector{path("a"), path("b")}));
  EXPECT_THAT(local->split.train->names, ElementsAre("x", "y"));
  EXPECT_EQ(local->shards[1].size(), 8u);
  EXPECT_EQ(local->split.test->size(), 4u);
}

TEST_F(Load, CifarFolder) {
  for (int i = 1; i <= 5; ++i)
    write("c/data_batch_" + std::to_string(i) + ".bin", std::string(2 * 3073, char(i)));
  write("c/test_batch.bin", std::string(3073, char(9)));
  auto split = good(load_data(config_of("cifar10", path("c"))));
  EXPECT_THAT(split->train->labels, ElementsAre(1, 1, 2, 2, 3, 3, 4, 4, 5, 5));
  EXPECT_THAT(split->test->labels, ElementsAre(9));
  EXPECT_EQ(row_of(*split->train, 9)[7], row_of(*split->train, 8)[7]);
}

TEST_F(Load, OwnIdxWithAndWithoutTestFiles) {
  write_idx("own", "train", 20, 4);
  auto split = good(load_data(config_of("idx", path("own"))));
  EXPECT_EQ(split->train->size(), 16u);
  EXPECT_EQ(split->test->size(), 4u);
  write_idx("own", "t10k", 3, 3);
  split = load_data(config_of("idx", path("own")));
  EXPECT_EQ(split->train->size(), 20u);
  EXPECT_EQ(split->test->shape.outputs, 4);
  write_idx("other", "t10k", 6, 6);
  DataConfig config = config_of("idx", path("own"));
  config.test_path = path("other");
  EXPECT_THAT(error_of(config), HasSubstr("expected a label from 0 to 3, found 4"));
}

TEST_F(Load, CsvTestFileIsReadLikeTheTrainingFile) {
  DataConfig config = config_of("csv", write("a.csv", "1,no\n2,yes\n3,no\n"));
  config.test_path = write("b.csv", "5,yes\n");
  auto split = good(load_data(config));
  EXPECT_THAT(split->test->labels, ElementsAre(1));
  write("b.csv", "5,yes\n6,maybe\n");
  EXPECT_THAT(error_of(config), HasSubstr("b.csv:2:3: expected one of the labels 'no', 'yes'"));
  write("b.csv", "5,6,yes\n");
  EXPECT_THAT(error_of(config),
              AllOf(HasSubstr("b.csv:1: expected the columns of"), HasSubstr("not there: '2'")));
}

TEST_F(Load, CsvIsStandardisedByTheTrainingSamplesAlone) {
  DataConfig config = config_of("csv", write("a.csv", "x,y,kind\n10,5,no\n30,5,yes\n"));
  config.test_path = write("b.csv", "x,y,kind\n40,6,yes\n");
  config.standardise = true;
  auto split = good(load_data(config));
  EXPECT_THAT(split->train->features, ElementsAre(-1, 0, 1, 0));
  EXPECT_THAT(split->test->features, ElementsAre(2, 0));
  EXPECT_THAT(split->train->columns, ElementsAre("x", "y"));
  EXPECT_EQ(split->scales[0].mean, 20);
  config.standardise = false;
  EXPECT_THAT(load_data(config)->test->features, ElementsAre(40, 6));
}

TEST_F(Load, ColumnsOfTheTestFileAreFoundByName) {
  DataConfig config = config_of("csv", write("a.csv", "x,y,kind\n10,5,no\n30,5,yes\n"));
  config.test_path = write("b.csv", "kind,y,x\nyes,6,40\n");
  config.target = {"3"};  // of the training file
  const auto split = good(load_data(config));
  EXPECT_THAT(split->test->features, ElementsAre(40, 6));
  EXPECT_THAT(split->test->labels, ElementsAre(1));
}

TEST_F(Load, MissingCellsBecomeTheMeanOfTheTrainingSamples) {
  DataConfig config = config_of("csv", write("a.csv", "x,y,kind\n10,5,no\nNA,8,yes\n30,?,yes\n"));
  config.test_path = write("b.csv", "x,y,kind\n,6,yes\n");
  config.missing = "mean";
  const auto split = good(load_data(config));
  EXPECT_THAT(split->train->features, ElementsAre(10, 5, 20, 8, 30, 6.5f));
  EXPECT_THAT(split->test->features, ElementsAre(20, 6));
  write("a.csv", "x,y,kind\nNA,5,no\nNA,8,yes\n");
  EXPECT_THAT(error_of(config), HasSubstr("a.csv: column 'x' is missing in all training samples"));
}

TEST_F(Load, AHeldOutShareDoesNotReachTheMeans) {
  std::string text;
  for (int i = 0; i < 10; ++i) text += std::to_string(i * i) + "," + std::to_string(i % 2) + "\n";
  DataConfig config = config_of("csv", write("a.csv", text));
  const auto raw = load_data(config);
  config.standardise = true;
  const auto split = good(load_data(config));
  double sum = 0, squares = 0;
  for (const float x : split->train->features) sum += x, squares += x * x;
  EXPECT_NEAR(sum, 0, 1e-5);
  EXPECT_NEAR(squares, double(split->train->size()), 1e-5);
  for (std::size_t i = 0; i < split->test->size(); ++i)
    EXPECT_FLOAT_EQ(split->test->features[i],
                    float((raw->test->features[i] - split->scales[0].mean) / split->scales[0].std));
}

TEST_F(Load, SitesWithFilesOfTheirOwnHaveOneScale) {
  DataConfig config = config_of("csv");
  config.partition = "local";
  config.classes = 2;
  config.standardise = true;
  config.test_path = write("t.csv", "y,b,x\n1,40,2\n");
  config.target = {"y"};
  const std::vector names = {"one"s, "two"s};
  const std::vector paths = {write("a.csv", "x,b,y\n1,10,0\n2,20,1\n"),
                             write("b.csv", "b,y,x\n30,1,3\n")};
  const auto local = good(load_local(config, names, paths));
  const float far = 1 / std::sqrt(2.0f / 3);
  EXPECT_THAT(local->split.train->features, Pointwise(FloatEq(), {-far, -far, 0.f, 0.f, far, far}));
  EXPECT_THAT(local->split.train->labels, ElementsAre(0, 1, 1));
  EXPECT_THAT(local->split.test->features, Pointwise(FloatEq(), {0.f, 2 * far}));
  EXPECT_EQ(local->split.scales[1].mean, 20);
  write("b.csv", "c,y,x\n30,1,3\n");
  EXPECT_THAT(load_local(config, names, paths).error().what,
              AllOf(HasSubstr("t.csv:1: expected the columns of"), HasSubstr("missing: 'c'")));
  config.test_path.clear();
  config.test_share = 0.5;
  write("b.csv", "c,y,x\n30,1,3\n1,0,1\n");
  EXPECT_THAT(load_local(config, names, paths).error().what, HasSubstr("the second lacks 'b'"));
}

TEST_F(Load, LibsvmTestFileMayHoldFewerIndices) {
  DataConfig config = config_of("libsvm", write("a.svm", "1 1:1 5:1\n-1 2:1\n"));
  config.test_path = write("b.svm", "-1 1:1\n");
  EXPECT_EQ(load_data(config)->test->shape.width(), 5u);
  write("b.svm", "-1 6:1\n");
  EXPECT_THAT(error_of(config), HasSubstr("an index from 1 to 5 (more: set [data] features)"));
}

TEST_F(Load, HeldOutShareIsApartAndFixed) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += std::to_string(i) + "," + std::to_string(i % 2) + "\n";
  DataConfig config = config_of("csv", write("a.csv", text));
  auto split = good(load_data(config));
  EXPECT_EQ(split->train->size(), 80u);
  EXPECT_EQ(split->test->size(), 20u);
  std::set<float> all(split->train->features.begin(), split->train->features.end());
  all.insert(split->test->features.begin(), split->test->features.end());
  EXPECT_EQ(all.size(), 100u);
  EXPECT_EQ(load_data(config)->test->features, split->test->features);
  config.data_seed = 2;
  EXPECT_NE(load_data(config)->test->features, split->test->features);
  config.test_share = 0.001;
  EXPECT_THAT(error_of(config), HasSubstr("none for the test set"));
}

TEST_F(Load, LocalFilesAreTheShards) {
  DataConfig config = config_of("csv");
  config.partition = "local";
  config.classes = 3;
  config.test_path = write("test.csv", "9,2\n");
  const std::vector paths = {write("a.csv", "1,0\n2,0\n"), write("b.csv", "3,1\n4,2\n5,1\n")};
  auto local = good(load_local(config, std::vector{"a"s, "b"s}, paths));
  EXPECT_THAT(local->split.train->labels, ElementsAre(0, 0, 1, 2, 1));
  EXPECT_THAT(local->split.test->labels, ElementsAre(2));
  EXPECT_THAT(local->shards, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3, 4)));
  auto alone = good(load_site(config, paths[1]));
  EXPECT_EQ(alone->train.shape, local->split.train->shape);
  EXPECT_EQ(row_of(alone->train, 0), row_of(*local->split.train, 2));
  write("b.csv", "3,1,1\n4,1,2\n");
  EXPECT_FALSE(load_local(config, std::vector{"a"s, "b"s}, paths));
}

TEST_F(Load, LocalShareIsHeldOutBySite) {
  DataConfig config = config_of("libsvm");
  config.partition = "local";
  config.labels = {"-1", "+1"};
  config.features = 2;
  config.test_share = 0.5;
  const std::vector paths = {write("a", "1 1:1\n1 1:2\n1 1:3\n1 1:4\n"),
                             write("b", "-1 2:1\n1 1:1\n")};
  auto local = good(load_local(config, std::vector{"a"s, "b"s}, paths));
  EXPECT_THAT(local->shards, ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
  EXPECT_THAT(local->tests, ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
  EXPECT_EQ(local->split.test->size(), 3u);
}

TEST_F(Load, LocalNeedsWhatASiteCannotKnow) {
  const std::vector paths = {write("a.csv", "1,0\n2,1\n")};
  auto error = [&](const DataConfig& config) { return load_site(config, paths[0]).error().what; };
  EXPECT_THAT(error(config_of("csv")), HasSubstr("expected labels = [...] or classes"));
  EXPECT_THAT(error(config_of("idx")), HasSubstr("expected classes"));
  DataConfig config = config_of("libsvm");
  config.task = "regression";
  EXPECT_THAT(error(config), HasSubstr("expected features"));
  EXPECT_THAT(error(config_of("synthetic")), HasSubstr("has no files"));
}

TEST(Synthetic, ATeacherIsRefusedForRegression) {
  DataConfig config = config_of("synthetic");
  config.teacher = true;
  config.task = "regression";
  EXPECT_THAT(failure(load_data(config)).what, HasSubstr("teacher = true"));
}

TEST(Synthetic, ClustersAndScaleAreOfSamplesAroundMeans) {
  DataConfig config = config_of("synthetic");
  config.features = 3;
  config.classes = 2;
  config.samples = 12;
  config.noise = 0;
  config.clusters = 3;
  const DataSet data = *load_data(config)->train;
  EXPECT_EQ(data.labels, (std::vector<std::int64_t>{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(row_of(data, 1), row_of(data, 7));
  EXPECT_NE(row_of(data, 0), row_of(data, 1));
  config.scale = 0.5;
  EXPECT_FLOAT_EQ(load_data(config)->train->features[4], 0.5f * data.features[4]);
  config.teacher = true;
  EXPECT_THAT(load_data(config).error().what, HasSubstr("clusters"));
}

TEST(Synthetic, ATeacherLabelsWhatItSees) {
  DataConfig config = config_of("synthetic");
  config.features = 20;
  config.noise = 0;
  config.teacher = true;
  const auto plain = load_data(config);
  EXPECT_NE(plain->test->features[0], plain->train->features[0]);
  const auto& labels = plain->train->labels;
  EXPECT_GE(std::set(labels.begin(), labels.end()).size(), 8u);
  config.noise = 1;
  EXPECT_NE(load_data(config)->train->labels, labels);
  config.noise = 0;
  config.samples = 100;
  const auto fewer = load_data(config);
  EXPECT_TRUE(std::ranges::equal(fewer->train->labels, std::span(labels).first(100)));
}

TEST_F(Load, SyntheticClassesAreApartAndTheTestSetIsOther) {
  DataConfig config = config_of("synthetic");
  config.samples = 300;
  config.test_samples = 100;
  config.noise = 0.5;
  auto split = good(load_data(config));
  EXPECT_EQ(split->train->shape, (DataShape{{32}, 10, Task::classification}));
  EXPECT_EQ(split->test->size(), 100u);
  EXPECT_NE(row_of(*split->train, 0), row_of(*split->test, 0));
  int right = 0;  // the nearest sample of the training set has the label
  for (std::size_t i = 0; i < 100; ++i) {
    std::size_t nearest = 0;
    double least = 1e9;
    for (std::size_t j = 0; j < 300; ++j) {
      const auto a = row_of(*split->test, i), b = row_of(*split->train, j);
      double distance = 0;
      for (std::size_t k = 0; k < a.size(); ++k) distance += std::pow(double(a[k]) - b[k], 2);
      if (distance < least) least = distance, nearest = j;
    }
    right += split->test->labels[i] == split->train->labels[nearest];
  }
  EXPECT_GE(right, 98);
  EXPECT_EQ(load_data(config)->train->features, split->train->features);
  config.data_seed = 2;
  EXPECT_NE(load_data(config)->train->features, split->train->features);
}

TEST_F(Load, SyntheticNumbersFollowOneTeacher) {
  DataConfig config = config_of("synthetic");
  config.task = "regression";
  config.features = 1;
  config.samples = config.test_samples = 50;
  config.noise = 0;
  const auto split = load_data(config);
  const DataSet &train = *split->train, &test = *split->test;
  const float slope =
      (train.targets[1] - train.targets[0]) / (train.features[1] - train.features[0]);
  for (std::size_t i = 0; i < 50; ++i)
    EXPECT_NEAR(test.targets[i], train.targets[0] + slope * (test.features[i] - train.features[0]),
                1e-4);
}

TEST_F(Load, SyntheticImagesAndLimits) {
  DataConfig config = config_of("synthetic");
  config.sample = {1, 28, 28};
  config.samples = longhaul::testing::kGate ? 60 : config.samples;
  EXPECT_EQ(load_data(config)->test->shape.sample, (std::vector<std::int64_t>{1, 28, 28}));
  config.sample = {4096, 4096, 4096};
  EXPECT_THAT(error_of(config), HasSubstr("more than a GiB"));
}

Settings table(std::vector<Setting> entries) {
  for (Setting& entry : entries) entry.file = "job.toml", entry.line = 5;
  return {"data", "job.toml", 4, std::move(entries)};
}
std::string read_error(std::vector<Setting> entries) {
  auto config = read_data(table(std::move(entries)));
  return config ? "no error" : config.error().what;
}
Value text(const char* value) { return {std::string(value)}; }
Value number(double value) { return {value}; }
Value list(std::vector<Value> values) { return {std::move(values)}; }

TEST(ReadData, TableOfTheDesign) {
  auto config = good(read_data(table({{"kind", text("mnist"), "", 0},
                                      {"path", text("data/mnist"), "", 0},
                                      {"partition", text("dirichlet"), "", 0},
                                      {"alpha", number(0.25), "", 0},
                                      {"batch", {std::int64_t{64}}, "", 0}})));
  EXPECT_EQ(config->alpha, 0.25);
  EXPECT_EQ(config->batch, 64u);
  EXPECT_EQ(config->partition, "dirichlet");
}

TEST(ReadData, ErrorsNameLineAndKey) {
  auto kind = [](const char* name) { return Setting{"kind", text(name), "", 0}; };
  EXPECT_THAT(read_error({kind("mnits")}),
              AllOf(HasSubstr("job.toml:5: [data] kind"), HasSubstr("did you mean 'mnist'")));
  EXPECT_THAT(read_error({kind("mnist"), {"partiton", text("iid"), "", 0}}),
              HasSubstr("[data] partiton: unknown key; did you mean 'partition'"));
  EXPECT_THAT(read_error({kind("mnist"), {"target", text("y"), "", 0}}),
              HasSubstr("[data] target: expected no such key with kind = \"mnist\": it belongs to "
                        "csv"));
  EXPECT_THAT(read_error({kind("synthetic"), {"sample", list({number(3)}), "", 0}}),
              HasSubstr("[data] sample: expected [channels, height, width]"));
  EXPECT_THAT(read_error({kind("csv"), {"labels", list({text("1"), text("+1.0")}), "", 0}}),
              HasSubstr("[data] labels: expected two labels or more, none twice"));
  EXPECT_THAT(read_error({kind("idx"), {"std", list({number(1)}), "", 0}}),
              HasSubstr("[data] std: expected as many numbers as in [data] mean"));
  EXPECT_THAT(read_error({kind("csv"), {"classes", {std::int64_t{1}}, "", 0}}),
              HasSubstr("[data] classes: expected two classes or more"));
}

// Every key belongs to a kind or to all, and every kind's keys exist.
TEST(ReadData, RegistryAndFieldsAgree) {
  const auto fields = field_names<DataConfig>();
  const std::set<std::string_view> known(fields.begin(), fields.end());
  std::set<std::string_view> used = {"kind"};
  used.insert(common_data_keys().begin(), common_data_keys().end());
  for (const DataEntry& entry : data_registry()) used.insert(entry.keys.begin(), entry.keys.end());
  EXPECT_EQ(used, known);
}

}  // namespace
}  // namespace longhaul::learn
