// What sites of gaia tell each other, and what comes of it when some are lost.
#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/base/testing/effort.h"
#include "longhaul/core/channel_messages.h"
#include "longhaul/sync/testing/gaia_job.h"

namespace longhaul::sync {
namespace {

using testing::expect_gaia_ended;
using testing::gaia_at;
using testing::gaia_job;
using testing::gaia_settings;
using testing::kGaiaExchanges;
using testing::Quadratic;
using testing::TestJob;

// gaia.md invariant 5
TEST(Gaia, WhatCameIsNotSentBack) {
  TestJob::Config config = gaia_job(2, gaia_settings(0, 1), 6);
  config.learners[1].rate = 0;
  TestJob job(config);
  job.after_event = [&] {
    for (const float left : gaia_at(job, 1).unsent()) ASSERT_EQ(left, 0);
  };
  job.run();
  expect_gaia_ended(job, {0, 1}, 6);
  for (const auto& [round, share] : job.records.at({1, "sent_share"})) EXPECT_EQ(share, 0);
  for (const auto& [round, share] : job.records.at({0, "sent_share"})) EXPECT_GT(share, 0);
  EXPECT_LT(job.params(1)[1], 10);
}

// Watches a job from outside. Each site's steps are repeated on a learner beside it: b at the end
// is the start and all that the live sites have moved, and of each lost one what it had moved and
// sent up to some clock.
class Conservation {
 public:
  Conservation(TestJob& job, const TestJob::Config& config) : job_(job), config_(config) {
    for (Rank rank = 0; rank < config.learners.size(); ++rank) {
      shadows_.push_back(std::make_unique<Quadratic>(config.size, config.learners[rank]));
      before_.push_back(job.params(rank));
      sites_.emplace_back();
    }
  }

  void watch(const std::set<Rank>& lost) {
    for (Rank rank = 0; rank < sites_.size(); ++rank) {
      if (lost.contains(rank)) continue;
      const Gaia& site = gaia_at(job_, rank);
      Site& seen = sites_[rank];
      const std::size_t n = site.unsent().size();
      if (n == 0) continue;  // it has not started
      seen.moved.resize(n);
      if (job_.steps[rank] > seen.steps) {  // steps count in the event that ends them
        ++seen.steps;
        Quadratic& shadow = *shadows_[rank];
        std::ranges::copy(before_[rank], shadow.params().begin());
        LH_CHECK(shadow.step(LocalStep{}));
        for (std::size_t i = 0; i < n; ++i)
          seen.moved[i] += double(shadow.params()[i]) - double(before_[rank][i]);
      }
      // Up to the newest clock that was sent, at the end also what had been left.
      if (const auto told = seen.sent.try_emplace(site.told(), seen.moved); told.second)
        for (std::size_t i = 0; i < n; ++i) told.first->second[i] -= double(site.unsent()[i]);
      before_[rank] = job_.params(rank);
    }
  }

  // Of the final model: "" or by how much it is off.
  std::string check(Rank live, const std::set<Rank>& lost) const {
    const std::vector<float>& b = gaia_at(job_, live).base().b();
    std::vector<double> rest(b.size());
    for (std::size_t i = 0; i < rest.size(); ++i) {
      rest[i] = double(b[i]) - double(config_.learners[0].start);
      for (Rank rank = 0; rank < sites_.size(); ++rank)
        if (!lost.contains(rank)) rest[i] -= sites_[rank].moved[i];
    }
    return explained(rest, {lost.begin(), lost.end()}) ? "" : "off by " + std::to_string(rest[0]);
  }

 private:
  struct Site {
    std::uint64_t steps = 0;
    std::vector<double> moved;
    std::map<Round, std::vector<double>> sent;  // up to a clock
  };
  bool explained(const std::vector<double>& rest, std::vector<Rank> lost) const {
    if (lost.empty())
      return std::ranges::all_of(rest, [](double left) { return std::abs(left) < 2e-4; });
    const Site& site = sites_[lost.back()];
    lost.pop_back();
    if (explained(rest, lost)) return true;
    return std::ranges::any_of(site.sent, [&](const auto& one) {
      std::vector<double> less = rest;
      for (std::size_t i = 0; i < less.size(); ++i) less[i] -= one.second[i];
      return explained(less, lost);
    });
  }

  TestJob& job_;
  const TestJob::Config config_;
  std::vector<std::unique_ptr<Quadratic>> shadows_;
  std::vector<std::vector<float>> before_;
  std::vector<Site> sites_;
};

// gaia.md invariant 2, with losses: nothing of a live site is lost or counted twice.
void expect_conserved(std::uint64_t seed) {
  Random random(seed, {});
  const auto n = std::uint32_t(3 + random.below(5));
  const std::string exchange = kGaiaExchanges[seed % 3];
  const Round rounds = 6 + random.below(6);
  TestJob::Config config = gaia_job(
      n, gaia_settings(0.1 * random.uniform(), std::int64_t(random.below(4)), exchange), rounds);
  config.settings.push_back({"scale", {1.0}});
  for (auto& learner : config.learners) learner.rate = 0.2f / float(n), learner.buffers = 0;
  std::vector<int> takes;
  for (Rank rank = 0; rank < n; ++rank) takes.push_back(int(random.below(60)));
  config.takes = [takes](Rank rank) { return takes[rank]; };
  SCOPED_TRACE("seed " + std::to_string(seed) + ", " + exchange + " of " + std::to_string(n));
  const Rank first = Rank(random.below(n)), second = Rank((first + 1 + random.below(n - 1)) % n);
  const std::uint64_t at = 1 + random.below(60 * n);
  const std::uint64_t then = at + 1 + random.below(seed % 2 ? 15 : 200);
  const bool both = n > 4;  // a majority of the view is left
  TestJob job(config);
  Conservation conservation(job, config);
  std::set<Rank> lost;
  std::uint64_t events = 0;
  job.after_event = [&] {
    conservation.watch(lost);
    ++events;
    const auto lose = [&](Rank rank) {
      if (job.finished.empty() && lost.insert(rank).second) job.crash(rank);
    };
    if (events == at) lose(first);
    if (events == then && both) lose(second);
  };
  job.run();
  std::vector<Rank> live;
  for (Rank rank = 0; rank < n; ++rank)
    if (!lost.contains(rank)) live.push_back(rank);
  expect_gaia_ended(job, live, rounds);
  EXPECT_EQ(conservation.check(live[0], lost), "");
}

// A peer that claims a base which cannot be, as its clock has no update of the receiver.
TEST(Gaia, AReportOfAClockThatCannotBeCompleteIsRefused) {
  TestJob::Config config = gaia_job(4, gaia_settings(0.05, 1), 8);
  TestJob job(config);
  std::uint64_t events = 0;
  std::string refused;
  job.after_event = [&] {
    if (++events == 40) job.crash(3);
    if (gaia_at(job, 0).is_settled() || !refused.empty() || events < 40) return;
    channel::Begin begin{.handle = 1};
    for (const std::byte byte : to_wire(gaia::CutHeader{
             .kind = gaia::CutHeader::Kind::report, .epoch = 1, .clock = 1000, .samples = 0}))
      begin.header.push_back(std::uint8_t(byte));
    Message message;
    message.machine = Path().child(2).child(1);  // the strategy, its channel of bases
    message.kind = channel::Begin::kKind;
    message.head = Payload(share(to_wire(begin)));
    const Status status = job.node(0).deliver(Time{0}, 1, message);
    ASSERT_FALSE(status);
    refused = status.error().what;
  };
  job.run();
  EXPECT_NE(refused.find("clock 1000 where this site has sent"), std::string::npos) << refused;
  expect_gaia_ended(job, {0, 1, 2}, 8);
}

TEST(Gaia, NothingIsLostOrCountedTwiceWhoeverIsLostWhen) {
  constexpr std::uint64_t kEvery = longhaul::testing::kGate         ? 7
                                   : longhaul::testing::kStride > 1 ? 4
                                                                    : 1;
  for (std::uint64_t seed = 0; seed < 40; seed += kEvery) expect_conserved(seed);
}
TEST(GaiaNightly, NothingIsLostOrCountedTwiceWhoeverIsLostWhen) {
  for (std::uint64_t seed = 40; seed < 1040; ++seed) expect_conserved(seed);
}

}  // namespace
}  // namespace longhaul::sync
