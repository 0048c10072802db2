// Every kind of bad trace: an Error that names file, line and what was expected.
#include "longhaul/run/job/trace_file.h"

#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/testing/scratch.h"

namespace longhaul::run {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr CellKind kCell{"a rate in Mbit/s", 1e9};

std::string trace_error(std::string_view text) {
  auto rows = parse_trace(text, "t.csv", kCell);
  return rows ? "no error" : rows.error().what;
}

TEST(TraceFile, ReadsTimesAndValues) {
  auto rows = good(parse_trace(
      "\xef\xbb\xbf# of May\r\nseconds, value\r\n\r\n0,80\r\n 12.5 ,0\n3e1,7.5", "t.csv", kCell));
  EXPECT_EQ(rows->at_s, (std::vector<double>{0, 12.5, 30}));
  EXPECT_EQ(rows->values, (std::vector<double>{80, 0, 7.5}));
}

TEST(TraceFile, RefusesWhatHasNoRows) {
  EXPECT_THAT(trace_error(""), HasSubstr("t.csv: empty; expected a first line seconds,value"));
  EXPECT_THAT(trace_error("# nothing\n\n"), HasSubstr("t.csv: empty"));
  EXPECT_THAT(trace_error("seconds,value\n"), HasSubstr("t.csv: has no rows; expected"));
}

TEST(TraceFile, RefusesAnotherFirstLine) {
  for (const char* head : {"0,80", "time,mbps", "seconds;value", "value,seconds", "seconds,value,"})
    EXPECT_THAT(
        trace_error(fmt::format("#\n{}\n0,80\n", head)),
        AllOf(HasSubstr("t.csv:2: expected a first line seconds,value, found '"), HasSubstr(head)));
}

TEST(TraceFile, RefusesRowsOfOtherLengths) {
  EXPECT_THAT(trace_error("seconds,value\n0,1\n5\n"),
              HasSubstr("t.csv:3: expected two cells, seconds and value, not 1, found '5'"));
  EXPECT_THAT(trace_error("seconds,value\n0,1,2\n"), HasSubstr("t.csv:2: expected two cells"));
}

TEST(TraceFile, RefusesTimesThatDoNotAscendFromZero) {
  for (const char* first : {"1", "-1", "x", "", "nan"})
    EXPECT_THAT(trace_error(fmt::format("seconds,value\n{},5\n", first)),
                HasSubstr("t.csv:2: expected 0 as the first time, found "));
  for (const char* next : {"12", "11.5", "-3", "x", "", "inf", "2e9", "12:30"})
    EXPECT_THAT(trace_error(fmt::format("seconds,value\n0,5\n12,6\n{},7\n", next)),
                AllOf(HasSubstr("t.csv:4: expected a time in s above that of the row before, 12, "),
                      HasSubstr("in column 1, found ")));
}

TEST(TraceFile, RefusesWhatIsNoValue) {
  for (const char* value : {"", "-5", "x", "nan", "inf", "1e10", "0x10", "1 000", "\x1b[31m"})
    EXPECT_THAT(
        trace_error(fmt::format("seconds,value\n0,1\n2,{}\n", value)),
        AllOf(HasSubstr("t.csv:3: expected a rate in Mbit/s from 0 to 1e+09 in column 2, found "),
              Not(HasSubstr("\x1b"))))
        << value;
}

TEST(TraceFile, RefusesMoreRowsThanItKeeps) {
  std::string text = "seconds,value\n";
  for (std::size_t i = 0; i < kMaxTraceRows; ++i) text += fmt::format("{},5\n", i);
  EXPECT_EQ(trace_error(text), "no error");
  EXPECT_THAT(trace_error(text + "65536,5\n"),
              HasSubstr("t.csv:65538: expected at most 65536 rows"));
}

// --- in a job -----------------------------------------------------------------------------------

// A folder for a job file and its traces.
class TraceOfJob : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::ofstream(scratch_.file(name)) << text;
  }
  Result<Job> job(const std::string& trace) {
    write("job.toml",
          "[model]\nkind = \"phantom\"\n[sync]\nkind = \"bsp\"\n[wan]\nmodel = \"fair\"\n"
          "rate_scale = 2\n[[site]]\nname = \"a\"\n[[site]]\nname = \"b\"\n[[wan.trace]]\n" +
              trace);
    return load_job(scratch_.file("job.toml"));
  }
  std::string trace_error(const std::string& trace) {
    auto read = job(trace);
    return read ? "no error" : read.error().what;
  }
  const run::testing::Scratch scratch_;
};

// The path is relative to the job file; values are in the unit of the key; the job holds what the
// file held, and the hash that sites compare with it.
TEST_F(TraceOfJob, IsAsIfItStoodThere) {
  write("t.csv", "seconds,value\n0,8\n10,16\n");
  const auto read = good(job("file = \"t.csv\"\nfrom = \"a\"\nrepeat_s = 20\n"));
  ASSERT_EQ(read->network.traces.size(), 1u);
  EXPECT_EQ(read->network.traces[0].trace.values, (std::vector<double>{2e6, 4e6}));
  EXPECT_EQ(read->network.traces[0].trace.at, (std::vector<double>{0, 10}));
  const auto written = good(job("at_s = [0, 10]\nvalues = [8, 16]\nfrom = \"a\"\nrepeat_s = 20\n"));
  EXPECT_EQ(job_hash(*read), job_hash(*written));
  EXPECT_EQ(to_toml(*read), to_toml(*written));  // needs the file no more
  write("t.csv", "seconds,value\n0,8\n10,17\n");
  const auto changed = good(job("file = \"t.csv\"\nfrom = \"a\"\nrepeat_s = 20\n"));
  EXPECT_THAT(*difference(*read, *changed), HasSubstr("[wan.trace[0]] values: was [8.0, 16.0]"));
}

TEST_F(TraceOfJob, ValuesAreInTheUnitOfTheKey) {
  write("t.csv", "seconds,value\n0,30\n");
  const auto delay = good(job("file = \"t.csv\"\nwhat = \"delay\"\n"));
  EXPECT_DOUBLE_EQ(delay->network.traces[0].trace.values[0], 0.03);
  EXPECT_THAT(trace_error("file = \"t.csv\"\nwhat = \"loss\"\n"),
              HasSubstr("t.csv:2: expected a share of packets lost from 0 to 0.99 in column 2, "
                        "found '30'"));
}

TEST_F(TraceOfJob, BadFilesAreNamedByTheKeyThatLedToThem) {
  EXPECT_THAT(trace_error("file = \"no.csv\"\n"),
              AllOf(HasSubstr("job.toml:13: [wan.trace[0]] file: "),
                    HasSubstr("no.csv: no such trace (CSV)")));
  EXPECT_THAT(trace_error("file = \"/\"\n"), HasSubstr("is a directory"));
  EXPECT_THAT(trace_error("file = \"/dev/null\"\n"), HasSubstr("not a regular file"));
  write("t.csv", "seconds,value\n0,8\n10,16\n");
  EXPECT_THAT(trace_error("file = \"t.csv\"\nat_s = [0]\n"),
              HasSubstr("job.toml:13: [wan.trace[0]] file: expected no file beside at_s"));
  EXPECT_THAT(trace_error("file = \"t.csv\"\nvalues = [0]\n"), HasSubstr("no file beside values"));
  EXPECT_THAT(trace_error("file = \"t.csv\"\nkind = \"redraw\"\n"),
              HasSubstr("no file with kind = \"redraw\""));
  EXPECT_THAT(trace_error("file = \"t.csv\"\nrepeat_s = 10\n"),
              HasSubstr("job.toml:14: [wan.trace[0]] repeat_s: expected more than the last time of "
                        "the file, 10, or 0, found 10"));
}

// The same of a site's steps, which are never 0.
TEST_F(TraceOfJob, OfASitesSteps) {
  const std::string site = "at_s = [0]\nvalues = [1]\n[[site]]\nname = \"c\"\n";
  write("t.csv", "seconds,value\n0,8\n10,16.5\n");
  const auto read = good(job(site + "step_trace = \"t.csv\"\n"));
  EXPECT_EQ(read->sites[2].step_at_s, (std::vector<double>{0, 10}));
  EXPECT_EQ(read->sites[2].step_values, (std::vector<double>{8, 16.5}));
  EXPECT_EQ(read->sites[2].step_ms, 8);
  const auto written = good(job(site + "step_at_s = [0, 10]\nstep_values = [8, 16.5]\n"));
  EXPECT_EQ(to_toml(*read), to_toml(*written));
  EXPECT_THAT(trace_error(site + "step_trace = \"t.csv\"\nstep_values = [1]\n"),
              HasSubstr("job.toml:17: [site.c] step_trace: expected no step_trace beside "
                        "step_values: it has times and values"));
  EXPECT_THAT(trace_error(site + "step_trace = \"no.csv\"\n"),
              AllOf(HasSubstr("job.toml:17: [site.c] step_trace: "),
                    HasSubstr("no.csv: no such trace (CSV)")));
  write("t.csv", "seconds,value\n0,8\n10,0\n");
  EXPECT_THAT(trace_error(site + "step_trace = \"t.csv\"\n"),
              HasSubstr("t.csv:3: expected a step time in ms above 0 and at most 1e+09 in column "
                        "2, found '0'"));
}

TEST_F(TraceOfJob, AllFilesTogetherAreBounded) {
  std::string text = "seconds,value\n";
  for (int i = 0; i < (longhaul::testing::kGate ? 33000 : 40000); ++i)
    text += fmt::format("{},5\n", i);
  write("t.csv", text);
  EXPECT_THAT(trace_error("file = \"t.csv\"\nfrom = \"a\"\n[[wan.trace]]\nfile = \"t.csv\"\n"
                          "from = \"b\"\n"),
              HasSubstr("job.toml:16: [wan.trace[1]] file: expected at most 65536 rows in all"));
}

TEST_F(TraceOfJob, WhatFollowsATraceIsBounded) {
  constexpr int kRows = longhaul::testing::kGate ? 12000 : 60000;
  constexpr int kMore = longhaul::testing::kGate ? 90 : 18;  // sites
  std::string text = "seconds,value\n";
  for (int i = 0; i < kRows; ++i) text += fmt::format("{},5\n", i);
  write("t.csv", text);
  std::string more;
  for (int i = 0; i < kMore; ++i) more += fmt::format("[[site]]\nname = \"c{}\"\n", i);
  EXPECT_THAT(trace_error("file = \"t.csv\"\n" + more),
              HasSubstr("job.toml:12: [wan.trace[0]]: too many values: "));
}

}  // namespace
}  // namespace longhaul::run
