#include <filesystem>
#include <fstream>
#include <set>

#include <gmock/gmock.h>

#include <fmt/format.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/report/page.h"
#include "longhaul/report/picture.h"
#include "longhaul/report/run_reader.h"
#include "longhaul/report/verdict.h"
#include "longhaul/run/job/testing/scratch.h"

namespace longhaul::report {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

double total(const TimeBins& bins) {
  double sum = 0;
  for (const double one : bins.sums()) sum += one;
  return sum;
}

TEST(TimeBins, KeepTheSumWhenTheyWiden) {
  TimeBins bins(1);
  bins.add(0.25, 0.75);
  bins.add(2.5, 4.25);
  EXPECT_DOUBLE_EQ(bins.sums()[0], 0.5);
  EXPECT_DOUBLE_EQ(bins.sums()[2], 0.5);
  EXPECT_DOUBLE_EQ(bins.sums()[3], 1);
  EXPECT_DOUBLE_EQ(bins.sums()[4], 0.25);
  bins.add(5000, 5001);
  EXPECT_DOUBLE_EQ(bins.width_s(), 16);
  EXPECT_DOUBLE_EQ(bins.sums()[0], 0.5 + 1.75);
  EXPECT_DOUBLE_EQ(total(bins), 3.25);
  bins.add(-5, 1);
  EXPECT_DOUBLE_EQ(total(bins), 4.25);
}

// A folder with a job; the test writes the rest.
class RunReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    put("job.toml",
        "stop = {max_rounds = 9, target_accuracy = 0.9}\nmodel = {kind = \"phantom\"}\n"
        "sync = {kind = \"fedavg\", steps = 4}\nsite = [{name = \"a\", nodes = 2}, {name = "
        "\"b\"}]\n");
  }
  void put(const std::string& name, const std::string& text, bool append = false) {
    std::ofstream(folder_ + "/" + name, append ? std::ios::app : std::ios::trunc) << text;
  }
  static std::string score(double time, int round, double accuracy) {
    return ordered_json{{"time_s", time},
                        {"site", "a"},
                        {"round", round},
                        {"kind", "score"},
                        {"values", {{"loss", 1.0}, {"accuracy", accuracy}}}}
               .dump() +
           "\n";
  }
  const run::testing::Scratch scratch_;
  const std::string folder_ = scratch_.file("");
};

TEST_F(RunReaderTest, AFolderWithoutAJobIsRefused) {
  RunReader reader(folder_ + "/none");
  const Status read = reader.refresh();
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().what, HasSubstr("no job.toml"));
}

TEST_F(RunReaderTest, FollowsAFileAsItGrows) {
  RunReader reader(folder_);
  ASSERT_TRUE(reader.refresh());
  EXPECT_TRUE(reader.scores().empty());
  put("metrics.jsonl", score(1, 1, 0.5) + score(2, 2, 0.6).substr(0, 20));
  ASSERT_TRUE(reader.refresh());
  ASSERT_EQ(reader.scores().size(), 1u);  // the second line is not whole
  const auto before = reader.version();
  ASSERT_TRUE(reader.refresh());
  EXPECT_EQ(reader.version(), before);
  put("metrics.jsonl", score(2, 2, 0.6).substr(20), true);
  ASSERT_TRUE(reader.refresh());
  ASSERT_EQ(reader.scores().size(), 2u);
  EXPECT_EQ(reader.scores()[1].score, 0.6);
  EXPECT_GT(reader.version(), before);
  // Cut back to a checkpoint: read anew.
  put("metrics.jsonl", score(1, 1, 0.5));
  ASSERT_TRUE(reader.refresh());
  EXPECT_EQ(reader.scores().size(), 1u);
}

TEST_F(RunReaderTest, WaitsBySiteAndCauseAreSharesOfItsNodes) {
  put("metrics.jsonl",
      R"({"time_s":4,"site":"a","rank":0,"round":1,"kind":"wait_s","values":{"value":2}})"
      "\n"
      R"({"time_s":4,"site":"b","rank":2,"round":1,"kind":"verdict_wait_s","values":{"value":4}})"
      "\n"
      R"({"time_s":4,"site":"b","rank":2,"round":1,"kind":"wait_s","values":{"value":null}})"
      "\n");
  RunReader reader(folder_);
  ASSERT_TRUE(reader.refresh());
  const ordered_json waits = reader.data()["waits"];
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0]["site"], "a");
  EXPECT_EQ(waits[0]["cause"], "exchange");
  const auto half = std::size_t(3 / waits[0]["bin_s"].get<double>());
  EXPECT_EQ(waits[0]["shares"][half], 500);  // one of its two nodes
  EXPECT_EQ(waits[0]["shares"][0], 0);
  EXPECT_EQ(waits[1]["cause"], "verdict");
  EXPECT_EQ(waits[1]["shares"][0], 1000);
}

TEST_F(RunReaderTest, AWaitThatStandsForSeveralLastsAsLongAsTheyDid) {
  put("metrics.jsonl", R"({"time_s":8,"site":"b","round":4,"kind":"wait_s","values":{"value":1},)"
                       R"("stands_for":4})"
                       "\n");
  RunReader reader(folder_);
  ASSERT_TRUE(reader.refresh());
  const auto lane = reader.data()["waits"][0];
  double waited = 0;
  for (const auto& share : lane["shares"]) waited += share.get<double>() / 1000;
  EXPECT_NEAR(waited * lane["bin_s"].get<double>(), 4, 0.1) << lane.dump();
}

TEST_F(RunReaderTest, WhatIsNestedTooDeepIsPassedOver) {
  const std::string deep(100'000, '['), end(100'000, ']');
  put("metrics.jsonl", "{\"kind\":\"score\",\"values\":" + deep + end + "}\n" + score(1, 1, 0.5));
  put("summary.json", "{\"time_s\":4,\"samples\":" + deep + end + "}");
  RunReader reader(folder_);
  ASSERT_TRUE(reader.refresh());
  EXPECT_EQ(reader.data()["time_s"], 4);
}

TEST_F(RunReaderTest, LongCurvesAreThinnedAndKeepTheirEnds) {
  std::string text;
  const int count = 3 * int(RunReader::kMaxScores);
  for (int i = 0; i < count; ++i) text += score(i, i, i / double(count));
  put("metrics.jsonl", text);
  RunReader reader(folder_);
  ASSERT_TRUE(reader.refresh());
  EXPECT_LE(reader.scores().size(), RunReader::kMaxScores);
  EXPECT_GE(reader.scores().size(), RunReader::kMaxScores / 2);
  EXPECT_EQ(reader.scores().front().round, 0);
  EXPECT_EQ(reader.scores().back().round, count - 1);
}

TEST_F(RunReaderTest, NodesOfALaunchUntilTheirMetricsAreMerged) {
  std::filesystem::create_directories(folder_ + "/a");
  std::filesystem::create_directories(folder_ + "/b");
  put("a/metrics.jsonl", score(1, 1, 0.5));
  put("b/metrics.jsonl", R"({"time_s":2,"site":"b","round":1,"kind":"wait_s","values":{"value":1}})"
                         "\n");
  RunReader reader(folder_);
  ASSERT_TRUE(reader.refresh());
  EXPECT_EQ(reader.scores().size(), 1u);
  EXPECT_EQ(reader.data()["waits"].size(), 1u);
  put("metrics.jsonl", score(1, 1, 0.5) + score(3, 2, 0.6));
  ASSERT_TRUE(reader.refresh());
  EXPECT_EQ(reader.scores().size(), 2u);
}

TEST_F(RunReaderTest, BytesOfARunUnderWayAreThoseOfItsNodesStatuses) {
  for (const char* node : {"/a", "/b"}) std::filesystem::create_directories(folder_ + node);
  put("a/status.json", R"({"site":"a","wan_bytes":300,"time_s":4})");
  put("b/status.json", R"({"site":"b","wan_bytes":500,"time_s":4})");
  put("a/metrics.jsonl", score(1, 1, 0.5));
  RunReader reader(folder_);
  ASSERT_TRUE(reader.refresh());
  EXPECT_EQ(reader.data()["wan_bytes"], 800);
  EXPECT_EQ(reader.data()["scores"]["wan_bytes"][0], 200) << "at 1 s of 4";
  const auto version = reader.version();
  put("b/status.json", R"({"site":"b","wan_bytes":700,"time_s":5})");
  ASSERT_TRUE(reader.refresh());
  EXPECT_EQ(reader.data()["wan_bytes"], 1000);
  EXPECT_GT(reader.version(), version);
  RunReader one(folder_ + "/a", {folder_ + "/a"});
  put("a/job.toml", "");
  ASSERT_TRUE(one.refresh());
  EXPECT_EQ(one.data()["wan_bytes"], 300) << "of a site, what it has sent";
}

TEST_F(RunReaderTest, ActivityOfNodesIsJoined) {
  std::filesystem::create_directories(folder_ + "/a");
  std::filesystem::create_directories(folder_ + "/b");
  put("a/activity.json",
      R"({"bin_s":0.5,"sites":[{"name":"a","nodes":2,"computing":[0.5,0.25,0.5],"sent":[8,1,2],)"
      R"("lost":[]},{"name":"b","nodes":1,"computing":[],"sent":[],"lost":[[1,2]]}],)"
      R"("links":[[0,1,11]]})");
  put("b/activity.json",
      R"({"bin_s":1,"sites":[{"name":"a","nodes":2,"computing":[],"sent":[],"lost":[]},)"
      R"({"name":"b","nodes":1,"computing":[1],"sent":[0,5],"lost":[]}],"links":[[1,0,5]]})");
  put("b/status.json", "{}");
  RunReader reader(folder_);
  ASSERT_TRUE(reader.refresh());
  const auto activity = reader.data()["activity"];
  EXPECT_EQ(activity["bin_s"], 1);
  ASSERT_EQ(activity["sites"].size(), 2u);
  EXPECT_EQ(activity["sites"][0]["computing"], (ordered_json{0.75, 0.5}));
  EXPECT_EQ(activity["sites"][0]["sent"], (ordered_json{9, 2}));
  EXPECT_EQ(activity["sites"][0]["nodes"], 2);
  EXPECT_EQ(activity["sites"][1]["sent"], (ordered_json{0, 5}));
  EXPECT_EQ(activity["sites"][1]["lost"], (ordered_json{{1, 2}}));
  EXPECT_EQ(activity["links"], (ordered_json{{0, 1, 11}, {1, 0, 5}}));
  // Read again only when it was written again; a damaged file leaves what was there.
  const auto before = reader.version();
  ASSERT_TRUE(reader.refresh());
  EXPECT_EQ(reader.version(), before);
  std::filesystem::remove(folder_ + "/b/activity.json");
  put("a/activity.json", R"({"bin_s":0,"sites":7,"links":[]})");
  std::filesystem::last_write_time(
      folder_ + "/a/activity.json",
      std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
  ASSERT_TRUE(reader.refresh());
  EXPECT_TRUE(reader.data()["activity"].is_null());
}

// As web/page.js does it.
ordered_json with_changes(ordered_json data, const ordered_json& changes) {
  for (const ordered_json& change : changes) {
    const bool appends = change.size() == 3;
    ordered_json* at = &data;
    for (std::size_t i = 0; i + (appends ? 0 : 1) < change[0].size(); ++i) {
      const ordered_json& key = change[0][i];
      at = key.is_string() ? &(*at)[key.get<std::string>()] : &(*at)[key.get<std::size_t>()];
    }
    if (appends) {
      for (const ordered_json& value : change[2]) at->push_back(value);
      continue;
    }
    if (change[0].empty()) {
      data = change[1];
      continue;
    }
    const ordered_json& last = change[0].back();
    (last.is_string() ? (*at)[last.get<std::string>()] : (*at)[last.get<std::size_t>()]) =
        change[1];
  }
  return data;
}

TEST(Changes, MakeTheNewOfTheOld) {
  const auto runs = [](const std::string& text) { return ordered_json::parse(text); };
  const std::vector<ordered_json> states = {
      runs(R"({"runs":[]})"),
      runs(R"({"runs":[{"t":1,"scores":{"loss":[3,2]},"summary":null,"bins":[[1,2],[0]]}]})"),
      runs(R"({"runs":[{"t":2,"scores":{"loss":[3,2,1,0]},"summary":null,"bins":[[1,3],[0,1]]}]})"),
      runs(R"({"runs":[{"t":2,"scores":{"loss":[3,1]},"summary":{"a":1},"bins":[[1,3],[0,1]]}]})"),
      runs(R"({"runs":[{"t":2,"scores":{"loss":[]},"summary":{"b":1},"more":1}]})"),
      runs(R"({"verdict":"x","runs":[{"t":2}]})"),
      runs("[1]")};
  for (const ordered_json& before : states)
    for (const ordered_json& after : states) {
      const auto changes = good(changes_of(before, after));
      EXPECT_EQ(with_changes(before, *changes), after) << changes->dump();
      EXPECT_EQ(changes->empty(), before == after);
    }
  // What was there is not sent again.
  EXPECT_EQ(*changes_of(states[1], states[2]),
            runs(R"([[["runs",0,"t"],2],[["runs",0,"scores","loss"],"+",[1,0]],)"
                 R"([["runs",0,"bins",0,1],3],[["runs",0,"bins",1],"+",[1]]])"));
}

TEST(Changes, AreNothingWhereTheWholeIsShorter) {
  ordered_json before = ordered_json::array(), after = ordered_json::array();
  for (std::size_t i = 0; i <= kMaxChanges; ++i) before.push_back(i), after.push_back(i + 1);
  EXPECT_FALSE(changes_of(before, after));
  after[0] = 0;
  EXPECT_TRUE(changes_of(before, after));
}

ordered_json finished(const std::string& sync, std::optional<double> to_target, double accuracy) {
  ordered_json run = {{"label", sync},     {"sync", sync},
                      {"overlay", "ring"}, {"transfer", "reliable"},
                      {"codec", "fp32"},   {"score_unit", "accuracy"},
                      {"target", 0.97},    {"scores", {{"score", {0.1, accuracy}}}}};
  run["summary"] = {{"time_s", 100.0}, {"wan_bytes", 2e7}, {"time_to_target_s", nullptr}};
  if (to_target) run["summary"]["time_to_target_s"] = *to_target;
  return run;
}

// One run for each time to the target, of seeds 1, 2 ...; none: the seed does not reach it.
std::vector<ordered_json> seeds_of(const std::string& sync,
                                   const std::vector<std::optional<double>>& times,
                                   double accuracy = 0.97) {
  std::vector<ordered_json> runs;
  for (std::size_t i = 0; i < times.size(); ++i) {
    runs.push_back(finished(sync, times[i], accuracy + 0.001 * double(i)));
    runs.back()["label"] = fmt::format("{}/seed-{}", sync, i + 1);
    runs.back()["settings"] = {{"[sync] kind", sync}, {"[job] seed", std::to_string(i + 1)}};
  }
  return runs;
}

// In an order that is none.
std::vector<ordered_json> mixed(const std::vector<std::vector<ordered_json>>& lists) {
  std::vector<ordered_json> all;
  for (std::size_t i = 0; i < 9; ++i)
    for (const auto& list : lists)
      if (i < list.size()) all.push_back(list[i]);
  return all;
}

std::string verdict_of(std::vector<ordered_json> runs) {
  sort_runs(runs);
  return verdict_text(runs);
}

TEST(Verdict, NamesTheFirstAndBySoMuchTheNext) {
  std::vector<ordered_json> runs =
      mixed({seeds_of("bsp", {{}, {}}, 0.9), seeds_of("fedavg", {80, 60, 70}),
             seeds_of("diloco", {30, 35, 40})});
  for (ordered_json& run : runs) run["plan"] = {{"busiest", "the uplink of oslo"}};
  sort_runs(runs);
  EXPECT_EQ(verdict_text(runs),
            "diloco over ring reaches 97 % first: in 35 s with 20 MB between sites, 2.00 times "
            "sooner than fedavg over ring (70 s (60 s to 80 s), 20 MB), by the median of 3 seeds. "
            "By plan the busiest link of both is the uplink of oslo.");
  for (ordered_json& run : runs) run["busiest"] = "the uplink of lima";
  EXPECT_THAT(verdict_text(runs),
              HasSubstr("seeds. The busiest link of both is the uplink of lima."));
  for (std::size_t i = 3; i < 6; ++i) runs[i]["busiest"] = "the uplink of oslo";
  EXPECT_THAT(verdict_text(runs), HasSubstr("seeds. Its busiest link is the uplink of lima."));
  for (ordered_json& run : runs) run["busiest"] = "";  // nothing that was used has a rate
  EXPECT_TRUE(verdict_text(runs).ends_with("by the median of 3 seeds.")) << verdict_text(runs);
}

TEST(Verdict, RangesThatOverlapAreATie) {
  const auto text = verdict_of(mixed(
      {seeds_of("a", {30, 50, 40}), seeds_of("b", {49, 60, 70}), seeds_of("c", {51, 52, 53})}));
  EXPECT_EQ(text,
            "a over ring and b over ring tie: the ranges of their times to 97 % over 3 seeds "
            "overlap; by the median a over ring takes 40 s with 20 MB between sites.");
  EXPECT_THAT(verdict_of(mixed({seeds_of("a", {{}, {}}, 0.9), seeds_of("b", {{}, {}}, 0.9005)})),
              HasSubstr("No run reached 97 %. b over ring and a over ring tie: the ranges of their "
                        "scores over 2 seeds overlap."));
}

TEST(Verdict, OneSeedCannotTell) {
  EXPECT_EQ(verdict_of({finished("a", 30, 0.97), finished("b", 90, 0.97)}),
            "One seed cannot tell which is first (compare --seeds 3 may): a over ring reaches 97 % "
            "in 30 s with 20 MB between sites, next is b over ring (90 s, 20 MB).");
  EXPECT_THAT(verdict_of({finished("a", 30, 0.97), finished("b", {}, 0.9)}),
              HasSubstr("20 MB between sites; no other run reached it."));
  EXPECT_THAT(verdict_of(mixed({seeds_of("a", {30, 31}), seeds_of("b", {60})})),
              HasSubstr("One seed cannot tell"));
}

TEST(Verdict, SeedsOfOneCombinationAreNotComparedWithEachOther) {
  EXPECT_EQ(verdict_of(seeds_of("a", {30, 50, 40})),
            "a over ring reached 97 % in 40 s (30 s to 50 s, 3 seeds), with 20 MB between sites.");
  // The same seed twice, of two folders: two combinations of one name.
  EXPECT_THAT(verdict_of(mixed({seeds_of("a", {30}), seeds_of("a", {90})})),
              HasSubstr("One seed cannot tell"));
}

TEST(Verdict, WhatDivergedIsLast) {
  std::vector<ordered_json> broken = seeds_of("a", {1, 2});
  broken[1]["summary"]["stop_reason"] = "diverged";
  EXPECT_THAT(
      verdict_of(mixed({broken, seeds_of("b", {30, 31})})),
      HasSubstr("b over ring reaches 97 % first: in 30.5 s with 20 MB between sites, by the "
                "median of 2 seeds; no other run reached it."));
}

TEST(Verdict, RunsAreNumberedByCombination) {
  std::vector<ordered_json> runs = mixed({seeds_of("b", {60, 70}), seeds_of("a", {30, 31})});
  sort_runs(runs);
  std::vector<std::string> order;
  for (const ordered_json& run : runs)
    order.push_back(fmt::format("{} {}", run["group"].dump(), run["label"].get<std::string>()));
  EXPECT_EQ(order,
            (std::vector<std::string>{"0 a/seed-1", "0 a/seed-2", "1 b/seed-1", "1 b/seed-2"}));
}

// As compare orders them (CompareRanking).
TEST(Verdict, TiesGoToFewerBytesThenToTheName) {
  std::vector<ordered_json> runs = {finished("c", 30, 0.99), finished("b", 30, 0.97),
                                    finished("a", 30, 0.98)};
  runs[0]["summary"]["wan_bytes"] = 3e7;
  sort_runs(runs);
  EXPECT_EQ(runs[0]["label"], "a");
  EXPECT_EQ(runs[1]["label"], "b");
  EXPECT_EQ(runs[2]["label"], "c");
}

TEST(Verdict, WithoutTheTargetByScore) {
  std::vector<ordered_json> runs = {finished("bsp", {}, 0.5), finished("fedavg", {}, 0.9)};
  sort_runs(runs);
  EXPECT_EQ(
      verdict_text(runs),
      "No run reached 97 %. fedavg over ring has the best score, which one seed cannot tell.");
  runs.pop_back();
  EXPECT_THAT(verdict_text(runs), HasSubstr("without reaching 97 %"));
}

TEST(Verdict, RunsOfOneScoreAreNotRanked) {
  EXPECT_EQ(verdict_text({finished("a", {}, 1), finished("b", {}, 1)}),
            "No run reached 97 %. a over ring and b over ring share the best score.");
  EXPECT_THAT(verdict_text({finished("a", {}, 1), finished("b", {}, 1), finished("c", {}, 1)}),
              HasSubstr("3 runs share the best score"));
}

TEST(Verdict, VirtualTimesAreNotComparedWithRealOnes) {
  std::vector<ordered_json> runs = {finished("real", 3, 0.97), finished("slow", 60, 0.97),
                                    finished("quick", 30, 0.97)};
  runs[0]["clock"] = "real";
  runs[1]["clock"] = runs[2]["clock"] = "virtual";
  const ordered_json data = page_data(runs);
  EXPECT_EQ(data["verdict"],
            "Simulated: One seed cannot tell which is first (compare --seeds 3 may): quick over "
            "ring reaches 97 % in 30 s with 20 MB between sites, next is slow over ring (60 s, "
            "20 MB). Over sockets: real over ring "
            "reached 97 % in 3 s, with 20 MB between sites. Virtual seconds follow from the job, "
            "real ones from the machines and the network that there were: they are not compared.");
  EXPECT_EQ(data["runs"][0]["label"], "quick (simulated)");
  EXPECT_EQ(data["runs"][2]["label"], "real (sockets)");
  runs.erase(runs.begin());
  EXPECT_EQ(page_data(runs)["runs"][0]["label"], "quick");
}

TEST(Verdict, BytesAreOfWhoeverSentThem) {
  ordered_json run = finished("bsp", 30, 0.97);
  run["of_site"] = "oslo";
  EXPECT_EQ(verdict_text({run}), "bsp over ring reached 97 % in 30 s, with 20 MB sent by oslo.");
  run["of_site"] = "";
  run["sites"] = {"oslo"};
  EXPECT_EQ(verdict_text({run}), "bsp over ring reached 97 % in 30 s.");
  EXPECT_THAT(verdict_text({run, run}),
              HasSubstr("reaches 97 % in 30 s, next is bsp (bsp over ring) (30 s)."));
}

TEST_F(RunReaderTest, TheClockIsOfTheSimulatorOrOfTheMachine) {
  const auto clock = [&] {
    RunReader reader(folder_);
    EXPECT_TRUE(reader.refresh());
    return reader.data()["clock"].get<std::string>();
  };
  EXPECT_EQ(clock(), "");
  put("metrics.jsonl", score(1, 1, 0.5));
  EXPECT_EQ(clock(), "real");
  put("metrics.jsonl",
      R"({"time_s":1,"round":1,"kind":"score","values":{"accuracy":1,"wan_bytes":7}})"
      "\n");
  EXPECT_EQ(clock(), "virtual");
  put("metrics.jsonl", "");
  put("status.json", R"({"site":"all sites"})");
  EXPECT_EQ(clock(), "virtual");
  put("status.json", R"({"site":"b"})");
  EXPECT_EQ(clock(), "real");
}

ordered_json scored(const std::string& label, std::vector<double> scores) {
  ordered_json run = finished(label, {}, 0);
  run["label"] = label;
  run["target"] = nullptr;
  std::vector<double> steps(scores.size());
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i] = double(i + 1);
  run["scores"] = {{"score", scores}, {"time_s", steps}, {"wan_bytes", steps}};
  return run;
}

std::string drawn(std::vector<ordered_json> runs) {
  const auto svg = picture_svg(page_data(std::move(runs)));
  EXPECT_TRUE(svg) << svg.error().what;
  return svg ? *svg : "";
}

TEST(Picture, ALineForEachRunInBothPanels) {
  std::vector<ordered_json> runs;
  for (int i = 0; i < 30; ++i) runs.push_back(scored(fmt::format("<{}>", i), {0.5, 0.25, 0.75}));
  const std::string svg = drawn(runs);
  std::set<std::string> lines;
  for (std::size_t at = 0; (at = svg.find("stroke-linejoin=\"round\" ", at)) != svg.npos; ++at)
    lines.insert(svg.substr(at, svg.find('/', at) - at));
  EXPECT_EQ(lines.size(), 30u) << "colours and dashes tell them apart";
  EXPECT_THAT(svg, HasSubstr(">&lt;29&gt;: 100 s, 20 MB<"));
  EXPECT_EQ(svg, drawn(runs));
}

TEST(Picture, SeedsOfOneCombinationHaveOneColourAndOneName) {
  std::vector<ordered_json> runs = mixed({seeds_of("a", {30, 40}), seeds_of("b", {60, {}})});
  for (ordered_json& run : runs)
    run["scores"] = {{"score", {0.5, 0.9}}, {"time_s", {1, 2}}, {"wan_bytes", {1, 2}}};
  const std::string svg = drawn(runs);
  std::set<std::string> styles;
  std::size_t lines = 0;
  for (std::size_t at = 0; (at = svg.find("stroke-linejoin=\"round\" ", at)) != svg.npos; ++at)
    styles.insert(svg.substr(at, svg.find('/', at) - at)), ++lines;
  EXPECT_EQ(styles.size(), 2u);
  EXPECT_EQ(lines, 8u) << "four runs in two panels";
  EXPECT_THAT(svg, HasSubstr(">a: 97 % in 35 s (30 s to 40 s), 20 MB, 2 seeds<"));
  EXPECT_THAT(svg, HasSubstr(">b: 100 s (100 s to 100 s), 20 MB, 2 seeds<"));
}

TEST(Picture, TheScoreEndsAt100Percent) {
  const std::string svg = drawn({scored("a", {1, 1, 1})});
  EXPECT_THAT(svg, HasSubstr(">100.00<"));
  EXPECT_THAT(svg, ::testing::Not(HasSubstr(">100.25<")));
  EXPECT_THAT(drawn({scored("a", {0, 1, 0.5})}), HasSubstr(">0<"));
}

TEST(Picture, WithoutBytesThereIsOnePanel) {
  ordered_json run = scored("a", {0.5, 0.6});
  EXPECT_THAT(drawn({run}), HasSubstr("over bytes between sites"));
  run["scores"]["wan_bytes"] = {0, 0};
  EXPECT_THAT(drawn({run}), ::testing::Not(HasSubstr("over bytes between sites")));
}

TEST(Picture, WithoutAScoreThereIsNone) {
  EXPECT_THAT(failure(picture_svg(page_data({scored("a", {})}))).what,
              HasSubstr("[report] every_rounds"));
}

TEST(Page, DataCannotEndTheScript) {
  const ordered_json data = {{"verdict", "</script><b>/*page.js*/"},
                             {"runs", ordered_json::array()}};
  const auto page = page_html("a < b", data, false);
  if (!page) {
    EXPECT_THAT(page.error().what, HasSubstr("scripts/fetch-web"));
    return;
  }
  EXPECT_THAT(*page, HasSubstr("<title>a &lt; b</title>"));
  EXPECT_THAT(*page, HasSubstr(R"({"verdict":"\u003c/script>\u003cb>/*page.js*/","runs":[]})"));
}

}  // namespace
}  // namespace longhaul::report
