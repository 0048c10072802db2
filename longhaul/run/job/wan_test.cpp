// From the tables of a job to its network.
#include "longhaul/run/job/wan.h"

#include <fstream>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/matrix_wan.h"
#include "longhaul/run/job/testing/job_text.h"
#include "longhaul/run/job/testing/scratch.h"

namespace longhaul::run {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kJob = "[model]\nkind = \"phantom\"\nmbytes = 1\n[sync]\nkind = \"bsp\"\n";

std::string sites(std::initializer_list<const char*> names) {
  std::string text;
  for (const char* name : names) text += fmt::format("[[site]]\nname = \"{}\"\n", name);
  return text;
}

// A folder for a job file and its matrices.
class WanOfJob : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    const std::string path = scratch_.file(name);
    std::ofstream(path) << text;
    return path;
  }
  Result<Job> job(const std::string& rest, const Overrides& overrides = {}) {
    return load_job(write("job.toml", kJob + rest), overrides);
  }
  std::string error_of(const std::string& rest, const Overrides& overrides = {}) {
    auto read = job(rest, overrides);
    return read ? "no error" : read.error().what;
  }
  flow::Wan network(const std::string& rest, const Overrides& overrides = {}) {
    auto read = job(rest, overrides);
    EXPECT_TRUE(read) << read.error().what;
    return read ? read->network : flow::Wan{};
  }
  std::string matrices(const std::string& rates = "src,a,b,c\na,,10,20\nb,30,,40\nc,50,60,\n") {
    return fmt::format("[wan]\nmbps_csv = \"{}\"\nrtt_ms_csv = \"{}\"\n", write("mbps.csv", rates),
                       write("rtt.csv", "src,c,b,a\nc,,1,2\nb,3,,4\na,5,6,\n"));
  }
  const run::testing::Scratch scratch_;
};

TEST_F(WanOfJob, TakesThePresetsSitesByNameInTheJobsOrder) {
  const flow::Wan all = network("[wan]\npreset = \"aws-11-multi\"\n");
  EXPECT_EQ(all.sites.size(), 11u);
  const flow::Wan few =
      network("[wan]\npreset = \"aws-11-multi\"\n" + sites({"tokyo", "virginia"}));
  ASSERT_EQ(few.sites.size(), 2u);
  EXPECT_EQ(few.sites[0].name, "tokyo");
  EXPECT_EQ(few.sites[1].name, "virginia");
  EXPECT_EQ(few.pairs.size(), 2u);
  EXPECT_EQ(*few.pair(0, 1).rate, 3657 * 125000.0);
  EXPECT_EQ(*few.pair(1, 0).rate, 3653 * 125000.0);
  EXPECT_NEAR(few.pair(0, 1).delay_s, 0.16909 / 2, 1e-12);
  EXPECT_EQ(*few.sites[0].up, 5000 * 125000.0);
  EXPECT_THAT(error_of("[wan]\npreset = \"aws-11-multi\"\n" + sites({"tokio", "virginia"})),
              AllOf(HasSubstr("job.toml:9: [site.tokio] name: expected a site of preset "
                              "aws-11-multi, found \"tokio\"; did you mean 'tokyo'?")));
  EXPECT_THAT(error_of("[wan]\npreset = \"aws-11-mult\"\n"),
              AllOf(HasSubstr("job.toml:7: [wan] preset: "), HasSubstr("'aws-11-multi'")));
}

TEST_F(WanOfJob, LanTakesSitesOfAnyName) {
  const flow::Wan wan = network("[wan]\npreset = \"lan\"\n" + sites({"x", "y", "z"}));
  ASSERT_EQ(wan.sites.size(), 3u);
  EXPECT_EQ(wan.sites[2].name, "z");
  EXPECT_EQ(*wan.sites[2].down, 1000 * 125000.0);
  EXPECT_EQ(wan.pair(0, 2).delay_s, 0.00025);
}

TEST_F(WanOfJob, RateScaleLeavesSitesAlone) {
  const flow::Wan wan =
      network("[wan]\npreset = \"aws-11-single\"\nrate_scale = 0.1\nup_mbps = 100\n");
  const flow::Wan whole = network("[wan]\npreset = \"aws-11-single\"\n");
  EXPECT_DOUBLE_EQ(*wan.pair(0, 1).rate, 0.1 * *whole.pair(0, 1).rate);
  EXPECT_DOUBLE_EQ(*wan.pair(0, 1).flow, 0.1 * *whole.pair(0, 1).flow);
  EXPECT_EQ(*wan.sites[3].up, 100 * 125000.0);
  EXPECT_EQ(*wan.sites[3].down, 5000 * 125000.0);
  const flow::Wan two = network("[wan]\npreset = \"two-continents\"\nrate_scale = 0.1\n");
  EXPECT_DOUBLE_EQ(two.shared.front().rate, 50 * 125000.0);
}

TEST_F(WanOfJob, LinksWinOverThePreset) {
  const flow::Wan wan = network(
      "[wan]\npreset = \"ec2-2017-10\"\n[[wan.link]]\nfrom = \"tokyo\"\nto = \"seoul\"\n"
      "mbps = 7\n[[wan.link]]\nfrom = \"seoul\"\nto = \"tokyo\"\ndelay_ms = 500\n");
  EXPECT_EQ(*wan.pair(5, 6).rate, 7 * 125000.0);
  EXPECT_NEAR(wan.pair(5, 6).delay_s, 0.03144 / 2, 1e-12);
  EXPECT_EQ(*wan.pair(6, 5).rate, 10.5e6 / 1.0);  // the window model follows the delay
}

TEST_F(WanOfJob, WindowsLimitEachConnection) {
  const flow::Wan wan =
      network("[wan]\nmbps = 1000\ndelay_ms = 100\nwindow_mb = 5\n[net]\nstreams = 3\n" +
              sites({"a", "b"}) + "nodes = 2\n");
  EXPECT_EQ(*wan.pair(0, 1).flow, 5e6 / 0.2);
  EXPECT_EQ(*wan.capacity(0, 1), 6 * 5e6 / 0.2 > 125e6 ? 125e6 : 6 * 5e6 / 0.2);
  EXPECT_THAT(error_of("[wan]\nsingle_max_mbps = 5\n" + sites({"a"})), HasSubstr("window_mb"));
  Window window;
  EXPECT_EQ(window_rate(window, 0), 1140 * 125000.0);
}

TEST_F(WanOfJob, TheCommandLineTakesANetworkInPlaceOfTheFiles) {
  const std::string text =
      "[wan]\nmodel = \"fair\"\nmbps = 3\ndelay_ms = 9\nloss = 0.1\nwire_scale = 2\n"
      "[[wan.link]]\nfrom = \"tokyo\"\nto = \"seoul\"\nmbps = 1\n"
      "[[wan.shared]]\nname = \"s\"\nmbps = 1\nfrom = [\"tokyo\"]\nto = [\"seoul\"]\n"
      "[[wan.trace]]\nat_s = [0]\nvalues = [1]\n" +
      sites({"tokyo", "seoul"}) + "up_mbps = 4\n";
  auto replaced = good(job(text, {{"site.tokyo.up_mbps=8", "wan.rate_scale=0.5"}, "gaia-11"}));
  EXPECT_EQ(*replaced->network.pair(0, 1).rate, 500 * 125000.0);
  EXPECT_EQ(*replaced->network.sites[0].up, 8 * 125000.0);
  EXPECT_EQ(*replaced->network.sites[1].up, 1000 * 125000.0);
  EXPECT_EQ(replaced->wan.wire_scale, 2);
  EXPECT_TRUE(replaced->network.shared.empty() && replaced->network.traces.empty());
  EXPECT_EQ(replaced->network.usual.loss, 0);
  // Sites that come with the preset can be named.
  auto slow = good(job("", {{"site.*.step_ms=5", "site.mumbai.nodes=2"}, "gaia-11"}));
  EXPECT_EQ(slow->sites[0].step_ms, 5);
  EXPECT_EQ(slow->network.sites[9].nodes, 2u);
  EXPECT_THAT(error_of("", {{}, "gaia-12"}), AllOf(HasSubstr("--wan"), HasSubstr("'gaia-11'")));
}

TEST_F(WanOfJob, TheCommandLineTakesAMeasuredNetwork) {
  const std::string measured = write("measured.toml",
                                     "[wan]\nmodel = \"fair\"\ndelay_ms = 7\n[[wan.link]]\n"
                                     "from = \"tokyo\"\nto = \"seoul\"\nmbps = 6\n");
  const std::string text =
      "[wan]\nmbps = 3\nwire_scale = 2\n[[wan.link]]\nfrom = \"seoul\"\nto = "
      "\"tokyo\"\nmbps = 1\n" +
      sites({"tokyo", "seoul"});
  auto read = good(job(text, {{"wan.delay_ms=8"}, measured}));
  EXPECT_EQ(read->wan.model, "fair");
  EXPECT_EQ(read->wan.wire_scale, 2);
  EXPECT_EQ(*read->network.pair(0, 1).rate, 6 * 125000.0);
  EXPECT_EQ(read->links.size(), 1u);
  EXPECT_EQ(read->network.pair(0, 1).delay_s, 0.008);
  EXPECT_THAT(error_of(text, {{}, write("empty.toml", "[job]\n")}), HasSubstr("expected a [wan]"));
  EXPECT_THAT(error_of(text, {{}, "none.toml"}), HasSubstr("none.toml"));
}

// Sites that were started with different networks are of different jobs, and refuse one another.
TEST_F(WanOfJob, TheHashTellsOneNetworkOfTheCommandLineFromAnother) {
  const std::string text = sites({"tokyo", "seoul"});
  std::set<std::uint64_t> hashes;
  for (const char* preset : {"", "gaia-11", "aws-11-multi", "lan"}) {
    auto read = good(job(text, {{}, preset}));
    EXPECT_TRUE(hashes.insert(job_hash(*read)).second) << preset;
    // As a child or a later session has it.
    EXPECT_EQ(job_hash(run::testing::good_job(to_toml(*read))), job_hash(*read));
  }
}

TEST_F(WanOfJob, RefusesTwoSourcesOfOneThing) {
  for (const char* key : {"mbps = 5", "delay_ms = 5", "mbps_csv = \"x\"", "rtt_ms_csv = \"x\""})
    EXPECT_THAT(error_of(fmt::format("[wan]\npreset = \"gaia-11\"\n{}\n", key)),
                AllOf(HasSubstr("job.toml:8: [wan] "), HasSubstr("beside preset")));
  EXPECT_THAT(error_of(matrices() + "mbps = 5\n"), HasSubstr("job.toml:9: [wan] mbps: "));
  EXPECT_THAT(error_of(matrices() + "delay_ms = 5\n"), HasSubstr("job.toml:9: [wan] delay_ms: "));
  EXPECT_THAT(error_of("[wan]\nmatrices = \"00\"\n" + sites({"a"})), HasSubstr("beside it"));
}

TEST_F(WanOfJob, OwnMatrices) {
  const flow::Wan all = network(matrices());
  ASSERT_EQ(all.sites.size(), 3u);
  EXPECT_EQ(all.sites[0].name, "a");
  EXPECT_EQ(*all.pair(0, 1).rate, 10 * 125000.0);
  EXPECT_EQ(*all.pair(2, 0).rate, 50 * 125000.0);
  EXPECT_EQ(all.pair(2, 0).delay_s, 0.001);  // files need not agree on the order
  EXPECT_EQ(all.pair(0, 2).delay_s, 0.0025);
  EXPECT_FALSE(all.sites[0].up);
  const flow::Wan few = network(matrices() + sites({"c", "a"}));
  EXPECT_EQ(*few.pair(0, 1).rate, 50 * 125000.0);
  const std::string rates = write("alone.csv", "src,a,b\na,,10\nb,30,\n");
  const flow::Wan alone = network(fmt::format("[wan]\nmbps_csv = \"{}\"\n", rates));
  EXPECT_EQ(alone.pair(0, 1).delay_s, 0.02);
}

TEST_F(WanOfJob, BadMatricesAreNamedByTheKeyThatLedToThem) {
  EXPECT_THAT(error_of(matrices("src,a,b,c\na,,10,x\nb,30,,40\nc,50,60,\n")),
              AllOf(HasSubstr("job.toml:7: [wan] mbps_csv: "),
                    HasSubstr("mbps.csv:2: column 4: expected a rate"), HasSubstr("'x'")));
  EXPECT_THAT(error_of("[wan]\nrtt_ms_csv = \"nowhere.csv\"\n" + sites({"a"})),
              AllOf(HasSubstr("job.toml:7: [wan] rtt_ms_csv: "),
                    HasSubstr("/nowhere.csv: no such matrix")));
  EXPECT_THAT(error_of(matrices("src,a,b,d\na,,10,1\nb,30,,40\nd,50,60,\n")),
              AllOf(HasSubstr("different sites"), HasSubstr("rtt.csv lacks d"),
                    HasSubstr("mbps.csv lacks c")));
  EXPECT_THAT(error_of(matrices() + sites({"a", "dd"})),
              AllOf(HasSubstr("[site.dd] name: expected a site of "), HasSubstr("mbps.csv")));
}

TEST_F(WanOfJob, GoesOnOnlyWithTheMatricesItBeganWith) {
  auto began = good(job(matrices()));
  auto doc = good(parse_document(to_toml(*began), "runs/job.toml"));
  auto again = good(resolve_job(*doc));
  EXPECT_EQ(difference(*began, *again), std::nullopt);
  auto other = good(job(matrices("src,a,b,c\na,,11,20\nb,30,,40\nc,50,60,\n")));
  EXPECT_THAT(*difference(*began, *other), HasSubstr("[wan] matrices: was "));
  EXPECT_NE(job_hash(*began), job_hash(*other));
  auto changed = resolve_job(*doc);
  ASSERT_FALSE(changed);
  EXPECT_THAT(changed.error().what, AllOf(HasSubstr("[wan] matrices"), HasSubstr("have changed")));
}

TEST_F(WanOfJob, AWrittenOutJobIsTheSameJob) {
  std::size_t number = 0;
  for (const WanPreset& preset : wan_presets()) {
    if (longhaul::testing::kGate && number++ % 3 != 0) continue;
    auto first = job(fmt::format("[wan]\npreset = \"{}\"\n", preset.name));
    ASSERT_TRUE(first) << preset.name << first.error().what;
    auto again = run::testing::read_job(to_toml(*first));
    ASSERT_TRUE(again) << preset.name << again.error().what;
    EXPECT_EQ(to_toml(*again), to_toml(*first));
    EXPECT_EQ(again->network.sites.size(), preset.wan.sites.size());
  }
}

// Every kind of bad matrix: an Error that names file, line, column and what was expected.

std::string matrix_error(std::string_view text) {
  auto matrix = parse_matrix(text, "rates.csv", kRateCells);
  return matrix ? "no error" : matrix.error().what;
}

TEST(Matrix, ReadsRowsAsSources) {
  auto matrix = good(parse_matrix(
      "\xef\xbb\xbf# measured in May\r\nsrc, a ,b\r\n\r\na,,1.5\r\nb, 2e3 ,", "m.csv", kRateCells));
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
