#pragma once
// Checks is a site's half of the accurate model: it sends representatives to a verifier, at most
// two batches on their way to each, and gets verdicts. A cluster is checked once however many
// queries wait for it. The site itself checks what a lost verifier owes, or one that says nothing
// of a batch for `patience`; such a verifier is asked again once it has answered that batch.
#include <deque>
#include <map>
#include <set>
#include <span>

#include "longhaul/core/machine.h"
#include "longhaul/focus/index.h"
#include "longhaul/focus/messages.h"

namespace longhaul::focus {

class Checks {
 public:
  static constexpr std::size_t kInFlight = 2;  // batches to one verifier
  static constexpr TimerId kTimer{5};          // of the node, which then calls advance()
  // `node`: whose part it is. `batch`: most objects of one; `object_bytes`: of one, on its way to
  // another site.
  Checks(const Machine& node, std::uint32_t batch, std::uint32_t object_bytes, Time patience)
      : node_(node), batch_(batch), object_bytes_(object_bytes), patience_(patience) {}

  void request(std::uint64_t cluster, Rank verifier);  // nothing if it is pending
  void forget(std::uint64_t cluster);                  // unless it is on its way
  // Gives up who says nothing, and sends what may be sent now.
  void advance(const Index&, Turn&);
  // Clusters and their classes, in the order in which they were requested; none of an unknown
  // batch, or of one whose verifier had been given up. Error: the verdicts are not of this batch,
  // or name none of `classes`; it stays on its way.
  Result<std::vector<std::pair<std::uint64_t, std::uint32_t>>> take(Rank from, const Verdict&,
                                                                    std::uint32_t classes);
  void take(Rank from, const StillChecking&, Time now);
  void on_view(Turn&);
  std::size_t pending() const { return pending_.size(); }
  void state(Archive& ar) { ar(queues_, batches_, pending_, next_); }
  // Verifiers that owe a batch for too long.
  std::set<Rank> given_up() const;

 private:
  struct Batch {
    Rank verifier = 0;
    std::vector<std::uint64_t> clusters;
    Time heard{0};          // of it
    bool given_up = false;  // its clusters are not expected of it any more
    void state(auto& ar) { ar(verifier, clusters, heard, given_up); }
  };
  void give_up_silent(Turn&);
  void set_timer(Turn&) const;
  void check_here(std::span<const std::uint64_t> clusters, Rank self);
  void send(Rank verifier, std::deque<std::uint64_t>& queue, const Index&, Turn&);
  std::size_t in_flight(Rank verifier) const;

  const Machine& node_;
  std::uint32_t batch_, object_bytes_;
  Time patience_;
  std::map<Rank, std::deque<std::uint64_t>> queues_;  // by verifier
  std::map<std::uint64_t, Batch> batches_;            // by number
  std::set<std::uint64_t> pending_;                   // in either
  std::uint32_t next_ = 0;
};

}  // namespace longhaul::focus
