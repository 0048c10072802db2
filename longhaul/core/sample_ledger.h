#pragma once
// Ledger of a run's samples: how many were computed, how many are in the model, and the fate of the
// rest. Its source are the records of nodes, which count each sample once:
//
//   samples_computed   of a step on training data
//   samples_given      to the mean of a round, by the node itself
//   samples_used       value: the rank that the round's mean has counted; recorded by the node
//                      itself, and for a lost node by all that are left
//   push_came          by a server: an update of `round` samples has arrived; value: its rank
//   push_used, push_discarded
//                      by a server: the rank's oldest pending update is in version `round`; its
//                      newest pending update is in no version
//   rolled_back        a server begins again with version `round`
//
// A strategy that averages whole models, or mixes them in the background, records only the first:
// its number of samples in the model has no exact value.
//
// In a simulation, one ledger takes the records of all nodes. Over sockets, each node keeps a
// ledger of its own records, and joined() merges them after the run.
#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/base/queue.h"
#include "longhaul/core/action.h"

namespace longhaul {

struct SampleCounts {
  std::uint64_t computed = 0;
  // Absent: unknown for this strategy.
  std::optional<std::uint64_t> used = {};
  // Samples of nodes that were lost or have begun again, or undone by the loss of a server.
  std::uint64_t lost = 0;
  // Returns the rest, on live nodes: discarded, or not contributed before the run ended.
  std::uint64_t unused() const { return computed - std::min(computed, used.value_or(0) + lost); }
  void state(Archive& ar) { ar(computed, used, lost); }
};

class SampleLedger {
 public:
  // Returns true if the record belongs to the ledger, which has then taken it.
  bool take(Time at, Rank by, const Record& record) {
    if (!(record.value >= 0)) return false;
    const auto value = std::uint64_t(std::llround(record.value));
    if (record.name == "samples_computed") {
      Account& account = nodes_[by];
      account.gone = false;
      account.computed += value;
      return true;
    }
    if (record.name == "samples_given") {
      exact_ = true;
      auto& given = nodes_[by].given;
      given[record.round] = {value, false};
      while (given.size() > kOpenRounds) given.erase(given.begin());
      return true;
    }
    if (record.name == "samples_used") {
      use_of_round(Rank(value), record.round);
      return true;
    }
    return take_push(at, record);
  }

  // Counts the node's unused samples as lost.
  void node_lost(Rank rank) {
    Account& account = nodes_[rank];
    account.gone = true;
    account.computed_before = account.computed;
    account.used_before = account.used;
    account.taken_back = 0;
    for (auto& [round, given] : account.given) given.lost = true;
    for (Given& given : account.at_server) given.lost = true;
  }

  // Called when the node has begun again. A step record of the node has the same effect.
  void node_returned(Rank rank) { nodes_[rank].gone = false; }

  SampleCounts counts() const {
    SampleCounts sum;
    if (exact_) sum.used = 0;
    for (const auto& [rank, account] : nodes_) {
      sum.computed += account.computed;
      if (!exact_) continue;
      *sum.used += account.used;
      sum.lost += account.lost();
    }
    return sum;
  }

  void state(Archive& ar) { ar(nodes_, committed_, rolled_back_, heard_, exact_); }

  struct OfNode;
  // Merges the ledgers that the nodes of one run kept. Commits of a server after the version that
  // its successor began with are undone by the times of both. If a node died after several of its
  // servers, some unused samples may count as lost; the sums are exact.
  inline static SampleLedger joined(std::vector<OfNode> ledgers);

 private:
  struct Given {
    std::uint64_t samples = 0;
    bool lost = false;  // lost with its node, unless used later
    void state(auto& ar) { ar(samples, lost); }
  };
  struct Account {
    std::uint64_t computed = 0, used = 0;
    // Counts before the node's last loss; uses since then that lost servers undid.
    std::uint64_t computed_before = 0, used_before = 0, taken_back = 0;
    bool gone = false;
    std::map<Round, Given> given;  // contributions to open rounds
    Queue<Given> at_server;        // kept by the server
    void state(auto& ar) {
      ar(computed, used, computed_before, used_before, taken_back, gone, given, at_server);
    }
    std::uint64_t lost() const {
      // A peer can claim more samples for its update than it has computed.
      const std::uint64_t with_node = computed_before - std::min(computed_before, used_before);
      return std::min(with_node + taken_back, computed - std::min(computed, used));
    }
  };
  struct Commit {
    Rank rank = 0;
    std::uint64_t samples = 0;
    Time at{0};
    void state(auto& ar) { ar(rank, samples, at); }
  };
  struct RollBack {
    std::uint64_t version = 0;
    Time at{0};
    void state(auto& ar) { ar(version, at); }
  };
  static constexpr std::size_t kOpenRounds = 8;
  static constexpr std::size_t kVersions = 4096;  // maximum rollback of a server
  static constexpr std::size_t kRollBacks = 64;

  static void use(Account& account, const Given& given) {
    account.used += given.samples;
    if (given.lost) account.used_before += given.samples;
  }

  void use_of_round(Rank rank, Round round) {
    Account& account = nodes_[rank];
    if (const auto found = account.given.find(round); found != account.given.end()) {
      use(account, found->second);
      account.given.erase(found);
      return;
    }
    // Reported before, or the contribution is in another process's ledger.
    std::deque<Round>& heard = heard_[rank];
    if (std::ranges::find(heard, round) != heard.end()) return;
    heard.push_back(round);
    if (heard.size() > kOpenRounds) heard.pop_front();
  }

  // Undoes later commits of this ledger in the accounts `nodes`.
  void roll_back(const RollBack& to, std::map<Rank, Account>& nodes) {
    for (auto it = committed_.upper_bound(to.version); it != committed_.end(); ++it)
      std::erase_if(it->second, [&](const Commit& commit) {
        if (commit.at > to.at) return false;  // this node became the server again later
        Account& account = nodes[commit.rank];
        account.used -= commit.samples;
        account.taken_back += commit.samples;
        return true;
      });
  }

  bool take_push(Time at, const Record& record) {
    if (record.name == "rolled_back") {
      rolled_back_.push_back({record.round, at});
      if (rolled_back_.size() > kRollBacks) rolled_back_.pop_front();
      roll_back(rolled_back_.back(), nodes_);
      return true;
    }
    if (!record.name.starts_with("push_")) return false;
    const auto rank = Rank(std::llround(record.value));
    Account& account = nodes_[rank];
    if (record.name == "push_came") {
      exact_ = true;
      account.at_server.push_back({record.round, account.gone});
    } else if (record.name == "push_used" && !account.at_server.empty()) {
      const Given given = account.at_server.front();
      account.at_server.pop_front();
      use(account, given);
      committed_[record.round].push_back({rank, given.samples, at});
      while (committed_.size() > kVersions) committed_.erase(committed_.begin());
    } else if (record.name == "push_discarded" && !account.at_server.empty()) {
      account.at_server.pop_back();
    }
    return true;
  }

  void add(const Account& other, Rank rank) {
    Account& account = nodes_[rank];
    account.computed += other.computed;
    account.used += other.used;
    account.computed_before += other.computed_before;
    account.used_before += other.used_before;
    account.taken_back += other.taken_back;
    for (const auto& [round, given] : other.given) account.given[round] = given;
  }

  std::map<Rank, Account> nodes_;
  std::map<std::uint64_t, std::deque<Commit>> committed_;  // by the server's newest versions
  std::deque<RollBack> rolled_back_;
  // Used rounds of nodes without an account here; joined() may find their contributions.
  std::map<Rank, std::deque<Round>> heard_;
  bool exact_ = false;
};

struct SampleLedger::OfNode {
  Rank rank = 0;
  SampleLedger ledger;
  bool is_lost = false;  // the process has ended and did not return
};

inline SampleLedger SampleLedger::joined(std::vector<OfNode> ledgers) {
  SampleLedger all;
  for (OfNode& one : ledgers) {
    if (one.is_lost) one.ledger.node_lost(one.rank);
    all.exact_ |= one.ledger.exact_;
    for (const auto& [rank, account] : one.ledger.nodes_) all.add(account, rank);
  }
  for (const OfNode& one : ledgers)
    for (const auto& [rank, rounds] : one.ledger.heard_)
      for (const Round round : rounds) all.use_of_round(rank, round);
  for (const OfNode& successor : ledgers)
    for (const RollBack& to : successor.ledger.rolled_back_)
      for (OfNode& one : ledgers)
        if (one.rank != successor.rank) one.ledger.roll_back(to, all.nodes_);
  return all;
}

}  // namespace longhaul
