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
#include <deque>
#include <map>
#include <optional>
#include <string_view>

#include "longhaul/base/archive.h"
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
  void add(const SampleCounts&);
  void state(Archive& ar) { ar(computed, used, lost); }
};

class SampleLedger {
 public:
  // Is the record one of the ledger's, which then has taken it?
  bool take(Rank by, const Record&);
  // The node is lost: what it has computed and nobody uses is lost with it.
  void node_lost(Rank);
  SampleCounts counts() const;
  void state(Archive& ar) { ar(nodes_, committed_, exact_); }

 private:
  struct Given {
    std::uint64_t samples = 0;
    bool lost = false;  // with its node, unless it is used after all
    void state(auto& ar) { ar(samples, lost); }
  };
  struct Account {
    std::uint64_t computed = 0, used = 0, lost = 0;
    bool gone = false;
    std::map<Round, Given> given;  // to rounds that are open
    std::deque<Given> at_server;   // kept by it
    void state(auto& ar) { ar(computed, used, lost, gone, given, at_server); }
  };
  struct Commit {
    Rank rank = 0;
    std::uint64_t samples = 0;
    void state(auto& ar) { ar(rank, samples); }
  };
  static constexpr std::size_t kOpenRounds = 8;
  static constexpr std::size_t kVersions = 4096;  // that a server may be rolled back by

  static void use(Account&, const Given&);
  void roll_back(std::uint64_t version);
  bool take_push(const Record&);

  std::map<Rank, Account> nodes_;
  std::map<std::uint64_t, std::deque<Commit>> committed_;  // by the server's newest versions
  bool exact_ = false;
};

}  // namespace longhaul
