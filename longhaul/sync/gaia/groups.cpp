#include "longhaul/sync/gaia/groups.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>
#include <tuple>

namespace longhaul::sync::gaia {
namespace {

using GroupPair = std::pair<std::uint32_t, std::uint32_t>;
using SiteLists = std::vector<std::vector<std::string>>;

const SiteLists kPublishedGroups = {{"virginia", "california", "oregon", "saopaulo"},
                                    {"tokyo", "seoul", "singapore", "sydney"},
                                    {"frankfurt", "ireland", "mumbai"}};
const SiteLists kPublishedPeers = {
    {"virginia", "frankfurt"}, {"oregon", "seoul"}, {"tokyo", "mumbai"}};

SiteLists words_of(const std::vector<std::string>& lines) {
  SiteLists lists;
  for (const std::string& line : lines) {
    std::istringstream words(line);
    std::vector<std::string>& list = lists.emplace_back();
    for (std::string word; words >> word;) list.push_back(word);
  }
  return lists;
}

// The workers of each site, by its name.
std::map<std::string, std::vector<Rank>> workers_by_site(const Place& place) {
  std::map<std::string, std::vector<Rank>> sites;
  for (const Rank rank : place.members.with(Role::worker))
    sites[place.member(rank).site].push_back(rank);
  return sites;
}

std::vector<std::vector<Rank>> named(const SiteLists& lists, const Place& place) {
  const auto sites = workers_by_site(place);
  std::vector<std::vector<Rank>> groups;
  for (const auto& list : lists) {
    std::vector<Rank> group;
    for (const std::string& name : list) {
      const std::vector<Rank>& ranks = sites.at(name);
      group.insert(group.end(), ranks.begin(), ranks.end());
    }
    if (!group.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

bool are_all(const SiteLists& lists, const Place& place) {
  std::set<std::string> listed, there;
  for (const auto& list : lists) listed.insert(list.begin(), list.end());
  for (const auto& [name, ranks] : workers_by_site(place)) there.insert(name);
  return listed == there;
}

double both_ways(const DelayBelief& delay, Rank a, Rank b) {
  return delay ? delay(a, b) + delay(b, a) : 2;
}

// Complete linkage: the width of a group is the longest delay in it.
std::vector<std::vector<Rank>> nearest_together(const DelayBelief& delay, const Place& place) {
  std::vector<std::vector<Rank>> groups;
  for (const auto& [name, ranks] : workers_by_site(place)) groups.push_back(ranks);
  std::ranges::sort(groups);
  const auto wanted = std::size_t(std::max(1.0, std::round(std::sqrt(double(groups.size())))));
  while (groups.size() > wanted) {
    std::tuple<double, std::size_t, std::size_t, std::size_t> best;
    bool is_found = false;
    for (std::size_t a = 0; a < groups.size(); ++a) {
      for (std::size_t b = a + 1; b < groups.size(); ++b) {
        double width = 0;
        for (const Rank i : groups[a])
          for (const Rank j : groups[b]) width = std::max(width, both_ways(delay, i, j));
        const std::tuple candidate{width, groups[a].size() + groups[b].size(), a, b};
        if (!is_found || candidate < best) best = candidate;
        is_found = true;
      }
    }
    const auto [width, size, a, b] = best;
    groups[a].insert(groups[a].end(), groups[b].begin(), groups[b].end());
    groups.erase(groups.begin() + std::ptrdiff_t(b));
  }
  for (auto& group : groups) {
    std::ranges::sort(group);
    const auto reach = [&](Rank i) {
      double sum = 0;
      for (const auto& other : groups)
        for (const Rank j : other)
          if (i != j) sum += both_ways(delay, i, j);
      return sum;
    };
    const auto hub = std::ranges::min_element(group, {}, reach);
    std::rotate(group.begin(), hub, hub + 1);
  }
  return groups;
}

void join_groups(Groups& groups, const SiteLists& wishes, const DelayBelief& delay,
                 const Place& place) {
  std::map<Rank, int> duties;
  const auto sites = workers_by_site(place);
  const auto group_of = [&](Rank rank) {
    for (std::uint32_t g = 0; g < groups.members.size(); ++g)
      if (std::ranges::count(groups.members[g], rank)) return g;
    return std::uint32_t(0);
  };
  const auto join = [&](GroupPair pair, Rank a, Rank b) {
    if (!groups.peers.try_emplace(pair, a, b).second) return;
    ++duties[a];
    ++duties[b];
  };
  for (const auto& wish : wishes) {
    Rank a = sites.at(wish[0]).front(), b = sites.at(wish[1]).front();
    if (group_of(a) > group_of(b)) std::swap(a, b);
    join({group_of(a), group_of(b)}, a, b);
  }
  for (std::uint32_t g = 0; g < groups.members.size(); ++g) {
    for (std::uint32_t h = g + 1; h < groups.members.size(); ++h) {
      std::optional<std::tuple<int, double, Rank, Rank>> best;
      for (const Rank a : groups.members[g])
        for (const Rank b : groups.members[h]) {
          const std::tuple candidate{duties[a] + duties[b], both_ways(delay, a, b), a, b};
          if (!best || candidate < *best) best = candidate;
        }
      join({g, h}, std::get<2>(*best), std::get<3>(*best));
    }
  }
}

}  // namespace

Groups make_groups(const Config& config, const DelayBelief& delay, const Place& place) {
  Groups groups;
  SiteLists wishes = words_of(config.peers);
  if (!config.groups.empty()) {
    groups.members = named(words_of(config.groups), place);
  } else if (are_all(kPublishedGroups, place)) {
    groups.members = named(kPublishedGroups, place);
    wishes.insert(wishes.end(), kPublishedPeers.begin(), kPublishedPeers.end());
  } else {
    groups.members = nearest_together(delay, place);
  }
  join_groups(groups, wishes, delay, place);
  return groups;
}

Groups without_lost(const Groups& all, const std::vector<Rank>& live) {
  const auto lives = [&](Rank rank) { return std::ranges::binary_search(live, rank); };
  Groups left;
  std::map<std::uint32_t, std::uint32_t> numbers;
  for (std::uint32_t g = 0; g < all.members.size(); ++g) {
    std::vector<Rank> group;
    std::ranges::copy_if(all.members[g], std::back_inserter(group), lives);
    if (group.empty()) continue;
    numbers[g] = std::uint32_t(left.members.size());
    left.members.push_back(std::move(group));
  }
  // The next live one behind it in its group, round about.
  const auto heir = [&](std::uint32_t g, Rank rank) {
    std::vector<Rank> order = all.members[g];
    std::rotate(order.begin(), std::ranges::find(order, rank), order.end());
    return *std::ranges::find_if(order, lives);
  };
  for (const auto& [pair, peers] : all.peers) {
    const auto [g, h] = pair;
    if (!numbers.contains(g) || !numbers.contains(h)) continue;
    left.peers[{numbers[g], numbers[h]}] = {heir(g, peers.first), heir(h, peers.second)};
  }
  return left;
}

Status check_groups(const Config& config, const Place& place) {
  const auto sites = workers_by_site(place);
  std::map<std::string, std::size_t> group_of;
  const SiteLists groups = words_of(config.groups);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const std::string& name : groups[g]) {
      if (!sites.contains(name))
        return invalid("[sync] groups: expected names of sites with workers, found '" + name + "'");
      if (!group_of.emplace(name, g).second)
        return invalid("[sync] groups: expected each site once, found '" + name + "' twice");
    }
  }
  if (!groups.empty())
    for (const auto& [name, ranks] : sites)
      if (!group_of.contains(name))
        return invalid("[sync] groups: expected all sites, '" + name + "' is in none");
  for (const auto& pair : words_of(config.peers)) {
    const bool is_known =
        pair.size() == 2 && group_of.contains(pair[0]) && group_of.contains(pair[1]);
    if (!is_known || group_of[pair[0]] == group_of[pair[1]])
      return invalid(
          "[sync] peers: expected two sites of different [sync] groups, as in "
          "\"paris tokyo\"");
  }
  return Ok{};
}

Status Config::check(const Config& config, const Place& place) {
  if ((config.threshold == "ramp" || config.threshold == "bandwidth") &&
      config.max_significance < config.significance)
    return invalid("[sync] max_significance: expected significance at least, which is " +
                   std::to_string(config.significance) + ", found " +
                   std::to_string(config.max_significance));
  if (config.threshold == "list" && config.list.empty())
    return invalid("[sync] list: expected a value of T at least, found none");
  if (config.exchange != "direct") return check_groups(config, place);
  if (!config.groups.empty() || !config.peers.empty())
    return invalid(
        "[sync] groups and peers: expected with exchange = \"gaia_hubs\" or "
        "\"peer_hubs\", found with \"direct\"");
  return Ok{};
}

}  // namespace longhaul::sync::gaia
