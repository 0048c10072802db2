#pragma once
// Checks is a site's half of the accurate model: it sends representatives to a verifier, at most
// two batches on their way to each, and gets verdicts. A cluster is checked once however many
// queries wait for it. What a lost verifier owes goes to the site itself.
#include <deque>
#include <map>
#include <set>

#include "longhaul/core/turn.h"
#include "longhaul/focus/index.h"
#include "longhaul/focus/messages.h"

namespace longhaul::focus {

class Checks {
 public:
  static constexpr std::size_t kInFlight = 2;  // batches to one verifier
  // `batch`: most objects of one; `object_bytes`: of one, on its way to another site.
  Checks(std::uint32_t batch, std::uint32_t object_bytes)
      : batch_(batch), object_bytes_(object_bytes) {}

  void request(std::uint64_t cluster, Rank verifier);  // nothing if it is pending
  void forget(std::uint64_t cluster);                  // unless it is on its way
  // Sends what may be sent now.
  void advance(const Index&, Turn&);
  // Clusters and their classes, in the order in which they were requested; none of an unknown
  // batch: the verifier had been given up.
  Result<std::vector<std::pair<std::uint64_t, std::uint32_t>>> take(Rank from, const Verdict&);
  void on_view(Turn&);
  std::size_t pending() const { return pending_.size(); }
  void state(Archive& ar) { ar(queues_, batches_, pending_, next_); }

 private:
  struct Batch {
    Rank verifier = 0;
    std::vector<std::uint64_t> clusters;
    void state(auto& ar) { ar(verifier, clusters); }
  };
  void send(Rank verifier, std::deque<std::uint64_t>& queue, const Index&, Turn&);
  std::size_t in_flight(Rank verifier) const;

  std::uint32_t batch_, object_bytes_;
  std::map<Rank, std::deque<std::uint64_t>> queues_;  // by verifier
  std::map<std::uint64_t, Batch> batches_;            // by number
  std::set<std::uint64_t> pending_;                   // in either
  std::uint32_t next_ = 0;
};

}  // namespace longhaul::focus
