#include "longhaul/learn/data/csv.h"

#include <gmock/gmock.h>

namespace longhaul::learn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<DataSet> read(std::string_view text, const CsvOptions& options = {}) {
  return read_csv(text, "f.csv", options);
}
std::string csv_error(std::string_view text, const CsvOptions& options = {}) {
  auto data = read(text, options);
  return data ? "no error" : data.error().what;
}
CsvOptions numbers(std::string column = "") {
  return {{.task = Task::regression}, std::move(column), {}, {}};
}

constexpr std::string_view kIris =
    "\xef\xbb\xbf"
    "length, width ,kind\r\n5.1,3.5,setosa\r\n\r\n7,3.2,\"versi, color\"\r\n6,-1,setosa";

TEST(Csv, HeaderIsDetectedAndLabelsAreNames) {
  auto data = read(kIris);
  ASSERT_TRUE(data);
  EXPECT_EQ(data->shape, (DataShape{{2}, 2, Task::classification}));
  EXPECT_THAT(data->features, ElementsAre(5.1f, 3.5f, 7, 3.2f, 6, -1));
  EXPECT_THAT(data->labels, ElementsAre(0, 1, 0));
  EXPECT_THAT(data->names, ElementsAre("setosa", "versi, color"));
}

TEST(Csv, NumbersAsLabelsAreSortedAsNumbers) {
  auto data = read("0.5,10\n0.5,9\n0.5,-1\n");
  ASSERT_TRUE(data);
  EXPECT_THAT(data->names, ElementsAre("-1", "9", "10"));
  EXPECT_THAT(data->labels, ElementsAre(2, 1, 0));
}

TEST(Csv, TargetByNameOrNumberAndIgnoredColumns) {
  constexpr std::string_view text = "id;x;y;z\na;1;2;3\nb;4;5;6\n";
  CsvOptions options = numbers("y");
  options.ignore = {"id"};
  auto data = read(text, options);
  ASSERT_TRUE(data) << csv_error(text, options);
  EXPECT_THAT(data->targets, ElementsAre(2, 5));
  EXPECT_THAT(data->features, ElementsAre(1, 3, 4, 6));
  options.column = "2";
  EXPECT_THAT(read(text, options)->targets, ElementsAre(1, 4));
  options.column = "zz";
  EXPECT_THAT(csv_error(text, options),
              HasSubstr("f.csv:1: [data] target: no column 'zz'; did you mean"));
  options.column = "id";
  EXPECT_THAT(csv_error(text, options), HasSubstr("column 1 is both"));
  EXPECT_THAT(csv_error("1,2\n", numbers("3")), HasSubstr("no column '3' (columns: 1 to 2; no he"));
}

// Columns called 0, 1, 2: a header only if the user says so.
TEST(Csv, HeaderCanBeSet) {
  constexpr std::string_view text = "0,1,2\n5,6,7\n";
  EXPECT_EQ(read(text, numbers())->size(), 2u);
  CsvOptions options = numbers("0");
  options.header = true;
  auto data = read(text, options);
  ASSERT_TRUE(data);
  EXPECT_THAT(data->targets, ElementsAre(5));
  options = {{.labels = {"a", "b"}}, "", {}, false};
  EXPECT_THAT(csv_error("x,a\n", options), HasSubstr("f.csv:1:1: expected a number in column 1"));
}

TEST(Csv, ErrorsNameLineAndColumn) {
  EXPECT_THAT(csv_error("a,b\n1,2\n3,4,5\n"),
              HasSubstr("f.csv:3: expected 2 columns as in the first "
                        "line, found 3"));
  EXPECT_THAT(csv_error("a,b\n1,x\n NA,y\n"),
              HasSubstr("f.csv:3:2: expected a number in column 'a' (or leave it out: [data] "
                        "ignore), found 'NA'"));
  EXPECT_THAT(csv_error("1,,3\n"), HasSubstr("f.csv:1:3: expected a number in column 2"));
  EXPECT_THAT(csv_error("1,2\n1,\n"), HasSubstr("f.csv:2:3: expected a label, found nothing"));
  EXPECT_THAT(csv_error("1,2\n1,z\n", numbers()),
              HasSubstr("f.csv:2:3: expected a number, found 'z'"));
  EXPECT_THAT(csv_error("1,\"2\n"), HasSubstr("f.csv:1:3: expected a quote that ends on its line"));
  EXPECT_THAT(csv_error("1,\"2\"3\n"),
              HasSubstr("f.csv:1:6: expected a separator after the quote"));
  EXPECT_THAT(csv_error("1,\x01\xff\n2,\xff\n", {{.labels = {"a", "b"}}, "", {}, {}}),
              HasSubstr("found '\\x01\\xff'"));
}

TEST(Csv, FilesWithoutUseAreErrors) {
  EXPECT_THAT(csv_error(""), HasSubstr("f.csv: expected samples, found none"));
  EXPECT_THAT(csv_error("a,b\n"), HasSubstr("expected samples, found none"));
  EXPECT_THAT(csv_error("1\n2\n"), HasSubstr("expected at least one column beside the target"));
  EXPECT_THAT(csv_error("1,0.25\n"), HasSubstr("task = \"regression\""));
}

TEST(Csv, EveryBeginningIsAValueOrAnError) {
  for (std::size_t size = 0; size <= kIris.size(); ++size) {
    auto data = read(kIris.substr(0, size));
    if (data)
      EXPECT_EQ(data->features.size(), data->size() * data->shape.width());
    else
      EXPECT_THAT(data.error().what, HasSubstr("f.csv:"));
  }
}

}  // namespace
}  // namespace longhaul::learn
