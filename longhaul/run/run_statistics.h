#pragma once
// Sums of the figures that strategies record (docs/sync/README.md): waiting time by cause,
// staleness, local steps:
//
//   wait_s, CAUSE_wait_s   seconds that a learner stood idle: for the exchange, or for CAUSE
//   staleness              of an update, in rounds or commits
//   steps                  local steps of an update
//   sent_share             of the values that a worker sends of a clock
//   group_size             workers that average with each other in a round
#include <map>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "longhaul/base/archive.h"
#include "longhaul/core/action.h"
#include "longhaul/core/place.h"

namespace longhaul::run {

// The best score of a run so far.
struct BestScore {
  Round round = 0;
  double loss = 0, accuracy = 0;
  void state(Archive& ar) { ar(round, loss, accuracy); }
};

// Who took part. A worker is live while it is in the view.
struct Participation {
  std::uint64_t members = 0, live = 0;  // workers of the job; of the newest view
  std::uint64_t changes = 0;            // of the view
  // Over the rounds whose mean left live workers out: their share of the live ones, summed up.
  double left_out = 0;
  // Workers of the job that means did not count, lost ones among them, summed over the rounds; lost
  // ones up to the round `since`, in which `live` changed last.
  double missed = 0;
  Round since = 0;

  // Up to this round.
  double missed_by(Round rounds) const {
    return missed + (rounds > since ? double(members - live) * double(rounds - since) : 0);
  }
  // From this round on so many are live.
  void change(Round rounds, std::uint64_t now_live) {
    missed = missed_by(rounds);
    since = std::max(since, rounds);
    live = now_live;
    ++changes;
  }
  // A mean has left out this share of the live ones.
  void leave_out(double share) {
    left_out += share;
    missed += share * double(live);
  }
  void state(Archive& ar) { ar(members, live, changes, left_out, missed, since); }
};

struct RunStatistics {
  struct Steps {
    std::uint64_t updates = 0, steps = 0;
    void state(Archive& ar) { ar(updates, steps); }
  };
  struct Mean {
    std::uint64_t count = 0;
    double sum = 0;
    void state(Archive& ar) { ar(count, sum); }
  };
  static constexpr std::uint64_t kMaxStaleness = 1000;  // larger values count as this

  std::map<std::string, double> waiting_s;           // by cause, all nodes together
  std::map<std::uint64_t, std::uint64_t> staleness;  // how many updates
  std::map<std::string, Steps> steps;                // by node
  std::map<std::string, Mean> means;                 // "sent_share", "group_size"

  bool empty() const {
    return waiting_s.empty() && staleness.empty() && steps.empty() && means.empty();
  }
  void add(const Member& node, const Record&);
  void add(const RunStatistics&);
  void state(Archive& ar) { ar(waiting_s, staleness, steps, means); }
};

// Writes the non-empty sums into a summary's object.
void write(const RunStatistics&, nlohmann::ordered_json& into);
// Reads what write() wrote; ignores anything else.
RunStatistics read_statistics(const nlohmann::json& from);

}  // namespace longhaul::run
