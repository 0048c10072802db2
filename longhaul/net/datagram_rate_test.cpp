#include "longhaul/net/datagram_rate.h"

#include <gtest/gtest.h>

#include "longhaul/base/rng.h"
#include "longhaul/base/testing/effort.h"

namespace longhaul::net {
namespace {

using namespace std::chrono_literals;

using longhaul::testing::kGate;

constexpr std::uint32_t kSize = 1228;
constexpr double kUsual = kGate ? 1e6 : 8.25e6;  // bytes/s: in the gate fewer packets

// Senders that share one queue of a link, first come first served, and lose some more at random.
// Reports come back after the same delay, as net/datagrams sends them.
class SharedLink {
 public:
  struct Config {
    double rate = kUsual;  // bytes/s
    Time delay = 50ms;     // one way
    double queue_s = 0.1;  // in time of the link
    double loss = 0;
    std::size_t senders = 1;
  };
  explicit SharedLink(Config config) : config_(config) {
    for (std::size_t i = 0; i < config.senders; ++i)
      senders_.push_back({.rate = DatagramRate(i + 1)});
  }

  // From the last call on, in steps that are small beside all else.
  void run(Time length) {
    const Time end = now_ + length;
    for (; now_ < end; now_ += kStep) {
      drain();
      ++first_;  // none is always the first to find room in the queue
      for (std::size_t k = 0; k < senders_.size(); ++k) {
        const std::size_t i = (first_ + k) % senders_.size();
        deliver(senders_[i]);
        send(i);
      }
    }
  }
  // Bytes/s that the receiver gets since the last call.
  double taken(std::size_t sender, Time length) {
    return double(std::exchange(senders_[sender].arrived, 0)) / seconds(length);
  }
  const DatagramRate& rate(std::size_t sender) const { return senders_[sender].rate; }
  double queued_s() const { return double(queued_) / config_.rate; }
  void set_rate(double rate) { config_.rate = rate; }
  void cut(bool is_cut) { is_cut_ = is_cut; }
  // It sends so much a second at most, as who has no more.
  void limit(std::size_t sender, double rate) { senders_[sender].most = rate; }

 private:
  static constexpr Time kStep = kGate ? 400us : 100us, kHold = 5ms;
  struct Packet {
    std::size_t sender = 0;
    std::uint64_t number = 0;
    Time at{0};
  };
  struct Report {
    Time at{0};
    DatagramRate::Got got;
  };
  struct Sender {
    DatagramRate rate;
    DatagramRate::Got got = {};
    std::uint64_t number = 0, unreported = 0, arrived = 0;
    Time newest_at{0}, report_at{0};
    std::deque<Report> reports = {};
    double most = 1e12, budget = 0;
  };

  void send(std::size_t i) {
    Sender& one = senders_[i];
    one.budget = std::min(4.0 * kSize, one.budget + one.most * seconds(kStep));
    while (one.budget > 0 && one.rate.may_send(now_)) {
      one.rate.sent(now_, ++one.number, kSize);
      one.budget -= kSize;
      const bool fits = double(queued_ + kSize) <= config_.queue_s * config_.rate;
      if (!fits || is_cut_ || random_.uniform() < config_.loss) continue;
      queued_ += kSize;
      queue_.push_back({i, one.number, now_});
    }
  }
  void drain() {
    credit_ = queue_.empty() ? 0 : credit_ + config_.rate * seconds(kStep);
    while (!queue_.empty() && credit_ >= kSize) {
      credit_ -= kSize;
      queued_ -= kSize;
      Packet packet = queue_.front();
      queue_.pop_front();
      packet.at = now_ + config_.delay;
      on_way_.push_back(packet);
    }
    while (!on_way_.empty() && on_way_.front().at <= now_) {
      arrive(senders_[on_way_.front().sender], on_way_.front().number);
      on_way_.pop_front();
    }
    for (Sender& one : senders_)
      if (one.unreported > 0 && now_ >= one.report_at) report(one);
  }
  void arrive(Sender& one, std::uint64_t number) {
    one.got.highest = std::max(one.got.highest, number);
    ++one.got.count;
    one.got.bytes += kSize;
    one.arrived += kSize;
    one.newest_at = now_;
    if (++one.unreported == 1) one.report_at = now_ + kHold;
    if (one.unreported >= 16) report(one);
  }
  void report(Sender& one) {
    one.unreported = 0;
    one.got.held = now_ - one.newest_at;
    if (!is_cut_) one.reports.push_back({now_ + config_.delay, one.got});
  }
  void deliver(Sender& one) {
    while (!one.reports.empty() && one.reports.front().at <= now_) {
      one.rate.report(now_, one.reports.front().got);
      one.reports.pop_front();
    }
  }

  Config config_;
  std::vector<Sender> senders_;
  Time now_{1};
  std::deque<Packet> queue_, on_way_;
  std::uint64_t queued_ = 0;
  std::size_t first_ = 0;
  double credit_ = 0;
  bool is_cut_ = false;
  Random random_{1, longhaul::Stream{}};
};

TEST(DatagramRate, FillsALinkOfAnyRateAndDelayInSpiteOfSomeLoss) {
  const Time length = kGate ? 4s : 10s;
  for (const double rate : {0.1e6, 1e6, 8.25e6, 40e6})
    for (const Time delay : {Time(1ms), Time(50ms)}) {
      if (kGate && rate > 1e6) continue;
      SCOPED_TRACE(::testing::Message() << rate << " bytes/s, " << seconds(delay) << " s");
      SharedLink link({.rate = rate, .delay = delay, .loss = 0.01});
      link.run(6s);
      (void)link.taken(0, 6s);
      link.run(length);
      EXPECT_GT(link.taken(0, length), 0.9 * rate);
    }
}

// A queue longer than the path: it stays mostly empty.
TEST(DatagramRate, DoesNotFillTheQueue) {
  SharedLink link({.queue_s = 1});
  link.run(5s);
  double most = 0;
  for (int i = 0; i < 100; ++i) {
    link.run(50ms);
    most = std::max(most, link.queued_s());
  }
  EXPECT_LT(most, 0.1) << "a round trip's worth";
}

TEST(DatagramRate, TwoShareALink) {
  for (const double queue_s : {0.05, 0.1, 0.3}) {
    if (kGate && queue_s == 0.1) continue;
    SCOPED_TRACE(queue_s);
    SharedLink link({.queue_s = queue_s, .senders = 2});
    link.run(kGate ? 6s : 10s);
    for (const std::size_t sender : {0u, 1u}) (void)link.taken(sender, 10s);
    const Time length = kGate ? 10s : 40s;
    link.run(length);
    const double one = link.taken(0, length), other = link.taken(1, length);
    EXPECT_GT(one + other, 0.85 * kUsual);
    EXPECT_LT(std::max(one, other), 2 * std::min(one, other));
  }
}

TEST(DatagramRate, FollowsALinkThatChanges) {
  SharedLink link({});
  link.run(5s);
  for (double rate : {1e6, 20e6, 4e6}) {
    if (kGate) rate /= 8;
    SCOPED_TRACE(rate);
    link.set_rate(rate);
    link.run(kGate ? 9s : 15s);
    (void)link.taken(0, 1s);
    link.run(5s);
    EXPECT_GT(link.taken(0, 5s), 0.8 * rate);
    EXPECT_LT(link.rate(0).rate(), 1.6 * rate);
  }
}

// A path that loses a third of all, whatever the rate, may be one that polices.
TEST(DatagramRate, MuchLossIsAnsweredByLess) {
  SharedLink link({.loss = 0.35});
  link.run(20s);
  EXPECT_LT(link.rate(0).rate(), 0.3 * kUsual);
}

// Who has little to send learns nothing wrong: later it finds the link's rate.
TEST(DatagramRate, IdleTimesDoNotLowerTheRate) {
  SharedLink link({});
  link.limit(0, 50e3);
  link.run(20s);
  link.limit(0, 1e12);
  link.run(3s);
  (void)link.taken(0, 1s);
  link.run(5s);
  EXPECT_GT(link.taken(0, 5s), 0.85 * kUsual);
  link.limit(0, 200e3);
  link.run(30s);
  EXPECT_GT(link.rate(0).rate(), 2e6 / 8.25e6 * kUsual)
      << "the path was not slower, only less was sent";
}

TEST(DatagramRate, NothingComesBackFromACutPath) {
  SharedLink link({});
  link.run(5s);
  link.cut(true);
  link.run(kGate ? 5s : 10s);
  (void)link.taken(0, 1s);
  EXPECT_LT(link.rate(0).rate(), 4.2e6 / 8.25e6 * kUsual);
  link.cut(false);
  link.run(kGate ? 15s : 30s);
  (void)link.taken(0, 1s);
  link.run(5s);
  EXPECT_GT(link.taken(0, 5s), 0.8 * kUsual) << "it has recovered";
}

TEST(DatagramRate, FalseReportsChangeNothing) {
  SharedLink link({});
  link.run(5s);
  DatagramRate rate = link.rate(0);
  const double before = rate.rate();
  const auto under_way = rate.under_way();
  ASSERT_GT(under_way, 0u);
  rate.report(6s, {.highest = 1'000'000'000, .count = 1'000'000'000, .bytes = 1u << 31});
  rate.report(6s, {.highest = 5, .count = 1'000'000'000, .bytes = 1u << 31});
  rate.report(6s, {.highest = ~std::uint64_t(0), .count = 0, .bytes = 0});
  EXPECT_EQ(rate.rate(), before);
  EXPECT_EQ(rate.under_way(), under_way);
  // More than was sent counts as what was sent.
  DatagramRate greedy;
  for (std::uint64_t number = 1; number <= 10; ++number) greedy.sent(1ms, number, kSize);
  greedy.report(101ms, {.highest = 10, .count = 1u << 30, .bytes = 1u << 30, .held = -5s});
  EXPECT_LT(greedy.rate(), 4e5);
  EXPECT_EQ(greedy.under_way(), 0u);
}

TEST(DatagramRate, WhatIsUnderWayIsBounded) {
  SharedLink link({.rate = 1e9, .delay = 200ms, .queue_s = 1});
  link.run(2s);
  EXPECT_LE(link.rate(0).under_way(), DatagramRate::kMostUnderWay * kSize);
}

}  // namespace
}  // namespace longhaul::net
