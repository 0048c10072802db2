#pragma once
// SiteQueries is a site's half of queries. A query is answered as of the object that was indexed
// last when it came: candidates are posted under its class, those with a known verdict are decided
// at once, the others are checked. What is confirmed goes to the querier as soon as it is known;
// while nothing is, the querier is told that the site is at work.
#include <map>

#include "longhaul/focus/checks.h"
#include "longhaul/focus/verdicts.h"

namespace longhaul::focus {

class SiteQueries {
 public:
  // `node`: whose part it is. `patience`: of the querier.
  SiteQueries(const Machine& node, bool uses_known_verdicts, Time patience)
      : node_(node), uses_known_(uses_known_verdicts), still_after_(still_after(patience)) {}

  // `verifier`: who checks for it.
  Status take(Rank from, const Query&, Rank verifier, const Index&, const Verdicts&, Checks&,
              Turn&);
  Status take(Rank from, const Cancel&, Checks&);
  void decided(std::uint64_t cluster, std::uint32_t cls);
  // For queries that follow: the cluster was posted under these classes.
  void posted(const Index::Added&, const Index&, const Verdicts&, Checks&);
  // Sends what was confirmed; while candidates are undecided, at most every kTogether.
  void advance(Checks&, Turn&);
  void on_view(Checks&, Turn&);
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

  void consider(Open&, Index::Candidate, const Verdicts&, Checks&);
  void forget_unwanted(Open&, Checks&);
  static void send_confirmed(Rank, Open&, Turn&);

  const Machine& node_;
  bool uses_known_;
  Time still_after_;
  std::map<Key, Open> open_;
};

}  // namespace longhaul::focus
