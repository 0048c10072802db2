#pragma once
// Querier is the machine of the node that a user asks: it asks all sites, hands on what they
// confirm, and ends when each has ended or is missing. A site is missing if it is not in the view,
// if it is lost on the way, or if it says nothing for `patience`: never a hang, never a silent
// subset. Answers are the union over sites in any order of messages, with duplicates. A query that
// follows goes on without a site that is lost, and its user is told at once.
#include <map>
#include <set>

#include "longhaul/core/machine.h"
#include "longhaul/focus/answer.h"

namespace longhaul::focus {

class Querier {
 public:
  static constexpr std::size_t kMostOpen = 64;  // queries; more are refused
  // `node`: whose part it is.
  Querier(const Machine& node, Time patience, std::uint32_t classes)
      : node_(node), patience_(patience), classes_(classes) {}

  void on_requested(std::uint64_t client, const Wanted&, Turn&);
  void cancel(std::uint64_t client, Turn&);  // the user wants no more
  void stop_following(Turn&);                // queries that follow end once they have caught up
  Status take(Rank from, const Found&, Turn&);
  Status take(Rank from, const End&, Turn&);
  void on_view(Turn&);
  void on_timer(Turn&);  // of kTimer
  static constexpr TimerId kTimer{1};

  bool idle() const { return open_.empty(); }
  std::string waiting_for() const;
  void state(Archive& ar) { ar(open_, next_, known_); }

 private:
  struct SiteProgress {
    std::uint64_t heard_all_below = 0;   // results
    std::set<std::uint64_t> heard = {};  // beyond that
    std::optional<End> end = {};
    bool missing = false;
    Time last{0};  // heard from
    bool done() const { return missing || (end && heard_all_below >= end->results); }
    void state(auto& ar) { ar(heard_all_below, heard, end, missing, last); }
  };
  struct Open {
    std::uint64_t client = 0;
    Wanted wanted;
    std::map<Rank, SiteProgress> sites = {};
    std::uint64_t clusters = 0;
    std::optional<std::uint64_t> told_missing =
        {};              // sites, when the user was told to be up to date
    bool stops = false;  // although it follows
    std::uint64_t missing() const;
    void state(auto& ar) { ar(client, wanted, sites, clusters, told_missing, stops); }
  };
  using OpenQueries = std::map<std::uint64_t, Open>;

  Status check(Rank from, std::uint64_t query, Open*& open);
  void advance(OpenQueries::iterator, Turn&);
  void end(OpenQueries::iterator, bool limited, Turn&);
  Answer summary(const Open&, Answer::Kind) const;
  void set_timer(Turn&);

  const Machine& node_;
  Time patience_;
  std::uint32_t classes_;
  OpenQueries open_;
  std::uint64_t next_ = 0;
  std::map<Rank, std::pair<std::uint64_t, std::int64_t>> known_;  // the last asof of each site
};

}  // namespace longhaul::focus
