#pragma once
// SiteQueries is a site's half of queries. A query is answered as of the object that was indexed
// last when it came: candidates are posted under its class, those with a known verdict are decided
// at once, the others are checked. What is confirmed goes to the querier as soon as it is known;
// while nothing is, the querier is told that the site is at work.
#include <algorithm>
#include <map>

#include "longhaul/focus/checks.h"
#include "longhaul/focus/querier.h"
#include "longhaul/focus/verdicts.h"

namespace longhaul::focus {

class SiteQueries {
 public:
  // `node`: whose part it is. `patience`: of the querier.
  SiteQueries(const Machine& node, bool uses_known_verdicts, Time patience)
      : node_(node), uses_known_(uses_known_verdicts), still_after_(still_after(patience)) {}

  // `verifier`: who checks for it.
  Status take(Rank from, const Query& query, Rank verifier, const Index& index,
              const Verdicts& verdicts, Checks& checks, Turn& turn) {
    const Key key{from, query.query};
    if (open_.contains(key)) return Ok{};  // answered by the running one
    const auto of_querier = std::count_if(open_.begin(), open_.end(),
                                          [&](const auto& o) { return o.first.first == from; });
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

  // For queries that follow: the cluster was posted under these classes.
  void posted(const Index::Added& added, const Index& index, const Verdicts& verdicts,
              Checks& checks) {
    for (auto& [key, open] : open_) {
      if (!open.wanted.follow) continue;
      const std::uint32_t cls = index.posted_under(open.wanted.cls);
      if (std::find(added.posted.begin(), added.posted.end(), cls) == added.posted.end()) continue;
      if (auto one = index.candidate(added.cluster, 0, open.wanted.window))
        consider(open, *std::move(one), verdicts, checks);
    }
  }

  // Sends what was confirmed; while candidates are undecided, at most every kTogether.
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

  static constexpr TimerId kTimer{3};  // of the node, which then calls advance()
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
    std::optional<Time> sends = {};  // what waits to be sent
    Time told{0};                    // the querier, of anything
    bool enough() const { return wanted.limit > 0 && confirmed_count >= wanted.limit; }
    void state(auto& ar) {
      ar(wanted, verifier, end, undecided, confirmed, confirmed_count, news, ended, sends, told);
    }
  };
  using Key = std::pair<Rank, std::uint64_t>;  // querier and its number

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
      if (std::none_of(open_.begin(), open_.end(), [&](const auto& other) {
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
