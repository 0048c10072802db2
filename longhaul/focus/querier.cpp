#include "longhaul/focus/querier.h"

#include <algorithm>

namespace longhaul::focus {
namespace {

// A site sends its results in order; what runs ahead of a missing one is bounded, an end too.
constexpr std::uint64_t kMostAhead = 1024;

void refuse(std::uint64_t client, std::string why, Turn& turn) {
  turn.reply(client, to_wire(Answer{.kind = Answer::Kind::refused, .why = std::move(why)}), true);
}

}  // namespace

void Querier::on_requested(std::uint64_t client, const Wanted& wanted, Turn& turn) {
  if (wanted.cls >= classes_)
    return refuse(
        client,
        "class " + std::to_string(wanted.cls) + ": expected 0 to " + std::to_string(classes_ - 1),
        turn);
  if (wanted.window.from_ns > wanted.window.to_ns)
    return refuse(client, "the window ends before it begins", turn);
  if (open_.size() >= kMostOpen)
    return refuse(
        client,
        "this site has " + std::to_string(kMostOpen) + " queries open; ask another, or later",
        turn);
  Open open{client, wanted};
  const std::uint64_t number = next_++;
  for (Rank rank = 0; rank < turn.place().size(); ++rank) {
    if (!turn.place().member(rank).is(Role::worker)) continue;
    SiteProgress& site = open.sites[rank];
    site.last = turn.now();
    site.missing = !turn.view().has(rank);
    if (!site.missing) turn.send(rank, Query{number, wanted}, {}, kAsk);
  }
  advance(open_.emplace(number, std::move(open)).first, turn);
  set_timer(turn);
}

// Unknown queries are those that have ended: their late messages are dropped.
Status Querier::check(Rank from, std::uint64_t query, Open*& open) {
  if (query >= next_) return malformed("an answer to a query that was not asked");
  const auto it = open_.find(query);
  open = it != open_.end() && it->second.sites.contains(from) ? &it->second : nullptr;
  return Ok{};
}

Status Querier::take(Rank from, const Found& found, Turn& turn) {
  Open* open = nullptr;
  LH_TRY(check(from, found.query, open));
  if (!open) return Ok{};
  SiteProgress& site = open->sites[from];
  if (site.missing) return Ok{};  // the user has been told so
  if (site.end && !open->wanted.follow && found.number >= site.end->results) return Ok{};  // late
  if (found.number >= site.heard_all_below + kMostAhead)
    return malformed("a result far ahead of those before it");
  if (found.number < site.heard_all_below || !site.heard.insert(found.number).second) return Ok{};
  while (site.heard.erase(site.heard_all_below) > 0) ++site.heard_all_below;
  site.last = turn.now();
  Answer answer{.site = from, .clusters = found.clusters};
  const std::uint32_t limit = open->wanted.limit;
  const auto enough =
      std::find_if(answer.clusters.begin(), answer.clusters.end(), [&](const FoundCluster& one) {
        return one.count > 0 && ++open->clusters == limit;  // its last part
      });
  if (enough != answer.clusters.end()) answer.clusters.erase(enough + 1, answer.clusters.end());
  if (!answer.clusters.empty()) turn.reply(open->client, to_wire(answer), false);
  advance(open_.find(found.query), turn);
  return Ok{};
}

Status Querier::take(Rank from, const End& end, Turn& turn) {
  Open* open = nullptr;
  LH_TRY(check(from, end.query, open));
  known_[from] = std::max(known_[from], std::pair(end.asof, end.asof_ns));
  if (!open) return Ok{};
  SiteProgress& site = open->sites[from];
  if (site.end || site.missing) return Ok{};
  if (end.results >= site.heard_all_below + kMostAhead)
    return malformed("an end far ahead of the results before it");
  site.end = end;
  site.last = turn.now();
  advance(open_.find(end.query), turn);
  return Ok{};
}

void Querier::on_view(Turn& turn) {
  for (auto it = open_.begin(); it != open_.end();) {
    const auto here = it++;
    for (auto& [rank, site] : here->second.sites)
      site.missing |= !turn.view().has(rank) && (here->second.wanted.follow || !site.done());
    advance(here, turn);
  }
}

void Querier::on_timer(Turn& turn) {
  for (auto it = open_.begin(); it != open_.end();) {
    const auto here = it++;
    for (auto& [rank, site] : here->second.sites)
      site.missing |= !site.done() && turn.now() - site.last >= patience_;
    advance(here, turn);
  }
  set_timer(turn);
}

void Querier::set_timer(Turn& turn) {
  std::optional<Time> first;
  for (const auto& [number, open] : open_)
    for (const auto& [rank, site] : open.sites)
      if (!site.done() && (!first || site.last < *first)) first = site.last;
  first ? turn.set_timer(node_, kTimer, *first + patience_) : turn.cancel_timer(node_, kTimer);
}

void Querier::advance(OpenQueries::iterator at, Turn& turn) {
  Open& open = at->second;
  if (open.wanted.limit > 0 && open.clusters >= open.wanted.limit) return end(at, true, turn);
  const bool all_done = std::all_of(open.sites.begin(), open.sites.end(),
                                    [](const auto& site) { return site.second.done(); });
  if (!all_done) return;
  if (!open.wanted.follow || open.stops) return end(at, false, turn);
  const bool none_left = std::all_of(open.sites.begin(), open.sites.end(),
                                     [](const auto& site) { return site.second.missing; });
  if (none_left) return end(at, false, turn);
  const std::uint64_t missing = open.missing();
  if (std::exchange(open.told_missing, missing) != missing)
    turn.reply(open.client, to_wire(summary(open, Answer::Kind::caught_up)), false);
}

Answer Querier::summary(const Open& open, Answer::Kind kind) const {
  Answer answer{.kind = kind};
  for (const auto& [rank, site] : open.sites) {
    if (site.missing) {
      const auto known = known_.find(rank);
      MissingSite missing{.site = rank};
      if (known != known_.end()) std::tie(missing.asof, missing.asof_ns) = known->second;
      answer.missing.push_back(missing);
    } else if (const auto& end = site.end) {
      answer.ends.push_back({rank, end->asof, end->asof_ns, end->checked, end->cached, end->gaps});
    }
  }
  return answer;
}

void Querier::end(OpenQueries::iterator at, bool limited, Turn& turn) {
  const Open open = std::move(at->second);
  const std::uint64_t number = at->first;
  open_.erase(at);
  for (const auto& [rank, site] : open.sites)
    if ((!site.end || open.wanted.follow) && turn.view().has(rank))
      turn.send(rank, Cancel{number}, {}, kAsk);
  Answer last = summary(open, Answer::Kind::ended);
  last.limited = limited;
  turn.reply(open.client, to_wire(last), true);
  set_timer(turn);
}

void Querier::cancel(std::uint64_t client, Turn& turn) {
  for (auto it = open_.begin(); it != open_.end();) {
    const auto here = it++;
    if (here->second.client == client) end(here, false, turn);
  }
}

void Querier::stop_following(Turn& turn) {
  for (auto it = open_.begin(); it != open_.end();) {
    const auto here = it++;
    if (here->second.wanted.follow && !std::exchange(here->second.stops, true)) advance(here, turn);
  }
}

std::uint64_t Querier::Open::missing() const {
  return std::uint64_t(std::count_if(sites.begin(), sites.end(),
                                     [](const auto& site) { return site.second.missing; }));
}

std::string Querier::waiting_for() const {
  if (open_.empty()) return "";
  std::string text = "query " + std::to_string(open_.begin()->first) + ": ranks";
  for (const auto& [rank, site] : open_.begin()->second.sites)
    if (!site.done()) text += " " + std::to_string(rank);
  return text;
}

}  // namespace longhaul::focus
