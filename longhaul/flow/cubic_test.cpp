#include "longhaul/flow/cubic.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/base/rng.h"
#include "longhaul/flow/tcp.h"

namespace longhaul::flow {
namespace {

using Time = CubicWindow::Time;
constexpr double kRtt = 0.1;

// Windows one after the other, each after a round trip without loss.
std::vector<double> grow(CubicWindow& window, int rounds, Time& now) {
  std::vector<double> seen;
  for (; rounds > 0; --rounds) {
    now += Time{std::int64_t(kRtt * 1e9)};
    window.round(now, kRtt, {}, true);
    seen.push_back(window.packets());
  }
  return seen;
}

TEST(CubicGrowth, TakesSecondsToFillAQueue) {
  EXPECT_DOUBLE_EQ(cubic_growth(0), 0);
  EXPECT_DOUBLE_EQ(cubic_growth(0.5), 0.05);
  EXPECT_DOUBLE_EQ(cubic_growth(10), 400);
}

TEST(CubicWindow, StartsSlowlyAndGrowsOnlyIfItIsUsed) {
  CubicWindow window(10);
  Time now{0};
  EXPECT_EQ(grow(window, 3, now), (std::vector<double>{20, 40, 80}));
  window.round(now, kRtt, {}, false);
  EXPECT_EQ(window.packets(), 80);
}

// RFC 9438, 4.6: to 0.7 of it, whole packets; no further in the round trip in which what was lost
// is sent again.
TEST(CubicWindow, LossDecreasesItOnce) {
  CubicWindow window(15);
  window.round(Time{0}, kRtt, {.any = true}, true);
  EXPECT_EQ(window.packets(), 10);
  for (int i = 0; i < 3; ++i) window.round(Time{0}, kRtt, {.any = true}, true);
  EXPECT_EQ(window.packets(), 10);
  window.round(Time{0}, kRtt, {}, true);
  EXPECT_EQ(window.packets(), 10);
  window.round(Time{0}, kRtt, {.any = true}, true);
  EXPECT_EQ(window.packets(), 7);
}

// What is lost again is found by a timer, and all begins with one packet.
TEST(CubicWindow, LostAgainItIsSilentUntilATimeout) {
  CubicWindow window(20);
  EXPECT_DOUBLE_EQ(window.round(Time{0}, kRtt, {.any = true, .again = true}, true), 0.3);
  EXPECT_EQ(window.packets(), 0);
  Time now{300'000'000};
  EXPECT_DOUBLE_EQ(window.round(now, kRtt, {}, true), kRtt);
  EXPECT_EQ(window.packets(), 1);
  const std::vector<double> seen = grow(window, 4, now);  // slow start to 14
  EXPECT_EQ(seen, (std::vector<double>{2, 4, 8, 14}));
}

// 4.2: back at the window before the loss, W_max, after K = cbrt(W_max (1 - beta) / C) seconds;
// little happens around there, and beyond it grows faster and faster.
TEST(CubicWindow, ComesBackToItsPeakAfterK) {
  CubicWindow window(1000);
  Time now{0};
  window.round(now, kRtt, {.any = true}, true);
  window.round(now, kRtt, {}, true);
  const double k = std::cbrt(300 / 0.4);
  const std::vector<double> seen = grow(window, 200, now);
  EXPECT_NEAR(seen[std::size_t(k / kRtt)], 1000, 1);
  EXPECT_GT(seen[std::size_t(k / kRtt / 2)], 950);
  EXPECT_NEAR(seen[std::size_t(2 * k / kRtt)], 1300, 15);
}

// 4.7: who loses below the last peak gives way.
TEST(CubicWindow, ConvergesFast) {
  CubicWindow window(1000);
  Time now{0};
  for (int i = 0; i < 2; ++i) {  // 1000 -> 700 -> 490, peak 595
    window.round(now, kRtt, {.any = true}, true);
    window.round(now, kRtt, {}, true);
  }
  const double k = std::cbrt((595 - 490) / 0.4);
  EXPECT_NEAR(grow(window, 100, now)[std::size_t(k / kRtt)], 595, 1);
}

TEST(CubicWindow, APauseHalvesItForEveryTimeout) {
  CubicWindow window(100);
  window.idle(0.29, kRtt, 10);
  EXPECT_EQ(window.packets(), 100);
  window.idle(0.7, kRtt, 10);
  EXPECT_EQ(window.packets(), 25);
  window.idle(3600, kRtt, 10);
  EXPECT_EQ(window.packets(), 10);
}

// Seconds for so many packets of 1500 bytes over a link of 66 Mbit/s that loses p of them; the
// mean of many.
double transfer_s(double packets, double rtt_s, double p) {
  constexpr int kTimes = 40;
  Random random(1, {});
  CubicWindow window;
  const double link = 66e6 / 8 / 1500 * rtt_s;
  double now = 0, begun = 0, sent = -5000;  // in the midst of it
  while (sent < kTimes * packets) {
    const double now_sent = std::min(window.packets(), link);
    const bool used = window.packets() <= link;
    const double whole = std::floor(now_sent + random.uniform());
    const bool any = random.uniform() >= std::pow(1 - p, whole);
    const bool again = random.uniform() < p;
    now += window.round(Time{std::int64_t(now * 1e9)}, rtt_s, {any, again}, used);
    if (sent < 0) begun = now;
    sent += now_sent * (1 - p);
  }
  return (now - begun) / kTimes;
}

// Linux 6.18, cubic, one connection in the emulated WAN: seconds, mean of 10.
TEST(CubicWindow, IsAsSlowAsRealSocketsUnderLoss) {
  struct Measured {
    double mbytes, rtt_s, loss, seconds;
  };
  for (const Measured& m : {Measured{4, 0.02, 0.003, 2.96}, Measured{4, 0.02, 0.01, 5.70},
                            Measured{4, 0.02, 0.03, 12.06}, Measured{2, 0.1, 0.003, 6.08},
                            Measured{2, 0.1, 0.01, 13.26}}) {
    SCOPED_TRACE(m.loss);
    const double packets = m.mbytes * 1e6 / 1448;
    EXPECT_NEAR(transfer_s(packets, m.rtt_s, m.loss) / m.seconds, 1, 0.1);
  }
}

// With many packets under way it is what the response function says, or better: that assumes a loss
// every 1 / p packets, where random ones leave long stretches without, in which it grows fastest.
TEST(CubicWindow, WithManyPacketsKeepsToItsResponseFunction) {
  const double p = 1e-4, rtt = 0.1;
  const double expected = 10000 / (cubic_mean_window(p, rtt) / rtt);
  EXPECT_LT(transfer_s(10000, rtt, p) / expected, 1);
  EXPECT_GT(transfer_s(10000, rtt, p) / expected, 0.7);
}

// Section 5.1 gives the mean window as 1.054 (RTT / p)^0.75 segments for C = 0.4, beta = 0.7.
TEST(CubicMeanWindow, IsThatOfItsResponseFunction) {
  for (const double loss : {1e-5, 1e-6}) {
    const double rtt = 0.1, window = 1.054 * std::pow(rtt / loss, 0.75);
    EXPECT_NEAR(cubic_mean_window(loss, rtt), window, window * 1e-3);
  }
}

// Where Reno has the larger window, at short round trips or much loss, cubic has Reno's, which is
// sqrt(1.5 / p) and knows no seconds.
TEST(CubicMeanWindow, AtMuchLossIsAsReno) {
  for (const double rtt : {0.01, 0.04})
    EXPECT_NEAR(cubic_mean_window(0.01, rtt), std::sqrt(1.5 / 0.01), 1e-9);
}

}  // namespace
}  // namespace longhaul::flow
