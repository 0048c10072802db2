#include "longhaul/doctor/report.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "longhaul/doctor/grades.h"

namespace longhaul::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

DirectionResult good_way(double payload_mbps) {
  return {.sent = 200,
          .counted = {200, 200},
          .bulk = {1e7, 4, payload_mbps / 8e-6},
          .path = {1500, "bbr"}};
}

PairResult good_pair(std::uint32_t from, std::uint32_t to) {
  return {.from = from,
          .to = to,
          .reached = true,
          .pongs = 11,
          .rtt_min_s = 0.040,
          .rtt_median_s = 0.041,
          .offset_s = 0.003,
          .there = good_way(14.48),
          .back = good_way(28.96)};
}

PairResult lost_pair(std::uint32_t from, std::uint32_t to) {
  return {.from = from, .to = to, .failure = "cannot connect: no answer"};
}

Report good_report(std::uint32_t sites) {
  Report report{.job = "job", .job_hash = "00ff"};
  report.plan.congestion = "bbr";
  for (std::uint32_t i = 0; i < sites; ++i) {
    report.sites.push_back({.name = "site-" + std::to_string(i),
                            .address = "10.0.0." + std::to_string(i + 1) + ":7000",
                            .present = true,
                            .release = "1",
                            .facts = {std::uint64_t(5e9), std::uint64_t(5e9), "bbr cubic", true}});
    for (std::uint32_t j = 0; j < i; ++j) report.pairs.push_back(good_pair(j, i));
  }
  return report;
}

// A site that nobody comes together with.
void isolate(Report& report, std::uint32_t site) {
  report.sites[site].present = false;
  report.sites[site].failure = "no answer";
  for (PairResult& pair : report.pairs) {
    if (pair.to == site) pair = lost_pair(pair.from, site);
    if (pair.from == site) pair = lost_pair(pair.to, site);
  }
}

TEST(Findings, NothingWrongIsNothingFound) {
  EXPECT_EQ(findings(good_report(4)).size(), 0u);
  EXPECT_EQ(worst({}), Grade::good);
}

TEST(Findings, AnUnreachableSiteIsOneFindingThatNamesWhoTried) {
  for (const std::uint32_t site : {1u, 3u}) {
    Report report = good_report(4);
    isolate(report, site);
    const auto found = findings(report);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].grade, Grade::bad);
    EXPECT_EQ(found[0].where, report.sites[site].name);
    for (std::uint32_t other = 0; other < 4; ++other)
      if (other != site) EXPECT_THAT(found[0].what, HasSubstr(report.sites[other].name));
    EXPECT_THAT(found[0].remedy, HasSubstr(report.sites[site].address));
  }
}

TEST(Findings, OneClosedWayIsNamedAsAWay) {
  Report report = good_report(4);
  report.pairs[4] = lost_pair(1, 3);
  const auto found = findings(report);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].where, "site-1 -> site-3");
}

TEST(Findings, AFirstSiteThatReachesNobodyIsToLookAtItself) {
  Report report = good_report(3);
  for (PairResult& pair : report.pairs) pair = lost_pair(pair.from, pair.to);
  report.pairs.erase(report.pairs.begin() + 2);  // 1 -> 2: nobody was told to try
  for (const std::uint32_t site : {1u, 2u}) report.sites[site].present = false;
  EXPECT_THAT(findings(report)[0].what, HasSubstr("reaches none of the others: site-1, site-2"));
}

std::string only(const Report& report, Grade grade) {
  const auto found = findings(report);
  EXPECT_EQ(found.size(), 1u);
  if (found.empty()) return "";
  EXPECT_EQ(found[0].grade, grade);
  EXPECT_NE(found[0].remedy, "");
  return found[0].where + ": " + found[0].what;
}

TEST(Findings, AKernelWithoutBbrIsANoteAndWithLossWorse) {
  Report report = good_report(2);
  report.sites[1].facts.has_bbr = false;
  EXPECT_THAT(only(report, Grade::note), HasSubstr("site-1: its kernel has no bbr"));
  report.expected_loss = 0.01;
  EXPECT_THAT(only(report, Grade::bad), HasSubstr("far slower"));
  report.plan.congestion = "cubic";
  EXPECT_THAT(only(report, Grade::bad), HasSubstr("far slower"));
  report.expected_loss = 0;
  EXPECT_EQ(findings(report).size(), 0u);
}

TEST(Findings, OfMachines) {
  Report report = good_report(2);
  report.sites[1].facts.disk_free = 5e8;
  EXPECT_THAT(only(report, Grade::bad), HasSubstr("site-1: 0.5 GB are left"));
  report = good_report(2);
  report.sites[1].facts.memory_available = 4e8;
  EXPECT_THAT(only(report, Grade::bad), HasSubstr("site-1: 0.4 GB of memory"));
  report = good_report(2);
  report.sites[1].release = "2";
  EXPECT_THAT(only(report, Grade::bad), HasSubstr("site-1: it runs 2, site-0 runs 1"));
}

TEST(Findings, ANameThatLeadsToItsOwnMachineIsNamed) {
  Report report = good_report(2);
  report.sites[1].facts.own_name = "mybox is 127.0.1.1";
  EXPECT_THAT(only(report, Grade::note),
              HasSubstr("site-1: on its own machine mybox is 127.0.1.1"));
  report.sites[1].facts.is_alone = true;
  EXPECT_THAT(only(report, Grade::bad), HasSubstr("site-1: it listens at its loopback"));
}

TEST(Findings, OfWays) {
  const auto with = [](auto&& change) {
    Report report = good_report(2);
    change(report, report.pairs[0]);
    return report;
  };
  EXPECT_THAT(only(with([](Report&, PairResult& p) {
                     p.back.counted = {190, 190};
                   }),
                   Grade::note),
              HasSubstr("site-1 -> site-0: 5.0 % of 200"));
  EXPECT_THAT(only(with([](Report&, PairResult& p) {
                     p.there.counted = {100, 100};
                   }),
                   Grade::bad),
              HasSubstr("site-0 -> site-1: 50.0 % of 200"));
  EXPECT_THAT(only(with([](Report&, PairResult& p) { p.there.counted = {}; }), Grade::note),
              HasSubstr("no UDP passes"));
  EXPECT_THAT(only(with([](Report&, PairResult& p) { p.offset_s = -7; }), Grade::note),
              HasSubstr("7.0 s apart"));
  EXPECT_THAT(only(with([](Report&, PairResult& p) { p.there.path.mtu = 600; }), Grade::note),
              HasSubstr("600 bytes"));
  EXPECT_EQ(findings(with([](Report&, PairResult& p) { p.there.path.mtu = 0; })).size(), 0u);
  EXPECT_THAT(only(with([](Report&, PairResult& p) { p.rtt_median_s = 6; }), Grade::bad),
              HasSubstr("a round trip takes 6.0 s"));
  EXPECT_THAT(only(with([](Report&, PairResult& p) { p.failure = "it stalls"; }), Grade::bad),
              HasSubstr("it stalls"));
  EXPECT_THAT(only(with([](Report&, PairResult& p) { p.back.counted.marked = 3; }), Grade::note),
              HasSubstr("do not survive: site-1 -> site-0"));
  EXPECT_EQ(findings(with([](Report& r, PairResult& p) {
              p.back.counted.marked = 3;
              r.dscp = false;
            })).size(),
            0u);
}

TEST(Report, EachDirectionHasItsOwnFigures) {
  const Report report = good_report(2);
  const auto there = report.direction(0, 1), back = report.direction(1, 0);
  ASSERT_TRUE(there && back);
  EXPECT_NEAR(mbps(there->way), 15, 1e-9);
  EXPECT_NEAR(mbps(back->way), 30, 1e-9);
  EXPECT_EQ(there->offset_s, -back->offset_s);
}

TEST(Report, TablesMarkWhatIsWrong) {
  Report report = good_report(3);
  isolate(report, 2);
  report.pairs[0].there.counted.came = 100;
  const Table sites = site_table(report), pairs = pair_table(report);
  EXPECT_EQ(sites.rows[2][2], "no !");
  ASSERT_EQ(pairs.rows.size(), 6u);
  EXPECT_EQ(pairs.rows[0][4], "50.0 % !");
  EXPECT_EQ(pairs.rows[1][2], "unreachable !");
  for (const auto& row : pairs.rows) EXPECT_LE(row.size(), pairs.head.size());
}

TEST(Report, JsonHasEverythingAndNullForWhatIsUnknown) {
  Report report = good_report(3);
  isolate(report, 2);
  const auto json = nlohmann::json::parse(to_json(report));
  ASSERT_EQ(json["pairs"].size(), 6u);
  EXPECT_NEAR(json["pairs"][0]["mbps"], 15, 1e-9);
  EXPECT_NEAR(json["pairs"][0]["goodput_mbps"], 14.48, 1e-9);
  EXPECT_NEAR(json["pairs"][0]["rtt_ms"], 41, 1e-9);
  EXPECT_TRUE(json["pairs"][1]["mbps"].is_null());
  EXPECT_EQ(json["findings"][0]["where"], "site-2");
}

TEST(WanFile, HasEachDirectionAndNamesWhatIsMissing) {
  Report report = good_report(3);
  isolate(report, 2);
  report.pairs[0].back.counted.came = 180;
  const auto text = wan_toml(report);
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, HasSubstr("[wan]\nmodel = \"fair\"\nmbps = 15.000\ndelay_ms = 20.000\n"));
  EXPECT_THAT(*text, HasSubstr("from = \"site-0\"\nto = \"site-1\"\nmbps = 15.000\n"
                               "delay_ms = 20.000\n[[wan.link]]"));
  EXPECT_THAT(*text, HasSubstr("from = \"site-1\"\nto = \"site-0\"\nmbps = 33.333\n"
                               "delay_ms = 20.000\nloss = 0.1000\n"));
  EXPECT_THAT(*text, HasSubstr("# not measured: site-2 -> site-0\n"));
  EXPECT_THAT(*text, Not(HasSubstr("\nfrom = \"site-2\"")));
}

// Of a direction with 40 ms of round trip.
void show_queue(DirectionResult& way, double transfer_s, double beside_s) {
  way.path.rtt_max_s = transfer_s;
  way.beside_rtt_s = beside_s;
}

TEST(WanFile, QueuesAreAsMostDirectionsShowThem) {
  Report report = good_report(3);
  EXPECT_THAT(*wan_toml(report), HasSubstr("# Queues are unknown"));
  EXPECT_THAT(*wan_toml(report), Not(HasSubstr("queue =")));
  show_queue(report.pairs[0].there, 0.080, 0.090);
  show_queue(report.pairs[1].there, 0.110, 0.100);
  show_queue(report.pairs[1].back, 0.110, 0.120);
  show_queue(report.pairs[2].back, 0.070, 0.041);
  EXPECT_THAT(*wan_toml(report), HasSubstr("in 3 of 4 directions, for up to 50 to 80 ms.\n"
                                           "queue = \"drop_tail\"\nqueue_ms = 60.0\n[[wan.link]]"));
  for (DirectionResult* way : {&report.pairs[0].there, &report.pairs[1].there})
    way->beside_rtt_s = 0.042;
  EXPECT_THAT(*wan_toml(report), HasSubstr("in 3 of 4 directions.\nqueue = \"per_flow\"\n"));
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json["pairs"][0]["queue"], "per_flow");
  EXPECT_NEAR(json["pairs"][0]["queue_ms"], 40, 1e-9);
  EXPECT_TRUE(json["pairs"][2]["queue"].is_null());
}

TEST(WanFile, NothingMeasuredIsAnError) {
  Report report = good_report(2);
  isolate(report, 1);
  EXPECT_FALSE(wan_toml(report));
}

}  // namespace
}  // namespace longhaul::doctor
