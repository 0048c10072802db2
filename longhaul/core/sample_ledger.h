#pragma once
// The ledger of a run's samples: how many were computed, how many are in the model, and what became
// of the others. It is kept from what nodes record, of each sample once:
//
//   samples_computed   of a step on training data
//   samples_given      to the mean of a round, by the node itself
//   samples_used       value: the rank that the round's mean has counted; recorded by the node
//                      itself, and of a lost node by all that are left
//   push_came          by a server: an update of `round` samples has come; value: of which rank
//   push_used, push_discarded
//                      by a server: the oldest of that rank that has come is in the version that
//                      `round` is; the newest is in none
//   rolled_back        a server begins again with the version that `round` is
//
// A strategy that averages whole models, or mixes them in the background, records none of these but
// the first: how many of its samples are in the model has no exact answer.
//
// One ledger takes the records of all nodes in a simulation. Over sockets each node keeps one of
// what it records itself, and joined() makes one of them when the run is over.
#include <deque>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/base/queue.h"
#include "longhaul/core/action.h"

namespace longhaul {

struct SampleCounts {
  std::uint64_t computed = 0;
  // Absent: the strategy cannot say.
  std::optional<std::uint64_t> used = {};
  // Of nodes that are lost or have begun anew, or taken back with a server that was lost.
  std::uint64_t lost = 0;
  // The rest, of nodes that live: discarded, or not yet given when the run ended.
  std::uint64_t unused() const { return computed - std::min(computed, used.value_or(0) + lost); }
  void state(Archive& ar) { ar(computed, used, lost); }
};

class SampleLedger {
 public:
  // Is the record one of the ledger's, which then has taken it?
  bool take(Time at, Rank by, const Record&);
  // The node is lost: what it has computed and nobody uses is lost with it.
  void node_lost(Rank);
  // It has begun anew. Of a node whose own records come here, its next step says so, too.
  void node_returned(Rank);
  SampleCounts counts() const;
  void state(Archive& ar) { ar(nodes_, committed_, rolled_back_, heard_, exact_); }

  struct OfNode;
  // The ledgers that nodes kept of one run. What a server had committed beyond the version that its
  // successor began with is taken back by the times of both. A node that died after several of its
  // servers did may have unused samples counted as lost; the sums are exact.
  static SampleLedger joined(std::vector<OfNode> ledgers);

 private:
  struct Given {
    std::uint64_t samples = 0;
    bool lost = false;  // with its node, unless it is used after all
    void state(auto& ar) { ar(samples, lost); }
  };
  struct Account {
    std::uint64_t computed = 0, used = 0;
    // Of them before the node was lost last; used since then by servers that were lost.
    std::uint64_t computed_before = 0, used_before = 0, taken_back = 0;
    bool gone = false;
    std::map<Round, Given> given;  // to rounds that are open
    Queue<Given> at_server;        // kept by it
    void state(auto& ar) {
      ar(computed, used, computed_before, used_before, taken_back, gone, given, at_server);
    }
    std::uint64_t lost() const;
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
  static constexpr std::size_t kVersions = 4096;  // that a server may be rolled back by
  static constexpr std::size_t kRollBacks = 64;

  static void use(Account&, const Given&);
  void use_of_round(Rank, Round);
  void roll_back(const RollBack&, std::map<Rank, Account>& nodes);
  bool take_push(Time at, const Record&);
  void add(const Account&, Rank);

  std::map<Rank, Account> nodes_;
  std::map<std::uint64_t, std::deque<Commit>> committed_;  // by the server's newest versions
  std::deque<RollBack> rolled_back_;
  // Rounds that were said to be used of nodes that nothing was known of: joined() may know.
  std::map<Rank, std::deque<Round>> heard_;
  bool exact_ = false;
};

struct SampleLedger::OfNode {
  Rank rank = 0;
  SampleLedger ledger;
  bool is_lost = false;  // its process has died, and did not come back
};

}  // namespace longhaul
