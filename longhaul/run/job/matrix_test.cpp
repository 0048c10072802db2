// Every kind of bad matrix: an Error that names file, line, column and what was expected.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "longhaul/run/job/matrix_wan.h"

namespace longhaul::run {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string matrix_error(std::string_view text) {
  auto matrix = parse_matrix(text, "rates.csv", kRateCells);
  return matrix ? "no error" : matrix.error().what;
}

TEST(Matrix, ReadsRowsAsSources) {
  auto matrix = parse_matrix("\xef\xbb\xbf# measured in May\r\nsrc, a ,b\r\n\r\na,,1.5\r\nb, 2e3 ,",
                             "m.csv", kRateCells);
  ASSERT_TRUE(matrix) << matrix.error().what;
  EXPECT_EQ(matrix->names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(matrix->at(0, 1), 1.5);
  EXPECT_EQ(matrix->at(1, 0), 2000);
  EXPECT_EQ(matrix->at(0, 0), 0);
}

TEST(Matrix, RefusesARaggedRow) {
  EXPECT_THAT(matrix_error("src,a,b\na,,1\nb,1,,\n"),
              AllOf(HasSubstr("rates.csv:3: "), HasSubstr("'b' has 3 cells; expected 2")));
  EXPECT_THAT(matrix_error("src,a,b\na,\n"), HasSubstr("rates.csv:2: the row of 'a' has 1 cells"));
}

TEST(Matrix, RefusesRepeatedAndUnknownSites) {
  EXPECT_THAT(matrix_error("src,a,a\na,,1\na,1,\n"),
              AllOf(HasSubstr("rates.csv:1: column 3: "), HasSubstr("no other column")));
  EXPECT_THAT(matrix_error("src,a,b\na,,1\na,1,\n"),
              AllOf(HasSubstr("rates.csv:3: column 1: expected the row of 'b'"), HasSubstr("'a'")));
  EXPECT_THAT(matrix_error("src,a,b\na,,1\nc,1,\n"), HasSubstr("found 'c'"));
  EXPECT_THAT(matrix_error("src,a b\n"),
              HasSubstr("rates.csv:1: column 2: expected a site's name"));
  EXPECT_THAT(matrix_error("src,a,\n"), HasSubstr("found nothing"));
}

TEST(Matrix, RefusesWhatIsNoRate) {
  for (std::string_view cell : {"", "0", "-5", "x", "nan", "inf", "1e400", "1e10", "0x10", "1.5.2",
                                "1 000", "1;5", "\x1b[31m"}) {
    const std::string text = "src,a,b\na,," + std::string(cell) + "\nb,1,\n";
    EXPECT_THAT(matrix_error(text),
                AllOf(HasSubstr("rates.csv:2: column 3: expected a rate in Mbit/s "
                                "above 0 and at most 1e+09, from 'a' to 'b', "),
                      Not(HasSubstr("\x1b"))))
        << cell;
  }
  EXPECT_THAT(matrix_error("src,a,b\na,7,1\nb,1,\n"),
              AllOf(HasSubstr("rates.csv:2: column 2: expected an empty cell"), HasSubstr("'7'")));
}

TEST(Matrix, RefusesTooFewAndTooManyRows) {
  EXPECT_THAT(matrix_error("src,a,b\na,,1\n"),
              AllOf(HasSubstr("rates.csv:2: "), HasSubstr("before the row of 'b'")));
  EXPECT_THAT(matrix_error("src,a,b\na,,1\nb,1,\nc,1,\n"),
              AllOf(HasSubstr("rates.csv:4: column 1: "), HasSubstr("no more than 2 rows")));
  EXPECT_THAT(matrix_error(""), HasSubstr("rates.csv: empty; expected a first line src,NAME"));
  EXPECT_THAT(matrix_error("# nothing\n"), HasSubstr("empty"));
  EXPECT_THAT(matrix_error("from;a;b\n"),
              HasSubstr("rates.csv:1: column 1: expected a first line"));
}

TEST(Matrix, FilesThatAreNone) {
  EXPECT_THAT(read_matrix("no-such.csv", kRateCells).error().what,
              HasSubstr("no-such.csv: no such matrix (CSV)"));
  EXPECT_THAT(read_matrix("/", kRateCells).error().what, HasSubstr("is a directory"));
  EXPECT_THAT(read_matrix("/dev/null", kRateCells).error().what, HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace longhaul::run
