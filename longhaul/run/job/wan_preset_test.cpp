// The networks that come with the program, against what is known of their sources. The numbers
// were computed from the matrices by other means than this code.
//
// Invariants:
//   I1  matrices are square, full and positive
//   I2  symmetric matrices, and the asymmetry of the others
//   I3  minimum, maximum and mean of every matrix
//   I4  Gaia's five rates; the 11 AWS regions are among the 20
//   I5  the hub with the smallest largest round trip
//   I6  scaled rates, and those of the window model
//   I7  number of pairs that one relay would help
//   I8  one flow of 100 MB alone reaches its bound: Fifo.I8_ASingleFlowReachesItsBound in
//       longhaul/run/network_test.cpp

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <gmock/gmock.h>

#include "longhaul/run/job/matrix_wan.h"
#include "longhaul/run/job/site_index.h"
#include "longhaul/run/job/wan.h"

namespace longhaul::run {
namespace {

using flow::Wan;

const WanPreset& preset(std::string_view name) {
  const WanPreset* found = find_wan_preset(name);
  LH_CHECK(found);
  return *found;
}

Wan network(std::string_view name) { return preset_network(preset(name)); }

std::uint32_t site(const Wan& wan, std::string_view name) { return SiteIndex(wan.sites).at(name); }

double to_mbps(const flow::Rate& rate) {
  return rate ? *rate / 125000 : std::numeric_limits<double>::infinity();
}

// One number of every ordered pair.
template <class Get>
struct Cells {
  const Wan& wan;
  Get get;
  double at(std::uint32_t from, std::uint32_t to) const { return get(wan, from, to); }
  template <class Visit>
  void each(Visit&& visit) const {
    for (std::uint32_t from = 0; from < wan.sites.size(); ++from)
      for (std::uint32_t to = 0; to < wan.sites.size(); ++to)
        if (from != to) visit(at(from, to), wan.sites[from].name + " > " + wan.sites[to].name);
  }
};
constexpr auto kRate = [](const Wan& w, std::uint32_t a, std::uint32_t b) {
  return to_mbps(w.pair(a, b).rate);
};
constexpr auto kFlow = [](const Wan& w, std::uint32_t a, std::uint32_t b) {
  return to_mbps(w.pair(a, b).flow);
};
constexpr auto kRtt = [](const Wan& w, std::uint32_t a, std::uint32_t b) {
  return w.pair(a, b).delay_s * 2e3;
};
template <class Get>
Cells(const Wan&, Get) -> Cells<Get>;

struct Extremes {
  double smallest = std::numeric_limits<double>::infinity(), largest = 0, sum = 0;
  std::string where_smallest, where_largest;
  std::size_t count = 0;
  double mean() const { return sum / double(count); }
};

template <class Get>
Extremes extremes(const Wan& wan, Get get) {
  Extremes e;
  Cells{wan, get}.each([&](double value, const std::string& pair) {
    if (value < e.smallest) e.smallest = value, e.where_smallest = pair;
    if (value > e.largest) e.largest = value, e.where_largest = pair;
    e.sum += value;
    ++e.count;
  });
  return e;
}

template <class Get>
double asymmetry(const Wan& wan, Get get) {
  double worst = 0;
  const Cells cells{wan, get};
  for (std::uint32_t a = 0; a < wan.sites.size(); ++a)
    for (std::uint32_t b = 0; b < a; ++b)
      worst = std::max(worst, std::abs(cells.at(a, b) - cells.at(b, a)) /
                                  std::max(cells.at(a, b), cells.at(b, a)));
  return worst;
}

// Ordered pairs for which one relay is better, and the largest gain and its route.
struct Relays {
  std::size_t count = 0;
  double best = 0;
  std::string route;
};
Relays delay_relays(const Wan& wan) {
  const Cells rtt{wan, kRtt};
  Relays relays;
  const auto n = std::uint32_t(wan.sites.size());
  for (std::uint32_t a = 0; a < n; ++a)
    for (std::uint32_t b = 0; b < n; ++b) {
      if (a == b) continue;
      double gain = 0;
      std::string route;
      for (std::uint32_t via = 0; via < n; ++via) {
        if (via == a || via == b) continue;
        const double saved = rtt.at(a, b) - rtt.at(a, via) - rtt.at(via, b);
        if (saved <= gain + 1e-9) continue;
        gain = saved;
        route = wan.sites[a].name + "-" + wan.sites[via].name + "-" + wan.sites[b].name;
      }
      relays.count += gain > 0;
      if (gain > relays.best) relays.best = gain, relays.route = route;
    }
  return relays;
}
std::size_t rate_relays(const Wan& wan) {
  const Cells rate{wan, kRate};
  std::size_t count = 0;
  const auto n = std::uint32_t(wan.sites.size());
  for (std::uint32_t a = 0; a < n; ++a)
    for (std::uint32_t b = 0; b < n; ++b) {
      bool better = false;
      for (std::uint32_t via = 0; via < n && a != b; ++via)
        better =
            better || (via != a && via != b &&
                       std::min(rate.at(a, via), rate.at(via, b)) > rate.at(a, b) * (1 + 1e-9));
      count += better;
    }
  return count;
}

// The site whose largest round trip, there and back the larger, is smallest.
std::pair<std::string, double> hub(const Wan& wan) {
  std::pair<std::string, double> best = {"", std::numeric_limits<double>::infinity()};
  const Cells rtt{wan, kRtt};
  for (std::uint32_t a = 0; a < wan.sites.size(); ++a) {
    double largest = 0;
    for (std::uint32_t b = 0; b < wan.sites.size(); ++b)
      if (a != b) largest = std::max({largest, rtt.at(a, b), rtt.at(b, a)});
    if (largest < best.second) best = {wan.sites[a].name, largest};
  }
  return best;
}

TEST(WanPreset, EveryFileReads) {
  std::set<std::string> names;
  for (const TextFile& file : preset_files()) {
    if (!file.name.ends_with(".toml")) continue;
    auto read = parse_wan_preset(file, preset_files());
    ASSERT_TRUE(read) << file.name << ": " << read.error().what;
    EXPECT_EQ(read->name + ".toml", file.name);
    EXPECT_FALSE(read->summary.empty() || read->sources.empty()) << file.name;
    EXPECT_THAT(read->standing, ::testing::AnyOf("measured", "synthetic", "made")) << file.name;
    names.insert(read->name);
  }
  EXPECT_EQ(names.size(), 16u);
}

TEST(WanPreset, I1_MatricesAreSquareFullAndPositive) {
  std::size_t matrices = 0;
  for (const TextFile& file : preset_files()) {
    if (!file.name.ends_with(".csv")) continue;
    const CellKind& kind = file.name.ends_with("mbps.csv") ? kRateCells : kRttCells;
    auto matrix = parse_matrix(file.text, std::string(file.name), kind);
    ASSERT_TRUE(matrix) << matrix.error().what;
    const std::size_t n = matrix->names.size();
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = 0; b < n; ++b) EXPECT_EQ(matrix->at(a, b) > 0, a != b);
    ++matrices;
    std::string spoilt(file.text);  // and a reader that takes what is not so would prove nothing
    spoilt.replace(spoilt.find(",,") + 2, 1, "-");
    EXPECT_FALSE(parse_matrix(spoilt, "spoilt.csv", kind)) << file.name;
  }
  EXPECT_EQ(matrices, 9u);
}

TEST(WanPreset, I2_DirectionsDifferWhereTheyWereMeasured) {
  for (std::string_view name : {"dtfm-10", "dtfm-4us"}) {
    EXPECT_EQ(asymmetry(network(name), kRate), 0) << name;
    EXPECT_EQ(asymmetry(network(name), kRtt), 0) << name;
  }
  EXPECT_EQ(asymmetry(network("gaia-11"), kRate), 0);
  EXPECT_NEAR(asymmetry(network("aws-11-multi"), kRate), 0.012, 5e-4);
  EXPECT_NEAR(asymmetry(network("aws-11-multi"), kRtt), 0.067, 6e-4);
  EXPECT_NEAR(asymmetry(network("aws-20-multi"), kRate), 0.044, 5e-4);
  EXPECT_NEAR(asymmetry(network("aws-20-multi"), kRtt), 0.189, 5e-4);
  EXPECT_NEAR(asymmetry(network("ec2-2017-10"), kRtt), 0.019, 5e-4);
  EXPECT_NEAR(asymmetry(network("ibm-10"), kRtt), 0.050, 5e-4);
  const Wan wan = network("gaia-11");  // a direction is half of its own cell
  EXPECT_NEAR(wan.pair(site(wan, "mumbai"), site(wan, "california")).delay_s, 0.220730 / 2, 1e-9);
  EXPECT_NEAR(wan.pair(site(wan, "california"), site(wan, "mumbai")).delay_s, 0.227820 / 2, 1e-9);
}

struct Row {
  std::string preset;
  bool rate;
  double smallest;
  std::string where_smallest;
  double largest;
  std::string where_largest;
  double mean;
};

TEST(WanPreset, I3_Extremes) {
  const std::vector<Row> rows = {
      {"aws-11-multi", true, 1924, "saopaulo > singapore", 4679, "california > oregon", 3497.4},
      {"gaia-11", false, 20.63, "california > oregon", 360.05, "singapore > saopaulo", 161.0},
      {"aws-20-multi", true, 1075, "capetown > sydney", 4755, "osaka > tokyo", 3525.5},
      {"aws-20-multi", false, 8.23, "tokyo > osaka", 403.39, "capetown > sydney", 155.8},
      {"dtfm-10", true, 326, "sydney > london", 1160, "virginia > london", 658.2},
      {"dtfm-10", false, 11, "virginia > ohio", 265, "sydney > frankfurt", 136.6},
      {"dtfm-4us", true, 1020, "", 1250, "", 1115},
      {"dtfm-4us", false, 11, "", 67, "", 41.7},
      {"gaia-11", true, 100, "", 1500, "", 290.9},
      {"ec2-2017-10", false, 19.2, "oregon > california", 328.1, "singapore > saopaulo", 170.4},
      {"ibm-10", false, 9, "osaka > tokyo", 328, "saopaulo > sydney", 155.8},
  };
  for (const Row& row : rows) {
    const Wan wan = network(row.preset);
    const Extremes e = row.rate ? extremes(wan, kRate) : extremes(wan, kRtt);
    EXPECT_NEAR(e.smallest, row.smallest, 1e-9) << row.preset;
    EXPECT_NEAR(e.largest, row.largest, 1e-9) << row.preset;
    EXPECT_NEAR(e.mean(), row.mean, 0.05001) << row.preset;
    auto value_at = [&](const std::string& where) {
      const std::uint32_t from = site(wan, where.substr(0, where.find(' ')));
      const std::uint32_t to = site(wan, where.substr(where.rfind(' ') + 1));
      return row.rate ? kRate(wan, from, to) : kRtt(wan, from, to);
    };
    if (!row.where_smallest.empty()) EXPECT_NEAR(value_at(row.where_smallest), e.smallest, 1e-9);
    if (!row.where_largest.empty()) EXPECT_NEAR(value_at(row.where_largest), e.largest, 1e-9);
  }
}

TEST(WanPreset, I4_GaiaHasFiveRatesAndAwsItsDelays) {
  std::map<double, int> unordered;
  const Wan gaia = network("gaia-11"), aws = network("aws-20-multi");
  for (std::uint32_t a = 0; a < 11; ++a)
    for (std::uint32_t b = 0; b < a; ++b) ++unordered[std::round(kRate(gaia, a, b))];
  EXPECT_EQ(unordered,
            (std::map<double, int>{{100, 36}, {300, 8}, {500, 4}, {1000, 5}, {1500, 2}}));
  for (std::string_view name : {"gaia-11", "gaia-11-lan15", "aws-11-multi", "aws-11-single"}) {
    const Wan few = network(name);
    ASSERT_EQ(few.sites.size(), 11u);
    for (std::uint32_t a = 0; a < 11; ++a)
      for (std::uint32_t b = 0; b < 11; ++b) {
        if (a == b) continue;
        const std::uint32_t from = site(aws, few.sites[a].name), to = site(aws, few.sites[b].name);
        EXPECT_EQ(few.pair(a, b).delay_s, aws.pair(from, to).delay_s);
        if (name.starts_with("aws")) EXPECT_EQ(few.pair(a, b).rate, aws.pair(from, to).rate);
      }
  }
}

TEST(WanPreset, I5_BestHubs) {
  using Hub = std::pair<std::string, double>;
  auto is = [](std::string_view name, const Hub& expected) {
    const Hub found = hub(network(name));
    EXPECT_EQ(found.first, expected.first) << name;
    EXPECT_NEAR(found.second, expected.second, 1e-9) << name;
  };
  is("gaia-11", {"oregon", 210.99});
  is("dtfm-10", {"oregon", 163});
  is("ec2-2017-10", {"oregon", 182.7});
  is("ibm-10", {"dallas", 186});
  is("aws-20-multi", {"montreal", 221.57});
}

TEST(WanPreset, I6_ScaledAndWindowedRates) {
  const Extremes lan15 = extremes(network("gaia-11-lan15"), kRate);
  EXPECT_NEAR(lan15.mean(), 66.67, 0.005);
  EXPECT_NEAR(lan15.smallest, 22.9, 0.05);
  EXPECT_NEAR(lan15.largest, 343.75, 1e-9);
  const Wan single = network("aws-11-single");
  const Extremes flows = extremes(single, kFlow);
  EXPECT_NEAR(flows.smallest, 233.3, 0.05);
  EXPECT_EQ(flows.where_smallest, "singapore > saopaulo");
  EXPECT_NEAR(flows.largest, 1140, 1e-9);
  EXPECT_NEAR(flows.mean(), 613.4, 0.05);
  EXPECT_NEAR(extremes(network("ec2-2017-10"), kRate).smallest, 256.0, 0.05);
  EXPECT_NEAR(extremes(network("ibm-10"), kRate).smallest, 256.1, 0.05);
}

TEST(WanPreset, I7_Relays) {
  auto is = [](std::string_view name, std::size_t count, double best, std::string_view route) {
    const Relays relays = delay_relays(network(name));
    EXPECT_EQ(relays.count, count) << name;
    if (!route.empty()) EXPECT_EQ(relays.route, route);
    if (best > 0) EXPECT_NEAR(relays.best, best, 0.5) << name;
  };
  is("gaia-11", 22, 9.6, "singapore-oregon-saopaulo");
  is("dtfm-10", 20, 22, "");
  is("ec2-2017-10", 19, 68, "");
  is("ibm-10", 8, 0, "");
  is("aws-20-multi", 129, 108, "capetown-mumbai-sydney");
  EXPECT_EQ(rate_relays(network("gaia-11")), 48u);
  EXPECT_EQ(rate_relays(network("aws-11-multi")), 88u);
  EXPECT_EQ(rate_relays(network("dtfm-10")), 68u);
  EXPECT_EQ(rate_relays(network("aws-20-multi")), 340u);
}

// All to all of 27.2 MB: the slowest pair, or the uplink that n - 1 vectors pass.
TEST(WanPreset, GoldenTimesOfADenseExchange) {
  constexpr double kMegabits = 27.2 * 8;
  auto pair_s = [](std::string_view name) {
    const Wan wan = network(name);
    const double rate = std::min(extremes(wan, kRate).smallest, extremes(wan, kFlow).smallest);
    return kMegabits / rate;
  };
  auto site_s = [](std::string_view name) {
    const Wan wan = network(name);
    return kMegabits * double(wan.sites.size() - 1) / to_mbps(wan.sites.front().up);
  };
  const struct {
    const char* name;
    double pair_s;
    std::optional<double> site_s = {};
  } goldens[] = {{"gaia-11", 2.176, 2.176},
                 {"gaia-11-lan15", 9.495},
                 {"uniform-ss", 12.983},
                 {"uniform-vc", 1.088},
                 {"dtfm-10", 0.667},
                 {"dtfm-4us", 0.213},
                 {"aws-11-multi", 0.113, 0.435},
                 {"aws-20-multi", 0.202, 0.827},
                 {"aws-11-single", 0.933}};
  for (const auto& golden : goldens) {
    EXPECT_NEAR(pair_s(golden.name), golden.pair_s, 5e-4) << golden.name;
    if (golden.site_s) EXPECT_NEAR(site_s(golden.name), *golden.site_s, 5e-4) << golden.name;
  }
}

TEST(WanPreset, MadeOnesAreWhatTheySay) {
  const Wan two = network("two-continents");
  ASSERT_EQ(two.sites.size(), 8u);
  ASSERT_EQ(two.shared.size(), 2u);  // one each way
  for (const Wan::Shared& shared : two.shared) {
    EXPECT_EQ(shared.pairs.size(), 16u);
    EXPECT_EQ(shared.rate, flow::bytes_per_second(500));
  }
  EXPECT_EQ(two.pair(site(two, "east-1"), site(two, "west-4")).delay_s, 0.045);
  EXPECT_EQ(two.pair(site(two, "east-1"), site(two, "east-4")).delay_s, 0.010);
  const Wan edge = network("edge-hub");
  ASSERT_EQ(edge.sites.size(), 101u);
  EXPECT_EQ(edge.sites.front().name, "hub");
  EXPECT_EQ(edge.sites.back().name, "edge-100");
  EXPECT_EQ(to_mbps(edge.sites.back().up), 10);
  const Wan straggler = network("straggler");
  EXPECT_EQ(to_mbps(straggler.sites[site(straggler, "bad")].up), 20);
  EXPECT_EQ(straggler.pair(site(straggler, "bad"), 0).delay_s, 0.1);
  EXPECT_EQ(network("lan").sites.size(), 4u);
  const auto& redraw = preset("dynamic").redraw;
  ASSERT_TRUE(redraw);
  EXPECT_EQ(redraw->every_s, 180);
  EXPECT_EQ(redraw->lowest_mbps, 20);
  EXPECT_EQ(redraw->highest_mbps, 155);
}

}  // namespace
}  // namespace longhaul::run
