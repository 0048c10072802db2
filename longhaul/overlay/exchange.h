#pragma once
// An Exchange is what a node keeps of one (group, range): the rounds of one vector. It holds the
// node's own contribution to the round under way, the attempts to form its mean, and the newest
// mean, which is kept for members that may have to fetch it. Owned by a Group (group.h), which
// decides when attempts begin, end and are repeated.
//
// Rounds count 0, 1, 2 ... without a gap, and all vectors have one length. A peer may be one round
// ahead.
#include <map>
#include <optional>

#include "longhaul/core/coder.h"
#include "longhaul/overlay/attempt.h"

namespace longhaul::overlay {

// What all groups of one node share. Owned by AgreedMean.
struct Common {
  const Place place;
  const std::unique_ptr<Transfer> transfer;
  const std::unique_ptr<Topology> topology;
  Coder coder;
  const RankList workers;         // of the job, dead or alive
  View view;                      // the newest
  std::map<Rank, Epoch> changed;  // who was lost or came back, and the newest view of that
  // A piece of a mean as it came, while it is taken; empty otherwise.
  struct Arrived {
    TransferKey key;
    Range range;
    Payload bytes;
  };
  std::vector<Arrived> arrived = {};

  bool newcomer() const { return place.comes_back(); }
  // The newest view in which one of these ranks, or a server, was lost or came back. Equal at all
  // of them, whatever else their views have in common.
  Epoch epoch_of(const RankList& ranks) const;
  // The longest vector that is believed.
  std::uint64_t longest_vector() const;
};

// The turn of an overlay, and as its transfer sees it.
struct GroupTurn {
  Turn& own;
  Turn transfer;
  Time now() const { return own.now(); }
  void late(Round round) { own.record("late", round, 1); }
};

// A mean that is put together piece by piece. At most one is kept per exchange: the one of the last
// round, until the first piece of the next shows that all members have the last.
struct Mean {
  bool kept = false;  // false: nothing here
  Round round = 0;
  std::vector<float> values;  // phantom: none
  std::vector<bool> have;     // by piece
  std::size_t missing = 0;
  bool has_contributors = false;
  RankList counted;
  double weight = 0;
  Epoch epoch = 0;  // that it was formed in

  bool whole() const { return kept && has_contributors && (missing == 0 || counted.empty()); }
  void state(auto& ar) {
    ar(kept, round, values, have, missing, has_contributors, counted, weight, epoch);
  }
};

class Exchange {
 public:
  // `first`: group, range, and the round that comes first here. `length` > 0. `team`: its group's,
  // which outlives it.
  Exchange(Common&, const GroupMembers& team, const VectorId& first, std::uint64_t length,
           bool exact);

  // --- the owner of the overlay
  void begin(Round, const Contribution&);
  void contribute(GroupTurn&);  // to the round that was begun, unless the topology holds it back
  std::optional<Outcome> poll(Round);

  // --- messages and pieces of this epoch; of rounds that are not over, and one ahead at most
  Status take(Rank from, const Announcement&, GroupTurn&);
  Status take(Rank from, const Contributors&, GroupTurn&);
  Status take(Rank from, const AttemptMessage&, GroupTurn&);
  Status admit(Rank from, const TransferKey&, Range) const;
  void take(Arrival&&, GroupTurn&);
  Payload encoded(const TransferKey&, Range);
  // Of this node's part; see VectorPort.
  std::span<const float> part_values(const TransferKey&, Range);
  Payload encode_part(const TransferKey&, Range, std::span<const float> values);
  std::optional<Time> due() const;  // when an attempt wants to be woken
  void on_time(GroupTurn&);
  // After anything that may have completed a round here.
  void settle(GroupTurn&);

  // --- what its group decides after a loss
  void end_attempts();
  void forget_unfinished();              // what the epoch that is over has left
  void fetch_from(Rank, GroupTurn&);     // the mean of the round under way
  bool can_give(const VectorId&) const;  // this mean is here
  // Gives the mean to a member that asks for it. An Error: for the second time.
  Status repair(Rank to, GroupTurn&);
  void follow(Round round) { next_ = lowest_ = round; }
  // At a node that has come back: it has had no mean here, so there is none that it could give.
  bool borrowed = false;
  std::optional<Rank> opener;  // who first spoke of it; absent: this node

  Round next() const {
    return next_;
  }                                         // rounds whose mean this node has; a server that is
                                            // no member: those it has reduced
  Round lowest() const { return lowest_; }  // rounds below are over
  bool is_told() const { return borrowed && !knows_round_; }  // `next` is what the others say
  bool begun() const { return begun_; }
  bool held() const { return held_; }
  bool fetching() const { return source_.has_value(); }
  bool idle() const { return attempts_.empty(); }
  std::uint64_t length() const { return grid_.length(); }
  bool exact() const { return exact_; }
  std::string waiting_for() const;
  void state(Archive&);

 private:
  AttemptContext context(Round, Time now = Time{0}, Payload arrived = {});
  void carry_out(Round, AttemptContext&, GroupTurn&);
  VectorId id(Round round) const { return {round, group_, range_}; }
  CodecKey own_key(Round round) const { return {id(round), team_.self}; }
  Attempt& attempt(Round);
  const Plan* plan_of(Round);
  Round since(Round) const;  // see ReplanningTopology
  std::unique_ptr<Plan> make_plan(Round since) const;
  void forget_plans();
  void drop(Round);
  TransferKey repair_key() const;
  void open_mean(Round);
  void put_piece(Round, std::size_t piece, std::span<const float>);
  void put_contributors(Round, RankList counted, double weight, Epoch formed);
  bool has_piece(Round, std::size_t piece) const;
  std::vector<float> own_as_read();
  void end_round(GroupTurn&);

  Common& common_;
  const GroupMembers& team_;
  const std::uint32_t group_, range_;
  const bool exact_;
  const Partition grid_;
  std::map<Round, std::unique_ptr<Plan>> plans_;  // of the epoch under way, by their first round

  Round next_, lowest_;
  // This node's contribution to round `next`.
  bool begun_ = false;
  bool knows_round_ = false;
  bool held_ = false;  // the topology keeps this node from giving it
  std::vector<float> values_;
  double weight_ = 0;  // 0: none
  bool wants_own_ = false;
  std::vector<float> own_;  // of the newest mean
  std::vector<bool> sent_;  // pieces whose part went out in the attempt under way
  Mean mean_;
  bool outcome_ = false;        // mean is for poll()
  std::optional<Rank> source_;  // from whom round `next` is being fetched
  std::set<Rank> served_;       // who fetched the mean in this epoch
  std::map<Round, std::unique_ptr<Attempt>> attempts_;
};

}  // namespace longhaul::overlay
