// Which trees it has. Whole exchanges along them and what they send: agreed_test.cpp.
//
// Invariants (R-2.1 to, and bytes between sites and of each port: agreed_test.cpp):
//   - trees of 1 to 8 sites of 1 to 4 nodes after any loss; P-1 links between sites each way:
//     HasTrees*
//   - the root is at the server's site, or the lowest worker's; leaders are replaced:
//     TheServersSite*
//   - `between` works as named; a ring loads sites equally: Between*, *RoundARing
//   - the nodes of a site lead for equally many pieces: TheNodesOfASite*
//   - all nodes compute the same plan: AllNodes*
#include "longhaul/overlay/hierarchical.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "longhaul/base/testing/effort.h"
#include "longhaul/overlay/testing/places.h"

namespace longhaul::overlay {
namespace {

using testing::place_of;
using testing::team_of;
using Ranks = std::vector<Rank>;
using Sites = std::vector<std::uint32_t>;

const char* const kInner[] = {"hub", "rack", "binary", "ring", "forest"};

std::shared_ptr<const flow::Wan> even_slope(std::uint32_t sites) {
  flow::Wan wan;
  for (std::uint32_t i = 0; i < sites; ++i) {
    const double rate = 2e7 / (1 + i);
    wan.sites.push_back({.name = "s" + std::to_string(i), .up = rate, .down = rate, .lan = {}});
  }
  wan.usual.delay_s = 0.02;
  return std::make_shared<flow::Wan>(wan);
}

// A job, who lives of it, and the trees of a vector.
struct Scene {
  std::uint32_t sites = 1, nodes = 1;
  std::optional<std::uint32_t> server_site = {};  // `sites`: one of its own
  Ranks lost = {};
  std::size_t pieces = 60;
  Rank self = 0;

  Rank server() const { return sites * nodes; }
  std::uint32_t site_of(Rank rank) const {
    return rank == server() ? server_site.value() : rank / nodes;
  }
  Hierarchical make(const std::string& between) const {
    OverlayParts parts;
    if (server_site) parts.server = server();
    if (between == "forest") parts.network = even_slope(sites + 1);
    return {{.between = between}, parts, place_of(sites, nodes, self, server_site)};
  }
  GroupMembers team(const Hierarchical& overlay) const {
    GroupMembers team = team_of(sites * nodes, lost, self);
    View view{1, team.members};
    const auto dead = std::find(lost.begin(), lost.end(), server());
    if (server_site && dead == lost.end()) view.live.insert(server());
    team.server = overlay.server(team.members, view);
    return team;
  }
  Partition grid() const { return Partition(1000 * pieces, 1, 1000); }
};

// The links of a tree that leave each site, up and down.
struct Crossings {
  std::map<std::uint32_t, std::size_t> up, down;
  std::size_t ups = 0, downs = 0;
  void count(const Tree& tree, const GroupMembers& team, const Scene& scene) {
    const auto site_of = [&](std::uint32_t place) { return scene.site_of(team.node(place)); };
    for (std::uint32_t place = 0; place < team.nodes(); ++place) {
      if (site_of(place) != site_of(tree.reduce_to[place])) ++ups, ++up[site_of(place)];
      if (site_of(place) != site_of(tree.spread_from[place]))
        ++downs, ++down[site_of(tree.spread_from[place])];
    }
  }
};

// Whoever is lost, wherever a server is: trees, the same at all nodes, and of the links of each as
// many lie between sites as there are sites less one, each way.
TEST(Hierarchical, HasTreesWithOneLinkFewerThanSites) {
  constexpr std::uint32_t kMost = longhaul::testing::kGate ? 5 : 8;
  std::uint64_t number = 0;
  for (const char* between : kInner)
    for (std::uint32_t sites = 1; sites <= kMost; ++sites)
      for (std::uint32_t nodes = 1; nodes <= 4; ++nodes)
        for (const std::optional<std::uint32_t> server :
             {std::optional<std::uint32_t>(), std::optional(0u), std::optional(sites / 2),
              std::optional(sites)}) {
          const Rank last = sites * nodes - 1;
          for (const Ranks& lost : {Ranks{}, Ranks{0}, Ranks{last}, Ranks{last + 1}}) {
            if (last == 0 && lost == Ranks{0}) continue;  // nobody is left
            if (++number % (longhaul::testing::kGate ? 23 : 1) != 0) continue;
            SCOPED_TRACE(std::string(between) + " of " + std::to_string(sites) + " x " +
                         std::to_string(nodes));
            const Scene scene{sites, nodes, server, lost};
            const Hierarchical overlay = scene.make(between);
            const GroupMembers team = scene.team(overlay);
            const Partition grid = scene.grid();
            const auto forest = overlay.plan(grid, team);
            const auto members = std::uint32_t(team.members.size());
            ASSERT_TRUE(check_plan(*forest, members, team.nodes(), grid.pieces()));
            std::set<std::uint32_t> where;
            for (std::uint32_t place = 0; place < team.nodes(); ++place)
              where.insert(scene.site_of(team.node(place)));
            for (const Tree& tree : forest->trees) {
              Crossings crossings;
              crossings.count(tree, team, scene);
              ASSERT_EQ(crossings.ups, where.size() - 1);
              ASSERT_EQ(crossings.downs, where.size() - 1);
            }
          }
        }
}

Sites roots_of(const Scene& scene, const std::string& between) {
  const Hierarchical overlay = scene.make(between);
  const GroupMembers team = scene.team(overlay);
  const auto forest = overlay.plan(scene.grid(), team);
  std::set<Rank> roots;
  for (const Tree& tree : forest->trees) roots.insert(team.node(tree.root));
  return {roots.begin(), roots.end()};
}

// The nodes of the lowest site take turns at it; a server has it alone. Whoever is lost is replaced
// by those that live of its site, and the last of a site by the next site.
TEST(Hierarchical, TheServersSiteIsTheRoot) {
  for (const char* between : {"hub", "rack", "binary"}) {
    EXPECT_EQ(roots_of({3, 3}, between), (Sites{0, 1, 2})) << between;
    EXPECT_EQ(roots_of({3, 3, {}, {0}}, between), (Sites{1, 2}));
    EXPECT_EQ(roots_of({3, 3, {}, {0, 1, 2}}, between), (Sites{3, 4, 5}));
    for (const std::uint32_t server : {0u, 1u, 3u}) {
      EXPECT_EQ(roots_of({3, 3, server}, between), (Sites{9})) << between << " " << server;
      EXPECT_EQ(roots_of({3, 3, server, {9}}, between), (Sites{0, 1, 2}));
    }
  }
  for (const char* between : {"ring", "forest"}) {
    const Sites roots = roots_of({3, 3, 1u}, between);
    EXPECT_EQ(std::count(roots.begin(), roots.end(), 9u), 0) << between << ": it is no worker";
  }
}

// In a hub the leaders stand right below the root; in a binary tree two of them do.
TEST(Hierarchical, BetweenSitesItIsAsItsNameSays) {
  const auto heads = [](const char* between, std::uint32_t sites) {
    const Scene scene{sites, 2};
    const Hierarchical overlay = scene.make(between);
    const GroupMembers team = scene.team(overlay);
    const auto forest = overlay.plan(scene.grid(), team);
    Crossings below;
    below.count(forest->trees[0], team, scene);
    return below.down;
  };
  using Down = std::map<std::uint32_t, std::size_t>;
  EXPECT_EQ(heads("hub", 5), (Down{{0, 4}}));
  EXPECT_EQ(heads("binary", 5), (Down{{0, 2}, {1, 2}}));
  EXPECT_EQ(heads("rack", 9), (Down{{0, 4}, {3, 2}, {6, 2}}));
  EXPECT_EQ(heads("ring", 4), (Down{{0, 1}, {1, 1}, {2, 1}}));
}

// Round a ring every site sends n-1 n-ths of the vector each way: its n-1 shares, to the next.
TEST(Hierarchical, EverySiteSendsAsMuchRoundARing) {
  for (std::uint32_t sites = 2; sites <= 8; ++sites)
    for (std::uint32_t nodes = 1; nodes <= 4; ++nodes) {
      const Scene scene{sites, nodes, {}, {}, std::size_t{7} * sites * nodes};
      const Hierarchical overlay = scene.make("ring");
      const GroupMembers team = scene.team(overlay);
      const auto forest = overlay.plan(scene.grid(), team);
      Crossings crossings;
      for (const std::uint32_t tree : forest->tree_of) {
        crossings.count(forest->trees[tree], team, scene);
        for (std::uint32_t place = 0; place < team.nodes(); ++place) {
          const std::uint32_t here = scene.site_of(place);
          const std::uint32_t to = scene.site_of(forest->trees[tree].reduce_to[place]);
          const std::uint32_t from = scene.site_of(forest->trees[tree].spread_from[place]);
          EXPECT_TRUE(to == here || to == (here + 1) % sites);
          EXPECT_TRUE(here == from || here == (from + 1) % sites);
        }
      }
      for (std::uint32_t site = 0; site < sites; ++site) {
        EXPECT_EQ(crossings.up[site], std::size_t{7} * nodes * (sites - 1));
        EXPECT_EQ(crossings.down[site], std::size_t{7} * nodes * (sites - 1));
      }
    }
}

// Each node of a site leads it for as many pieces, so that the ports of its LAN carry alike.
TEST(Hierarchical, TheNodesOfASiteLeadForAsManyPieces) {
  for (const char* between : kInner)
    for (std::uint32_t nodes = 2; nodes <= 4; ++nodes) {
      const Scene scene{3, nodes, {}, {}, 240};
      const Hierarchical overlay = scene.make(between);
      const GroupMembers team = scene.team(overlay);
      const auto forest = overlay.plan(scene.grid(), team);
      std::map<Rank, double> led;  // pieces for which somebody of its own site stands below it
      for (const std::uint32_t tree : forest->tree_of) {
        std::set<std::uint32_t> leaders;
        for (std::uint32_t place = 0; place < team.nodes(); ++place)
          if (const auto to = forest->trees[tree].reduce_to[place];
              to != place && scene.site_of(to) == scene.site_of(place))
            leaders.insert(to);
        for (const std::uint32_t leader : leaders) ++led[leader];
      }
      for (Rank rank = 0; rank < 3 * nodes; ++rank)
        EXPECT_NEAR(led[rank], 240.0 / nodes, 0.05 * 240) << between << " " << rank;
    }
}

// Between sites the believed network decides, as for the overlay forest: what is slow is a leaf.
TEST(Hierarchical, AForestBetweenSitesIsPlannedByTheNetwork) {
  const Scene scene{4, 2, {}, {}, 400};
  const Hierarchical overlay = scene.make("forest");
  const GroupMembers team = scene.team(overlay);
  const auto forest = overlay.plan(scene.grid(), team);
  std::map<std::uint32_t, int> owned;
  for (const std::uint32_t tree : forest->tree_of) ++owned[scene.site_of(forest->trees[tree].root)];
  EXPECT_GT(owned[0], owned[1]);
  EXPECT_LE(owned[3], 40);
}

// All nodes come to the same trees by themselves.
TEST(Hierarchical, AllNodesHaveTheSameTrees) {
  for (const char* between : kInner) {
    std::optional<ReducePlan> first;
    for (const Rank self : {0u, 4u, 11u}) {
      const Scene scene{4, 3, {}, {1, 3, 4, 5}, 60, self};
      const Hierarchical overlay = scene.make(between);
      const auto forest = overlay.plan(scene.grid(), scene.team(overlay));
      if (!first) first = forest;
      ASSERT_EQ(first->tree_of, forest->tree_of);
      for (std::size_t tree = 0; tree < forest->trees.size(); ++tree) {
        EXPECT_EQ(first->trees[tree].reduce_to, forest->trees[tree].reduce_to);
        EXPECT_EQ(first->trees[tree].spread_from, forest->trees[tree].spread_from);
      }
    }
  }
}

TEST(Hierarchical, PiecesAreAsManyAsWished) {
  EXPECT_EQ(Scene{}.make("hub").cut(6'250'000, 8, 65536).range(0).length, 15625u);
}

}  // namespace
}  // namespace longhaul::overlay
