// Invariants:
//   every pair is measured once, no site is twice in a slot, and the slots are the fewest:
//     Schedule.* (schedule_test.cpp)
//   medians, offsets, rates without slow start, queues: Measure.*, RateMeter.* (measure_test.cpp)
//   messages of strangers, of other versions, and too long ones: Channel.* (channel_test.cpp),
//     fuzz/doctor_fuzz.cpp
//   other jobs, other sites, many strangers: Handshake.*, Coordinator.AnotherJobIs*, Participant*
//   both directions of a pair are measured, and every wait ends: Probe*, Bulk.* (channel_test.cpp)
//   a missing site is named, and the others continue: Coordinator.WhoDoesNotCome*
//   thresholds and remedies: Findings.* (report_test.cpp)
//   rates within 10 %, round trips within 2 ms, a plain queue, a firewall:
//     tests/cli/doctor_lab_test.py
#include "longhaul/doctor/coordinate.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "longhaul/doctor/grades.h"
#include "longhaul/doctor/probe.h"
#include "longhaul/doctor/testing/sites.h"
#include "longhaul/secure/testing/keys.h"

namespace longhaul::doctor {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::quick_plan;
using testing::Sites;

TEST(Handshake, OnlySitesOfThisJobMaySpeak) {
  const Sites sites(3);
  const LocalSite self = sites.self(1);
  const auto said = [&](auto&& change) {
    Hello hello = sites.self(0).hello(Purpose::probe);
    change(hello);
    const Status status = check(hello, self);
    return status ? std::string() : status.error().what;
  };
  EXPECT_EQ(said([](Hello&) {}), "");
  EXPECT_EQ(said([](Hello& hello) { hello.release = "another"; }), "");
  EXPECT_THAT(said([](Hello& hello) { hello.job_hash = 8; }),
              HasSubstr("another job (hash 0000000000000008"));
  EXPECT_THAT(said([](Hello& hello) { hello.site = 3; }), HasSubstr("no site of this job"));
  EXPECT_THAT(said([](Hello& hello) { hello.sites = 4; }), HasSubstr("no site of this job"));
  EXPECT_THAT(said([](Hello& hello) { hello.name = "evil\n"; }), HasSubstr("no site of this job"));
  EXPECT_THAT(said([&](Hello& hello) { hello = self.hello(Purpose::probe); }),
              HasSubstr("as this one is"));
}

// Both ways of a pair on one host, by quick_plan().
void expect_measured(const PairResult& pair) {
  EXPECT_EQ(pair.failure, "");
  EXPECT_EQ(pair.pongs, 5u);
  EXPECT_GT(pair.rtt_min_s, 0);
  EXPECT_LE(pair.rtt_min_s, pair.rtt_median_s);
  for (const DirectionResult& way : {pair.there, pair.back}) {
    EXPECT_EQ(way.sent, 20u);
    EXPECT_EQ(way.counted.came, 20u);
    EXPECT_EQ(way.counted.marked, 20u);
    EXPECT_GT(way.bulk.rate, 0);
    EXPECT_GT(way.path.mtu, 1000u);
  }
}

TEST(ProbeNightly, MeasuresBothWays) {
  double slower = 0;  // bytes/s; a pause of the machine may be most of the time of 4 MB: of three
  for (int attempt = 0; attempt < 3 && slower <= 1e6; ++attempt) {
    Sites sites(2);
    sites.participate_as(sites.self(1), 2s);
    const PairResult result = probe(sites.self(0), 1, quick_plan());
    EXPECT_TRUE(result.reached);
    expect_measured(result);
    EXPECT_LT(result.rtt_median_s, 0.5);
    EXPECT_LT(std::abs(result.offset_s), 0.5);  // it is one clock
    sites.join();                               // the first site never came
    ASSERT_FALSE(sites.end(1));
    EXPECT_THAT(sites.end(1).error().what, HasSubstr("site-0 (127.0.0.1:"));
    EXPECT_THAT(sites.end(1).error().what, HasSubstr("although 1 measurements"));
    slower = std::min(result.there.bulk.rate, result.back.bulk.rate);
  }
  EXPECT_GT(slower, 1e6);
}

// Under TLS: a site with keys of the same authority is measured, and one of another, or without, is
// named with the reason.
TEST(Probe, UnderTlsWhoIsNotOfThisJobIsNamed) {
  const auto authority = secure::test_authority();
  const auto with_keys = [&](LocalSite self, const secure::KeyPair& by) {
    self.credentials = secure::test_credentials(by, self.names[self.site], self.names);
    return self;
  };
  Sites sites(4);
  sites.participate_as(with_keys(sites.self(1), authority), 1s);
  sites.participate_as(with_keys(sites.self(2), secure::test_authority()), 1s);
  sites.participate_as(sites.self(3), 1s);
  const LocalSite first = with_keys(sites.self(0), authority);
  const PairResult good = probe(first, 1, quick_plan());
  EXPECT_EQ(good.failure, "");
  EXPECT_GT(good.there.bulk.rate, 0);
  EXPECT_GT(good.back.bulk.rate, 0);
  EXPECT_EQ(good.there.counted.came, 20u);
  EXPECT_THAT(probe(first, 2, quick_plan()).failure,
              AllOf(HasSubstr("site-2"), HasSubstr("another authority")));
  EXPECT_THAT(probe(first, 3, quick_plan()).failure, HasSubstr("site-3"));
  sites.join();
}

TEST(Probe, NobodyThereIsNamed) {
  Sites sites(2);
  sites.shut(1);
  const PairResult result = probe(sites.self(0), 1, quick_plan());
  EXPECT_FALSE(result.reached);
  EXPECT_THAT(result.failure, HasSubstr("site-1 (127.0.0.1:"));
  EXPECT_THAT(result.failure, HasSubstr("cannot connect"));
}

TEST(Coordinator, TheLowerOfTwoThatCameAsks) {
  EXPECT_EQ(measuring_site({1, 2}, {true, true, true}), Pair(1, 2));
  EXPECT_EQ(measuring_site({1, 2}, {true, true, false}), Pair(1, 2));
  EXPECT_EQ(measuring_site({1, 2}, {true, false, true}), Pair(2, 1));
  EXPECT_EQ(measuring_site({1, 2}, {true, false, false}), std::nullopt);
}

TEST(Coordinator, EveryPairIsMeasuredAndAllEnd) {
  Sites sites(4);
  for (const std::uint32_t site : {1u, 2u, 3u}) sites.participate_as(sites.self(site));
  const Report report = sites.coordinated(quick_plan(), 10s, sites.self(0));
  sites.join();
  for (const std::uint32_t site : {1u, 2u, 3u})
    EXPECT_TRUE(sites.end(site)) << sites.end(site).error().what;
  ASSERT_EQ(report.pairs.size(), 6u);
  for (const PairResult& pair : report.pairs) {
    EXPECT_LT(pair.from, pair.to);
    expect_measured(pair);
  }
  for (const SiteReport& site : report.sites) EXPECT_TRUE(site.present);
}

TEST(Coordinator, WhoDoesNotComeIsNamedByAllThatTryAndTheRestGoesOn) {
  Sites sites(4);
  sites.shut(2);
  for (const std::uint32_t site : {1u, 3u}) sites.participate_as(sites.self(site));
  const Report report = sites.coordinated(quick_plan(), 3s, sites.self(0));
  EXPECT_FALSE(report.sites[2].present);
  EXPECT_THAT(report.sites[2].failure, HasSubstr("site-2"));
  std::vector<Pair> failed;
  for (const PairResult& pair : report.pairs)
    if (!pair.reached) failed.push_back({pair.from, pair.to});
  EXPECT_THAT(failed, ::testing::UnorderedElementsAre(Pair(0, 2), Pair(1, 2), Pair(3, 2)));
  const auto found = findings(report);
  ASSERT_GE(found.size(), 1u);
  EXPECT_EQ(found[0].where, "site-2");
  EXPECT_THAT(found[0].what, HasSubstr("tried by"));
}

TEST(Coordinator, AnotherJobIsRefusedWithTheReason) {
  Sites sites(2);
  LocalSite other = sites.self(1);
  other.job_hash = 8;
  sites.participate_as(other, 1s);
  const auto begin = Clock::now();
  const Report report = sites.coordinated(quick_plan(), 60s, sites.self(0));
  EXPECT_LT(seconds(Clock::now() - begin), 20);  // it is not asked again
  EXPECT_FALSE(report.sites[1].present);
  EXPECT_THAT(report.sites[1].failure, HasSubstr("refuses: another job"));
}

TEST(ParticipantNightly, StrangersAreTurnedAwayAndTheRestGoesOn) {
  Sites sites(2);
  sites.participate_as(sites.self(1));
  const net::Address at{"127.0.0.1", sites.port(1)};
  std::vector<Channel> silent;
  for (int i = 0; i < 141; ++i) {  // more than there are places
    auto one = Channel::dial(at, "stranger", testing::soon());
    ASSERT_TRUE(one);
    silent.push_back(*std::move(one));
  }
  const std::string_view words = "GET / HTTP/1.1\r\n\r\n";
  (void)silent.back().write({std::as_bytes(std::span(words.data(), words.size())), {}, {}},
                            testing::soon());
  const Report report = sites.coordinated(quick_plan(), 20s, sites.self(0));
  ASSERT_EQ(report.pairs.size(), 1u);
  EXPECT_EQ(report.pairs[0].failure, "");
}

}  // namespace
}  // namespace longhaul::doctor
