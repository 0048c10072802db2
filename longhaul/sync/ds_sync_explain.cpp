// Which workers would average with each other: `longhaul explain JOB`.
#include <fmt/format.h>

#include "longhaul/sync/ds_sync.h"

namespace longhaul::sync {
namespace {

constexpr Round kRoundsShown = 8, kMostRounds = 1000;

std::string groups_text(const shuffle::Partition& groups, const std::vector<Rank>& workers,
                        const Place& place) {
  std::string text;
  for (const auto& group : groups) {
    text += text.empty() ? "" : " | ";
    for (std::size_t i = 0; i < group.size(); ++i) {
      const Member& member = place.member(workers[group[i]]);
      text += (i == 0 ? "" : " ") + member.site;
      if (member.rank_in_site > 0) text += fmt::format("/{}", member.rank_in_site);
    }
  }
  return text;
}

std::size_t between_sites(const shuffle::Partition& groups, const std::vector<Rank>& workers,
                          const Place& place) {
  return std::size_t(std::ranges::count_if(groups, [&](const auto& group) {
    return std::ranges::any_of(group, [&](std::uint32_t one) {
      return place.member(workers[one]).site != place.member(workers[group[0]]).site;
    });
  }));
}

}  // namespace

Explanation DsSync::explain() const {
  std::vector<Rank> workers;
  for (Rank rank = 0; rank < place_.size(); ++rank)
    if (place_.member(rank).is(Role::worker)) workers.push_back(rank);
  const auto n = std::uint32_t(workers.size());
  Explanation said;
  Explanation::Table table{.title = "Groups of the first rounds",
                           .head = {"round", "groups", "between sites"},
                           .rows = {}};
  // Whose steps a worker's model has a share of, after so many rounds from the start.
  std::vector<std::vector<bool>> heard(n, std::vector<bool>(n));
  for (std::uint32_t i = 0; i < n; ++i) heard[i][i] = true;
  std::optional<Round> all_after = n == 1 ? std::optional<Round>(0) : std::nullopt;
  std::size_t largest = 0;
  for (Round k = 0; k < kMostRounds && (k < kRoundsShown || !all_after); ++k) {
    const shuffle::Partition groups = groups_of(workers, 0, k);
    if (k < kRoundsShown)
      table.rows.push_back({fmt::format("{}", k), groups_text(groups, workers, place_),
                            fmt::format("{}", between_sites(groups, workers, place_))});
    bool all = true;
    for (const auto& group : groups) {
      largest = std::max(largest, group.size());
      std::vector<bool> together(n);
      for (const std::uint32_t one : group)
        for (std::uint32_t i = 0; i < n; ++i) together[i] = together[i] || heard[one][i];
      for (const std::uint32_t one : group) heard[one] = together;
      all &= std::ranges::count(together, true) == std::ptrdiff_t(n);
    }
    if (all && !all_after) all_after = k + 1;
  }
  const double mb = 4e-6 * double(place_.layout->parameters().length);
  said.lines.push_back(fmt::format(
      "schedule = \"{}\": after {} local step{} a worker averages its model with the {} other{} "
      "of its group at most, and waits for no one else.",
      config_.schedule, config_.steps, config_.steps == 1 ? "" : "s", largest - 1,
      largest == 2 ? "" : "s"));
  said.lines.push_back(fmt::format(
      "In a group of {} it sends {:.4g} MB a round as fp32; in one of all {} it would be {:.4g}.",
      largest, 2 * mb * double(largest - 1) / double(largest), n,
      2 * mb * double(n - 1) / double(n)));
  said.lines.push_back(
      all_after ? fmt::format("Every worker has heard of every other after {} rounds.", *all_after)
                : fmt::format("Not every worker hears of every other in {} rounds.", kMostRounds));
  if (config_.sense && !config_.senses())
    said.lines.push_back(
        "sense does nothing: it takes schedule = \"topology\", which knows of sites.");
  if (config_.senses())
    said.lines.push_back(
        "A site whose exchanges with others become half as quick as they were keeps out of most of "
        "them (sense); the table is of the rounds before that.");
  const std::uint32_t consensus = schedule_.rounds_to_consensus(n);
  said.lines.push_back(consensus > 0
                           ? fmt::format("The run ends with {} rounds without training, after "
                                         "which all models are equal.",
                                         consensus)
                           : std::string("The run ends with one mean of all models."));
  said.tables.push_back(std::move(table));
  return said;
}

}  // namespace longhaul::sync
