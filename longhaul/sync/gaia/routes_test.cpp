#include "longhaul/sync/gaia/routes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "longhaul/base/rng.h"
#include "longhaul/base/testing/effort.h"

namespace longhaul::sync::gaia {
namespace {

constexpr std::uint32_t kSites = 11;
constexpr std::uint64_t kStep = longhaul::testing::kStride > 1 ? 13 : 1;

const Groups& published() {
  static const Groups kGroups = [] {
    Place place;
    Members members;
    for (const char* site : {"virginia", "california", "oregon", "ireland", "frankfurt", "tokyo",
                             "seoul", "singapore", "sydney", "mumbai", "saopaulo"})
      members.push_back({site});
    place.members = std::make_shared<const Members>(members);
    return make_groups({}, {}, place);
  }();
  return kGroups;
}

Routes routes_of(const std::string& exchange, const std::vector<Rank>& live, Rank self) {
  if (exchange == "direct") return direct_routes(live, self);
  const Groups groups = without_lost(published(), live);
  return exchange == "gaia_hubs" ? hub_routes(groups, kSites, self)
                                 : peer_routes(groups, kSites, self);
}

std::vector<Rank> all_but(const std::set<Rank>& lost) {
  std::vector<Rank> live;
  for (Rank rank = 0; rank < kSites; ++rank)
    if (!lost.contains(rank)) live.push_back(rank);
  return live;
}

// 110 directed flows between sites, 30 in groups and 6 between them. `to` of flows out of
// the group counts once more for its relays.
TEST(GaiaRoutes, HubsHaveFewerFlowsBetweenSites) {
  const auto between = [](const std::string& exchange) {
    std::set<std::pair<Rank, Rank>> pairs;
    const auto live = all_but({});
    for (const Rank rank : live)
      for (const Flow& flow : routes_of(exchange, live, rank).flows)
        for (const Rank to : flow.to) pairs.emplace(rank, to);
    return pairs.size();
  };
  EXPECT_EQ(between("direct"), 110u);
  EXPECT_EQ(between("gaia_hubs"), 36u);
  EXPECT_EQ(between("peer_hubs"), 36u);
}

// What is sent for a slot comes from the node that has it.
TEST(GaiaRoutes, SlotsAreThoseOfTheFlowsThatReachThem) {
  for (const std::string exchange : {"direct", "gaia_hubs", "peer_hubs"}) {
    for (const std::set<Rank>& lost :
         {std::set<Rank>{}, {0}, {5, 4}, {3, 4, 9}, {0, 1, 2, 10, 5}}) {
      std::map<Rank, std::map<Slot, Rank>> reached;
      const auto live = all_but(lost);
      for (const Rank rank : live) reached[rank][rank] = rank;
      for (const Rank rank : live)
        for (const Flow& flow : routes_of(exchange, live, rank).flows)
          for (const Rank to : flow.to)
            EXPECT_TRUE(reached[to].try_emplace(flow.as, rank).second) << "twice";
      for (const Rank rank : live)
        EXPECT_EQ(routes_of(exchange, live, rank).slots, reached[rank]) << exchange << rank;
    }
  }
}

// Nodes that exchange one clock over links that deliver in order, each at its own pace.
class Sites {
 public:
  Sites(std::string exchange, std::uint64_t seed)
      : exchange_(std::move(exchange)), random_(seed, {}), live_(all_but({})) {
    for (const Rank rank : live_) {
      nodes_.emplace(rank, Node{Base({{0, 1}}), {}, {}, false});
      begin(rank, {0}, 0);
    }
  }

  // Something happens at a node or on a link; false: nothing is left.
  bool step() {
    std::vector<std::pair<Rank, Rank>> moves;
    for (const Rank rank : live_)
      if (!nodes_.at(rank).has_told) moves.emplace_back(rank, rank);
    for (const auto& [link, queue] : links_)
      if (!queue.empty() && is_live(link.first) && is_live(link.second)) moves.push_back(link);
    if (moves.empty()) return false;
    const auto [from, to] = moves[random_.below(moves.size())];
    if (from == to) {
      tell(from);
    } else {
      auto& queue = links_[{from, to}];
      receive(to, queue.front());
      queue.pop_front();
    }
    return true;
  }

  // It is lost: the others continue from the newest base, and what is on its way is dropped.
  void lose(Rank lost) {
    std::erase(live_, lost);
    links_.clear();
    const Rank donor = *std::ranges::max_element(live_, {}, [&](Rank rank) { return clock(rank); });
    const std::vector<float> b = nodes_.at(donor).base.b();
    const Round newest = clock(donor);
    for (const Rank rank : live_) begin(rank, b, newest);
  }

  float gained(Rank rank) const {
    std::vector<float> w(1);
    const std::vector<float> acc(1);
    nodes_.at(rank).base.read(9, acc, w);
    return w[0];
  }
  const std::vector<Rank>& live() const { return live_; }
  bool has_told(Rank rank) const { return nodes_.at(rank).has_told; }
  Round clock(Rank rank) const { return nodes_.at(rank).base.clock(); }

 private:
  struct Sent {
    Slot slot = 0;
    std::vector<RangeUpdate> updates;
  };
  struct Node {
    Base base;
    Routes routes;
    std::vector<Round> next;
    bool has_told = false;
  };
  bool is_live(Rank rank) const { return std::ranges::binary_search(live_, rank); }

  void begin(Rank rank, std::vector<float> b, Round clock) {
    Node& node = nodes_.at(rank);
    node.routes = routes_of(exchange_, live_, rank);
    node.base.begin(std::move(b), clock, 0, node.routes.slot_numbers(), rank);
    node.next.assign(node.routes.flows.size(), clock + 1);
    deliver(rank);
  }
  void tell(Rank rank) {
    Node& node = nodes_.at(rank);
    node.has_told = true;
    node.base.add(rank, 1, {.range = 0, .count = 1, .indexes = {}, .values = {1}});
    node.base.close(rank, 1, 1);
    deliver(rank);
  }
  void receive(Rank rank, const Sent& sent) {
    Node& node = nodes_.at(rank);
    for (const RangeUpdate& update : sent.updates) node.base.add(sent.slot, 1, update);
    node.base.close(sent.slot, 1, 1);
    deliver(rank);
  }
  void deliver(Rank rank) {
    Node& node = nodes_.at(rank);
    for (std::size_t i = 0; i < node.routes.flows.size(); ++i) {
      const Flow& flow = node.routes.flows[i];
      const bool is_here = std::ranges::all_of(
          flow.from, [&](Slot slot) { return node.base.mirror(slot) >= node.next[i]; });
      if (!is_here || node.next[i] > 1) continue;
      for (const Rank to : flow.to)
        links_[{rank, to}].push_back({flow.as, node.base.sum(flow.from, 1)});
      ++node.next[i];
    }
    node.base.advance();
  }

  const std::string exchange_;
  Random random_;
  std::vector<Rank> live_;
  std::map<Rank, Node> nodes_;
  std::map<std::pair<Rank, Rank>, std::deque<Sent>> links_;
};

// gaia_test.cpp, invariant 10, first half: for every arrival order each replica gains exactly 11.
TEST(GaiaRoutes, EveryUpdateReachesEverySiteExactlyOnce) {
  for (const std::string exchange : {"direct", "gaia_hubs", "peer_hubs"}) {
    for (std::uint64_t seed = 0; seed < 60; seed += kStep) {
      Sites sites(exchange, seed);
      while (sites.step()) {
      }
      for (const Rank rank : sites.live()) {
        EXPECT_EQ(sites.clock(rank), 1u) << exchange << " " << seed << " " << rank;
        EXPECT_EQ(sites.gained(rank), kSites) << exchange << " " << seed << " " << rank;
      }
    }
  }
}

// Second half: the death of any one in mid-clock leaves the same integer at all ten: 11 if the
// update of the lost is in the newest base, else 10.
TEST(GaiaRoutes, AfterALossAllHaveTheSameSum) {
  constexpr bool kGate = longhaul::testing::kGate;
  std::map<float, int> sums;
  for (const std::string exchange : {"direct", "gaia_hubs", "peer_hubs"}) {
    for (Rank lost = 0; lost < kSites; ++lost) {
      // In the gate one seed for each that is lost.
      for (std::uint64_t seed = kGate ? 13 * (lost % 4) : 0; seed < 40;
           seed += kGate ? 40 : kStep) {
        SCOPED_TRACE(exchange + ", seed " + std::to_string(seed) + ", without " +
                     std::to_string(lost));
        Sites sites(exchange, seed);
        const std::uint64_t at = 1 + 3 * seed + lost;  // of 47 to 121 events
        for (std::uint64_t i = 0; i < at && sites.step(); ++i) {
        }
        sites.lose(lost);
        while (sites.step()) {
        }
        const float sum = sites.gained(sites.live()[0]);
        ++sums[sum];
        for (const Rank rank : sites.live()) {
          EXPECT_EQ(sites.clock(rank), 1u);
          EXPECT_EQ(sites.gained(rank), sum) << rank;
        }
      }
    }
  }
  EXPECT_EQ(sums.size(), 2u);
  EXPECT_GT(sums[10], 0);
  EXPECT_GT(sums[11], 0);
}

}  // namespace
}  // namespace longhaul::sync::gaia
