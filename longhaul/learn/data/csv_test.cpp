#include "longhaul/learn/data/csv.h"

#include <gmock/gmock.h>

#include <cmath>

#include "longhaul/base/testing/result.h"

namespace longhaul::learn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<DataSet> read(std::string_view text, const CsvOptions& options = {}) {
  return read_csv(text, "f.csv", options);
}
std::string csv_error(std::string_view text, const CsvOptions& options = {}) {
  auto data = read(text, options);
  return data ? "no error" : data.error().what;
}
CsvOptions numbers(std::vector<std::string> columns = {}) {
  return {.target = {.task = Task::regression}, .columns = std::move(columns)};
}

TEST(Csv, SeveralTargetsAreNumbersOrLabelsOfEachSample) {
  constexpr std::string_view text = "up,x,down\n1,5,0\n0,6,0\n";
  CsvOptions options = numbers({"down", "up"});
  auto data = read(text, options);
  ASSERT_TRUE(data) << csv_error(text, options);
  EXPECT_EQ(data->shape, (DataShape{{1}, 2, Task::regression}));
  EXPECT_THAT(data->targets, ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(data->target_columns, ElementsAre("down", "up"));
  EXPECT_EQ(data->size(), 2u);
  options.target.task = Task::multilabel;
  auto labels = read(text, options);
  ASSERT_TRUE(labels) << csv_error(text, options);
  EXPECT_EQ(labels->shape, (DataShape{{1}, 2, Task::multilabel}));
  EXPECT_EQ(labels->targets, data->targets);
  EXPECT_THAT(take_rows(*labels, std::vector{0u}).targets, ElementsAre(0, 1));
  EXPECT_THAT(csv_error("up,x,down\n1,5,2\n", options),
              HasSubstr("f.csv:2:5: expected 0 or 1 ([data] loss = \"bce\"), found '2'"));
  options.columns = {"up", "1"};
  EXPECT_THAT(csv_error(text, options), HasSubstr("f.csv:1: column 1 is twice in [data] target"));
  // The test set's columns are found by name, in any order.
  options.columns = {"down", "up"};
  options.like = &*labels;
  auto test = read("x,down,up\n7,1,0\n", options);
  ASSERT_TRUE(test) << csv_error("x,down,up\n7,1,0\n", options);
  EXPECT_THAT(test->targets, ElementsAre(1, 0));
}

TEST(Csv, ALineWithoutOneOfItsTargetsIsDropped) {
  CsvOptions options = numbers({"a", "b"});
  options.missing = Missing::drop;
  auto data = good(read("a,x,b\n1,2,NA\n3,4,5\n", options));
  EXPECT_THAT(data->targets, ElementsAre(3, 5));
  EXPECT_EQ(data->dropped, 1u);
}

constexpr std::string_view kIris =
    "\xef\xbb\xbf"
    "length, width ,kind\r\n5.1,3.5,setosa\r\n\r\n7,3.2,\"versi, color\"\r\n6,-1,setosa";

TEST(Csv, HeaderIsDetectedAndLabelsAreNames) {
  auto data = good(read(kIris));
  EXPECT_EQ(data->shape, (DataShape{{2}, 2, Task::classification}));
  EXPECT_THAT(data->features, ElementsAre(5.1f, 3.5f, 7, 3.2f, 6, -1));
  EXPECT_THAT(data->labels, ElementsAre(0, 1, 0));
  EXPECT_THAT(data->names, ElementsAre("setosa", "versi, color"));
}

TEST(Csv, NumbersAsLabelsAreSortedAsNumbers) {
  auto data = good(read("0.5,10\n0.5,9\n0.5,-1\n"));
  EXPECT_THAT(data->names, ElementsAre("-1", "9", "10"));
  EXPECT_THAT(data->labels, ElementsAre(2, 1, 0));
}

TEST(Csv, TargetByNameOrNumberAndIgnoredColumns) {
  constexpr std::string_view text = "id;x;y;z\na;1;2;3\nb;4;5;6\n";
  CsvOptions options = numbers({"y"});
  options.ignore = {"id"};
  auto data = read(text, options);
  ASSERT_TRUE(data) << csv_error(text, options);
  EXPECT_THAT(data->targets, ElementsAre(2, 5));
  EXPECT_THAT(data->features, ElementsAre(1, 3, 4, 6));
  options.columns = {"2"};
  EXPECT_THAT(read(text, options)->targets, ElementsAre(1, 4));
  options.columns = {"zz"};
  EXPECT_THAT(csv_error(text, options),
              HasSubstr("f.csv:1: [data] target: no column 'zz'; did you mean"));
  options.columns = {"id"};
  EXPECT_THAT(csv_error(text, options), HasSubstr("column 1 is both"));
  EXPECT_THAT(csv_error("1,2\n", numbers({"3"})),
              HasSubstr("no column '3' (columns: 1 to 2; no he"));
}

// Columns called 0, 1, 2: a header only if the user says so.
TEST(Csv, HeaderCanBeSet) {
  constexpr std::string_view text = "0,1,2\n5,6,7\n";
  EXPECT_EQ(read(text, numbers())->size(), 2u);
  CsvOptions options = numbers({"0"});
  options.header = true;
  auto data = good(read(text, options));
  EXPECT_THAT(data->targets, ElementsAre(5));
  options = {.target = {.labels = {"a", "b"}}, .header = false};
  EXPECT_THAT(csv_error("x,a\n", options), HasSubstr("f.csv:1:1: expected a number in column 1"));
}

TEST(Csv, ErrorsNameLineAndColumn) {
  EXPECT_THAT(csv_error("a,b\n1,2\n3,4,5\n"),
              HasSubstr("f.csv:3: expected 2 columns as in the first "
                        "line, found 3"));
  EXPECT_THAT(csv_error("a,b\n1,x\n NA,y\n"),
              HasSubstr("f.csv:3:2: expected a number in column 'a', found 'NA'; [data] missing = "
                        "\"drop\" leaves such samples out, \"mean\" fills them"));
  EXPECT_THAT(csv_error("1,,3\n"), HasSubstr("f.csv:1:3: expected a number in column 2"));
  EXPECT_THAT(csv_error("1,2\n1,\n"), HasSubstr("f.csv:2:3: expected a label, found nothing"));
  EXPECT_THAT(csv_error("1,2\n1,z\n", numbers()),
              HasSubstr("f.csv:2:3: expected a number, found 'z'"));
  EXPECT_THAT(csv_error("1,\"2\n"), HasSubstr("f.csv:1:3: expected a quote that ends on its line"));
  EXPECT_THAT(csv_error("1,\"2\"3\n"),
              HasSubstr("f.csv:1:6: expected a separator after the quote"));
  EXPECT_THAT(csv_error("1,\x01\xff\n2,\xff\n", {.target = {.labels = {"a", "b"}}}),
              HasSubstr("found '\\x01\\xff'"));
}

TEST(Csv, FilesWithoutUseAreErrors) {
  EXPECT_THAT(csv_error(""), HasSubstr("f.csv: expected samples, found none"));
  EXPECT_THAT(csv_error("a,b\n"), HasSubstr("expected samples, found none"));
  EXPECT_THAT(csv_error("1\n2\n"), HasSubstr("expected at least one column beside the target"));
  EXPECT_THAT(csv_error("1,0.25\n"), HasSubstr("task = \"regression\""));
}

// A year for a name, above a number; a name above no number.
TEST(Csv, ANameAboveANumberMakesAHeader) {
  auto data = read("age,2019,y\n1,2,0\n3,4,1\n");
  ASSERT_TRUE(data);
  EXPECT_THAT(data->columns, ElementsAre("age", "2019"));
  EXPECT_THAT(data->features, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(data->target_columns, ElementsAre("y"));
  data = read("1,2,cat\n3,4,dog\n");
  ASSERT_TRUE(data);
  EXPECT_EQ(data->size(), 2u);
  EXPECT_THAT(data->target_columns, IsEmpty());
  EXPECT_THAT(csv_error("NA,2,0\n3,4,1\n"), HasSubstr("f.csv:1:1: expected a number in column 1"));
}

TEST(Csv, TheSeparatorStandsOutsideOfQuotesOrIsSaid) {
  auto data = read("\"a, b\";c;y\n1;2;0\n3;4;1\n");
  ASSERT_TRUE(data) << csv_error("\"a, b\";c;y\n1;2;0\n3;4;1\n");
  EXPECT_THAT(data->columns, ElementsAre("a, b", "c"));
  data = read("1|2|0\n3|4|1\n", {.separator = '|'});
  ASSERT_TRUE(data);
  EXPECT_THAT(data->features, ElementsAre(1, 2, 3, 4));
}

TEST(Csv, BadCellsAreCountedByColumn) {
  EXPECT_THAT(csv_error("a,b,y\n1,2,0\n3,x,1\n?,y,1\n4,NA,0\n"),
              HasSubstr("f.csv:3:3: expected a number in column 'b', found 'x'; cells like it by "
                        "column: 1 'a', 3 'b'; [data] missing ="));
  EXPECT_THAT(csv_error("a;b;y\n1,5;2;0\n3,25;4;1\n"),
              HasSubstr("found '1,5'; cells like it by column: 2 'a'; a decimal comma?"));
  EXPECT_THAT(csv_error("0,b,7\n1,2,0\n3,4,1\n", {.header = false}),
              HasSubstr("if the first line names the columns: [data] header = true"));
}

TEST(Csv, SamplesWithMissingCellsAreLeftOutOrKept) {
  constexpr std::string_view text = "a,b,y\n1,2,none\n,3,no\n4,NaN,no\n5,6,no\n";
  const auto dropped = good(read(text, {.missing = Missing::drop}));
  EXPECT_THAT(dropped->features, ElementsAre(1, 2, 5, 6));
  EXPECT_EQ(dropped->dropped, 2u);
  EXPECT_THAT(dropped->names, ElementsAre("no", "none"));
  const auto kept = good(read(text, {.missing = Missing::mean}));
  EXPECT_EQ(kept->size(), 4u);
  EXPECT_TRUE(std::isnan(kept->features[2]) && std::isnan(kept->features[5]));
  EXPECT_EQ(kept->features[3], 3);
  EXPECT_THAT(csv_error("a,b,y\n,2,0\n", {.missing = Missing::drop}),
              HasSubstr("found none; 1 lines were left out"));
}

TEST(Csv, CategoriesAreANumberForEachValue) {
  constexpr std::string_view text = "a,colour,y\n1,red,0\n2,green,1\n3,red,1\n";
  const auto found = read(text, {.categorical = {"colour"}});
  ASSERT_TRUE(found) << csv_error(text, {.categorical = {"colour"}});
  EXPECT_THAT(found->columns, ElementsAre("a", "colour = green", "colour = red"));
  EXPECT_THAT(found->features, ElementsAre(1, 0, 1, 2, 1, 0, 3, 0, 1));
  const auto said = good(read(text, {.categorical = {"colour = red | none | green"}}));
  EXPECT_THAT(said->features, ElementsAre(1, 1, 0, 0, 2, 0, 0, 1, 3, 1, 0, 0));
  EXPECT_EQ(said->categories, (std::vector<Categories>{{"colour", {"red", "none", "green"}, 1}}));
  EXPECT_THAT(csv_error(text, {.categorical = {"colour = red | blue"}}),
              HasSubstr("f.csv:3:3: expected one of 'red', 'blue' in column 'colour', found 'gr"));
  EXPECT_THAT(csv_error(text, {.categorical = {"y"}}), HasSubstr("is the target"));
  EXPECT_THAT(csv_error(text, {.categorical = {"color"}}), HasSubstr("did you mean"));
}

TEST(Csv, ColumnsOfASecondFileAreFoundByName) {
  const auto train = good(read("a,colour,y\n1,red,0\n2,green,1\n", {.categorical = {"colour"}}));
  const CsvOptions like{.target = {.labels = train->names}, .like = &*train, .like_name = "d.csv"};
  const auto test = read("y,colour,a\n1,red,7\n", like);
  ASSERT_TRUE(test) << csv_error("y,colour,a\n1,red,7\n", like);
  EXPECT_EQ(test->columns, train->columns);
  EXPECT_THAT(test->features, ElementsAre(7, 0, 1));
  EXPECT_THAT(test->labels, ElementsAre(1));
  EXPECT_THAT(csv_error("colour,b,y\nred,1,0\n", like),
              HasSubstr("f.csv:1: expected the columns of d.csv; missing: 'a'; not there: 'b'"));
  EXPECT_THAT(csv_error("7,8,1\n", like),
              HasSubstr("has no header, and d.csv has one: columns are matched by name; expected "
                        "the columns 'a', 'colour', 'y'"));
  EXPECT_THAT(csv_error("a,colour,y\n1,blue,0\n", like), HasSubstr("one of 'green', 'red'"));
  EXPECT_THAT(csv_error("a,a,y\n1,2,0\n"), HasSubstr("two columns are called 'a'"));
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
