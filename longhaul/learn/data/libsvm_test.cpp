#include "longhaul/learn/data/libsvm.h"

#include <gmock/gmock.h>

#include "longhaul/base/testing/result.h"

namespace longhaul::learn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<DataSet> read_text(std::string_view text, const LibsvmOptions& options = {}) {
  return read_libsvm(text, "f.svm", options);
}
std::string libsvm_error(std::string_view text, const LibsvmOptions& options = {}) {
  auto data = read_text(text, options);
  return data ? "no error" : data.error().what;
}
LibsvmOptions to_numbers() { return {{.task = Task::regression}, 0}; }

TEST(Libsvm, SparseRowsBecomeDense) {
  auto data = good(read_text("+1 1:0.5 3:-2\r\n\n-1\t2:1e-3  # a comment\n# another\n1.0\n"));
  EXPECT_EQ(data->shape, (DataShape{{3}, 2, Task::classification}));
  EXPECT_THAT(data->names, ElementsAre("-1", "1"));
  EXPECT_THAT(data->labels, ElementsAre(1, 0, 1));
  EXPECT_THAT(data->features, ElementsAre(0.5f, 0, -2, 0, 1e-3f, 0, 0, 0, 0));
}

TEST(Libsvm, NumbersToFit) {
  auto data = good(read_text("0.25 1:1\n-3e2 2:1", to_numbers()));
  EXPECT_EQ(data->shape, (DataShape{{2}, 1, Task::regression}));
  EXPECT_THAT(data->targets, ElementsAre(0.25f, -300.0f));
}

TEST(Libsvm, LabelsAndWidthCanBeGiven) {
  const LibsvmOptions options{{.labels = {"3", "2", "1"}}, 4};
  auto data = good(read_text("1 1:1\n+3 2:1\n", options));
  EXPECT_EQ(data->shape, (DataShape{{4}, 3, Task::classification}));
  EXPECT_THAT(data->labels, ElementsAre(2, 0));
  EXPECT_THAT(libsvm_error("1 1:1\n4 2:1\n", options),
              HasSubstr("f.svm:2:1: expected one of the labels '3', '2', '1', found '4'"));
  EXPECT_THAT(libsvm_error("1 5:1\n", options),
              HasSubstr("1:3: expected an index from 1 to 4 (more: "));
}

TEST(Libsvm, ErrorsNameLineAndColumn) {
  EXPECT_THAT(libsvm_error("1 1:1\nx 1:1\n"),
              HasSubstr("f.svm:2:1: expected a number as the label"));
  EXPECT_THAT(libsvm_error("1 1:1 7\n"), HasSubstr("f.svm:1:7: expected INDEX:VALUE, found '7'"));
  EXPECT_THAT(libsvm_error("1 0:1\n"), HasSubstr("an index from 1 to 16777216, found '0:1'"));
  EXPECT_THAT(libsvm_error("1 -1:1\n"), HasSubstr("an index from 1"));
  EXPECT_THAT(libsvm_error("1 99999999999999999999:1\n"), HasSubstr("an index from 1"));
  EXPECT_THAT(libsvm_error("1 qid:3 1:1\n"), HasSubstr("an index from 1"));
  EXPECT_THAT(libsvm_error("1 2:1 2:3\n"),
              HasSubstr("1:7: expected indices that ascend (the last was "
                        "2), found '2:3'"));
  for (const char* value : {"1 1:\n", "1 1:nan", "1 1:inf", "1 1:1e999", "1 1:1e39", "1 1:0x1",
                            "1 1:1,5", "1 1:++1", "1 1:+-1", "1 1:2:3"})
    EXPECT_THAT(libsvm_error(value), HasSubstr("1:3: expected a number after the colon")) << value;
}

TEST(Libsvm, FilesWithoutUseAreErrors) {
  EXPECT_THAT(libsvm_error(""), HasSubstr("f.svm: expected samples, found none"));
  EXPECT_THAT(libsvm_error("# nothing\n\n"), HasSubstr("expected samples, found none"));
  EXPECT_THAT(libsvm_error("1\n2\n"), HasSubstr("expected samples with features"));
  EXPECT_THAT(libsvm_error("1 1:1\n1 1:2\n"), HasSubstr("all samples have the label '1'"));
  EXPECT_THAT(libsvm_error("0.5 1:1\n"), HasSubstr("task = \"regression\""));
  std::string many;
  for (int i = 0; i < 1001; ++i) many += std::to_string(i) + " 1:1\n";
  EXPECT_THAT(libsvm_error(many), HasSubstr("f.svm:1001:1: expected at most 1000 labels"));
}

// 40 KB of text that ask for 10,000 rows of 16,777,216 to_numbers.
TEST(Libsvm, MemoryIsBoundedByTheText) {
  std::string text = "1 16777216:1\n";
  for (int i = 0; i < 10000; ++i) text += "2\n";
  EXPECT_THAT(libsvm_error(text), HasSubstr("10001 samples of 16777216 features are too sparse"));
}

TEST(Libsvm, EveryBeginningIsAValueOrAnError) {
  const std::string text = "+1 1:0.5 3:-2\r\n-1 2:1e-3 # c\n2 7:8\n";
  for (std::size_t size = 0; size <= text.size(); ++size) {
    auto data = read_text(std::string_view(text).substr(0, size));
    if (data)
      EXPECT_EQ(data->features.size(), data->size() * data->shape.width());
    else
      EXPECT_THAT(data.error().what, HasSubstr("f.svm:"));
  }
}

}  // namespace
}  // namespace longhaul::learn
