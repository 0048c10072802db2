#pragma once
// Querier is the machine of the node that a user queries. It queries all sites, passes on the
// clusters that they confirm, and ends when each site has ended or is missing. A site is missing if
// it is not in the view, is lost, or is silent for `patience`. A query therefore never hangs, and
// never returns a subset without saying so. Answers are the union over sites, in any order of
// messages, with duplicates. A following query continues without a lost site, and its user is
// notified at once.
#include <algorithm>
#include <map>
#include <set>

#include "longhaul/core/machine.h"
#include "longhaul/focus/checks.h"
#include "longhaul/focus/index.h"
#include "longhaul/focus/messages.h"

namespace longhaul::focus {

class Querier {
  // A site sends its results in order. Limit for results, or an end, ahead of a missing result.
  static constexpr std::uint64_t kMostAhead = 1024;

 public:
  static constexpr std::size_t kMostOpen = 64;  // queries; others are refused
  // `node`: the machine that owns this part.
  Querier(const Machine& node, Time patience, std::uint32_t classes)
      : node_(node), patience_(patience), classes_(classes) {}

  void on_requested(std::uint64_t client, const Wanted& wanted, Turn& turn) {
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

  // Called when the user cancels.
  void cancel(std::uint64_t client, Turn& turn) {
    for_each_open([&](OpenQueries::iterator here) {
      if (here->second.client == client) end(here, false, turn);
    });
  }

  // Ends following queries once they have caught up.
  void stop_following(Turn& turn) {
    for_each_open([&](OpenQueries::iterator here) {
      if (here->second.wanted.follow && !std::exchange(here->second.stops, true))
        advance(here, turn);
    });
  }

  Status take(Rank from, const Found& found, Turn& turn) {
    Open* open = nullptr;
    LH_TRY(check(from, found.query, open));
    if (!open) return Ok{};
    SiteProgress& site = open->sites[from];
    if (site.missing) return Ok{};  // the user already knows
    if (site.end && !open->wanted.follow && found.number >= site.end->results) return Ok{};  // late
    if (found.number >= site.heard_all_below + kMostAhead)
      return malformed("a result far ahead of those before it");
    if (found.number < site.heard_all_below || !site.heard.insert(found.number).second) return Ok{};
    while (site.heard.erase(site.heard_all_below) > 0) ++site.heard_all_below;
    site.last = turn.now();
    Answer answer{.site = from, .clusters = found.clusters};
    const std::uint32_t limit = open->wanted.limit;
    const auto enough = std::ranges::find_if(answer.clusters, [&](const FoundCluster& one) {
      return one.count > 0 && ++open->clusters == limit;  // last part of the cluster
    });
    if (enough != answer.clusters.end()) answer.clusters.erase(enough + 1, answer.clusters.end());
    if (!answer.clusters.empty()) turn.reply(open->client, to_wire(answer), false);
    advance(open_.find(found.query), turn);
    return Ok{};
  }

  Status take(Rank from, const End& end, Turn& turn) {
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

  void on_view(Turn& turn) {
    for_each_open([&](OpenQueries::iterator here) {
      for (auto& [rank, site] : here->second.sites)
        site.missing |= !turn.view().has(rank) && (here->second.wanted.follow || !site.done());
      advance(here, turn);
    });
  }

  // Called when kTimer fires.
  void on_timer(Turn& turn) {
    for_each_open([&](OpenQueries::iterator here) {
      for (auto& [rank, site] : here->second.sites)
        site.missing |= !site.done() && turn.now() - site.last >= patience_;
      advance(here, turn);
    });
    set_timer(turn);
  }

  static constexpr TimerId kTimer{1};

  bool idle() const { return open_.empty(); }
  std::string waiting_for() const {
    if (open_.empty()) return "";
    std::string text = "query " + std::to_string(open_.begin()->first) + ": ranks";
    for (const auto& [rank, site] : open_.begin()->second.sites)
      if (!site.done()) text += " " + std::to_string(rank);
    return text;
  }

  void state(Archive& ar) { ar(open_, next_, known_); }

 private:
  struct SiteProgress {
    std::uint64_t heard_all_below = 0;   // results
    std::set<std::uint64_t> heard = {};  // results beyond that
    std::optional<End> end = {};
    bool missing = false;
    Time last{0};  // last message
    bool done() const { return missing || (end && heard_all_below >= end->results); }
    void state(auto& ar) { ar(heard_all_below, heard, end, missing, last); }
  };
  struct Open {
    std::uint64_t client = 0;
    Wanted wanted;
    std::map<Rank, SiteProgress> sites = {};
    std::uint64_t clusters = 0;
    std::optional<std::uint64_t> told_missing = {};  // missing sites in the last caught_up answer
    bool stops = false;                              // ends once it has caught up
    std::uint64_t missing() const {
      return std::uint64_t(
          std::ranges::count_if(sites, [](const auto& site) { return site.second.missing; }));
    }

    void state(auto& ar) { ar(client, wanted, sites, clusters, told_missing, stops); }
  };
  using OpenQueries = std::map<std::uint64_t, Open>;

  // Calls visit(query) for each open query; visit may end the query.
  void for_each_open(auto&& visit) {
    for (auto it = open_.begin(); it != open_.end();) visit(it++);
  }

  // Finds the open query. Unknown queries have ended, and their late messages are dropped.
  Status check(Rank from, std::uint64_t query, Open*& open) {
    if (query >= next_) return malformed("an answer to a query that was not asked");
    const auto it = open_.find(query);
    open = it != open_.end() && it->second.sites.contains(from) ? &it->second : nullptr;
    return Ok{};
  }

  void advance(OpenQueries::iterator at, Turn& turn) {
    Open& open = at->second;
    if (open.wanted.limit > 0 && open.clusters >= open.wanted.limit) return end(at, true, turn);
    const bool all_done =
        std::ranges::all_of(open.sites, [](const auto& site) { return site.second.done(); });
    if (!all_done) return;
    if (!open.wanted.follow || open.stops) return end(at, false, turn);
    const bool none_left =
        std::ranges::all_of(open.sites, [](const auto& site) { return site.second.missing; });
    if (none_left) return end(at, false, turn);
    const std::uint64_t missing = open.missing();
    if (std::exchange(open.told_missing, missing) != missing)
      turn.reply(open.client, to_wire(summary(open, Answer::Kind::caught_up)), false);
  }

  void end(OpenQueries::iterator at, bool limited, Turn& turn) {
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

  Answer summary(const Open& open, Answer::Kind kind) const {
    Answer answer{.kind = kind};
    for (const auto& [rank, site] : open.sites) {
      if (site.missing) {
        const auto known = known_.find(rank);
        MissingSite missing{.site = rank};
        if (known != known_.end()) std::tie(missing.asof, missing.asof_ns) = known->second;
        answer.missing.push_back(missing);
      } else if (const auto& end = site.end) {
        answer.ends.push_back(
            {rank, end->asof, end->asof_ns, end->checked, end->cached, end->gaps});
      }
    }
    return answer;
  }

  void set_timer(Turn& turn) {
    std::optional<Time> first;
    for (const auto& [number, open] : open_)
      for (const auto& [rank, site] : open.sites)
        if (!site.done() && (!first || site.last < *first)) first = site.last;
    first ? turn.set_timer(node_, kTimer, *first + patience_) : turn.cancel_timer(node_, kTimer);
  }

  const Machine& node_;
  Time patience_;
  std::uint32_t classes_;
  OpenQueries open_;
  std::uint64_t next_ = 0;
  std::map<Rank, std::pair<std::uint64_t, std::int64_t>> known_;  // newest asof of each site
};

// SiteQueries is a site's half of queries. A query covers the objects indexed when it arrived.
// Candidates are the clusters posted under its class. Those with a known verdict are decided at
// once, and the others are checked. The querier receives confirmed clusters as they become known;
// while there are none, a notice that the site is at work.
class SiteQueries {
 public:
  // `node`: the machine that owns this part. `patience`: that of the querier.
  SiteQueries(const Machine& node, bool uses_known_verdicts, Time patience)
      : node_(node), uses_known_(uses_known_verdicts), still_after_(still_after(patience)) {}

  // `verifier`: the node that checks for this site.
  Status take(Rank from, const Query& query, Rank verifier, const Index& index,
              const Verdicts& verdicts, Checks& checks, Turn& turn) {
    const Key key{from, query.query};
    if (open_.contains(key)) return Ok{};  // the open query answers
    const auto of_querier =
        std::ranges::count_if(open_, [&](const auto& o) { return o.first.first == from; });
    if (std::size_t(of_querier) >= Querier::kMostOpen)
      return malformed("a query beyond the " + std::to_string(Querier::kMostOpen) + " allowed");
    if (query.wanted.cls >= index.config().classes)
      return malformed("a query for an unknown class");
    if (query.wanted.window.from_ns > query.wanted.window.to_ns)
      return malformed("a query whose window ends before it begins");
    Open& open = open_[key];
    open.wanted = query.wanted;
    open.verifier = verifier;
    open.told = turn.now();
    open.end = {.query = query.query,
                .asof = index.asof(),
                .asof_ns = index.asof_ns(),
                .gaps = index.gaps(query.wanted.window)};
    for (Index::Candidate& one : index.candidates(query.wanted.cls, query.wanted.window))
      consider(open, std::move(one), verdicts, checks);
    advance(checks, turn);
    return Ok{};
  }

  Status take(Rank from, const Cancel& cancel, Checks& checks) {
    const auto it = open_.find({from, cancel.query});
    if (it == open_.end()) return Ok{};
    Open open = std::move(it->second);
    open_.erase(it);
    forget_unwanted(open, checks);
    return Ok{};
  }

  void decided(std::uint64_t cluster, std::uint32_t cls) {
    for (auto& [key, open] : open_) {
      auto node = open.undecided.extract(cluster);
      if (node.empty()) continue;
      ++open.end.checked;
      open.news = true;
      if (cls != open.wanted.cls) continue;
      open.confirmed.push_back(std::move(node.mapped()));
      ++open.confirmed_count;
    }
  }

  // Called after the cluster was posted under these classes; for following queries.
  void posted(const Index::Added& added, const Index& index, const Verdicts& verdicts,
              Checks& checks) {
    for (auto& [key, open] : open_) {
      if (!open.wanted.follow) continue;
      const std::uint32_t cls = index.posted_under(open.wanted.cls);
      if (std::ranges::find(added.posted, cls) == added.posted.end()) continue;
      if (auto one = index.candidate(added.cluster, 0, open.wanted.window))
        consider(open, *std::move(one), verdicts, checks);
    }
  }

  // Sends confirmed clusters; while candidates are undecided, at most every kTogether.
  void advance(Checks& checks, Turn& turn) {
    std::optional<Time> next;
    for (auto it = open_.begin(); it != open_.end();) {
      Open& open = it->second;
      if (open.enough()) forget_unwanted(open, checks);
      const bool is_at_work = !open.undecided.empty();
      if (is_at_work && turn.now() >= open.told + still_after_) open.news = true;
      const bool waits = !open.confirmed.empty() || open.news;
      if (waits && !open.sends) open.sends = turn.now() + kTogether;
      const Time due = waits ? *open.sends : open.told + still_after_;
      if (is_at_work && turn.now() < due) {
        next = std::min(next.value_or(due), due);
        ++it;
        continue;
      }
      open.sends.reset();
      open.told = turn.now();
      send_confirmed(it->first.first, open, turn);
      if (open.undecided.empty() && !open.ended) {
        open.ended = true;
        turn.send(it->first.first, open.end, {}, kAnswer);
      }
      if (is_at_work)
        next = std::min(next.value_or(open.told + still_after_), open.told + still_after_);
      const bool over = open.ended && (!open.wanted.follow || open.enough());
      it = over ? open_.erase(it) : std::next(it);
    }
    if (next) turn.set_timer(node_, kTimer, *next);
  }

  void on_view(Checks& checks, Turn& turn) {
    for (auto it = open_.begin(); it != open_.end();) {
      const bool lost = !turn.view().has(it->first.first);
      if (lost) forget_unwanted(it->second, checks);
      if (!lost && !turn.view().has(it->second.verifier)) it->second.verifier = turn.self();
      it = lost ? open_.erase(it) : std::next(it);
    }
  }

  static constexpr TimerId kTimer{3};  // a timer of the node, which then calls advance()
  static constexpr Time kTogether = std::chrono::milliseconds(20);
  std::size_t open() const { return open_.size(); }
  void state(Archive& ar) { ar(open_); }

 private:
  struct Open {
    Wanted wanted;
    Rank verifier = 0;
    End end;  // so far
    std::map<std::uint64_t, Index::Candidate> undecided = {};
    std::vector<Index::Candidate> confirmed = {};  // not sent yet
    std::uint64_t confirmed_count = 0;
    bool news = false, ended = false;
    std::optional<Time> sends = {};  // time of the next result
    Time told{0};                    // time of the last message to the querier
    bool enough() const { return wanted.limit > 0 && confirmed_count >= wanted.limit; }
    void state(auto& ar) {
      ar(wanted, verifier, end, undecided, confirmed, confirmed_count, news, ended, sends, told);
    }
  };
  using Key = std::pair<Rank, std::uint64_t>;  // querier and its query number

  void consider(Open& open, Index::Candidate candidate, const Verdicts& verdicts, Checks& checks) {
    if (open.enough()) return;
    const auto known =
        uses_known_ ? verdicts.find(candidate.cluster) : std::optional<std::uint32_t>{};
    if (!known) {
      checks.request(candidate.cluster, open.verifier);
      open.undecided.emplace(candidate.cluster, std::move(candidate));
      return;
    }
    ++open.end.cached;
    if (*known != open.wanted.cls) return;
    open.confirmed.push_back(std::move(candidate));
    ++open.confirmed_count;
  }

  void forget_unwanted(Open& gone, Checks& checks) {
    for (const auto& candidate : gone.undecided) {
      const std::uint64_t cluster = candidate.first;
      if (std::ranges::none_of(open_, [&](const auto& other) {
            return &other.second != &gone && other.second.undecided.contains(cluster);
          }))
        checks.forget(cluster);
    }
    gone.undecided.clear();
  }

  static void send_confirmed(Rank querier, Open& open, Turn& turn) {
    constexpr std::size_t kMost = std::size_t(kMaxListed);
    Found found{open.end.query, 0, {}};
    std::size_t listed = 0;
    const auto flush = [&] {
      found.number = open.end.results++;
      turn.send(querier, found, {}, kAnswer);
      found.clusters.clear();
      listed = 0;
    };
    for (const Index::Candidate& one : open.confirmed)
      for (std::size_t at = 0; at < one.intervals.size(); at += kMost) {
        const std::size_t end = std::min(one.intervals.size(), at + kMost);
        if (!found.clusters.empty() && listed + (end - at) > kMost) flush();
        found.clusters.push_back({one.cluster,
                                  end == one.intervals.size() ? one.count : 0,
                                  {one.intervals.begin() + std::ptrdiff_t(at),
                                   one.intervals.begin() + std::ptrdiff_t(end)}});
        listed += end - at;
      }
    open.confirmed.clear();
    if (!found.clusters.empty() || (open.news && !open.undecided.empty())) flush();
    open.news = false;
  }

  const Machine& node_;
  bool uses_known_;
  Time still_after_;
  std::map<Key, Open> open_;
};

}  // namespace longhaul::focus
