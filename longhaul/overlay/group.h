#pragma once
// A Group is a set of workers that form means among themselves. Groups of one overlay know nothing
// of each other: each has its own rounds, epoch, attempts and recovery. AgreedMean (agreed.h) owns
// a node's groups and gives them their inputs.
//
// Epochs. The epoch of a group is the newest view in which one of its members, or a server, was
// lost or came back. It is a function of the views and the members alone, so it is equal at all
// members, whichever newer view they have reached. A view that changes nobody in the group leaves
// its epoch, and its attempts go on. A message of a later epoch than this node's cannot come: the
// Node holds what was sent in a view to come until it is here.
//
// Recovery. In a new epoch attempts end, and all members report of how many rounds they have the
// mean. With all reports in: if any has the mean of the round, the others fetch it from the lowest
// such rank; if none has it, all repeat with the same values. Who took a mean and lives says so;
// who said that it has none is frozen until then. A member contributes to round r+1 only after it
// has the mean of r, so a piece of the mean of r+1 proves that nobody will fetch r any more.
//
// Rejoin. A node that has come back knows nothing: it takes part from the round that the others'
// reports say, and begins anew in every epoch until it has had a mean (rejoin.cpp). Of a group that
// was made before it came back it is no member (core/group_number.h).
//
// End. A member that has closed the group keeps the last mean until all live members have closed
// it, and answers reports and fetches; then its owner drops the Group.
#include "longhaul/overlay/exchange.h"

namespace longhaul::overlay {

class Group {
 public:
  // `members`: workers of the job, dead or alive, ascending. Group 0 has all.
  Group(Common&, std::uint32_t number, RankList members);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // --- the owner of the overlay
  Status begin(const VectorId&, const Contribution&, GroupTurn&);
  std::optional<Round> next_round(std::uint32_t range) const;
  std::optional<Outcome> poll(const VectorId&);
  void close(GroupTurn&);
  std::string waiting_for() const;  // "": nothing

  // --- inputs
  Status take(Rank from, const Announcement&, GroupTurn&);
  Status take(Rank from, const Contributors&, GroupTurn&);
  Status take(Rank from, const AttemptMessage&, GroupTurn&);
  Status take(Rank from, const Report&, GroupTurn&);
  Status take(Rank from, const Fetch&, GroupTurn&);
  Status take(Rank from, const Closed&, GroupTurn&);
  Status admit(Rank from, const TransferKey&, Range) const;
  Result<std::vector<float>> decode(const TransferKey&, Range, const Payload&) const;
  void take(Arrival&&, GroupTurn&);
  Payload encoded(const TransferKey&, Range);
  std::span<const float> part_values(const TransferKey&, Range);
  Payload encode_part(const TransferKey&, Range, std::span<const float> values);
  void on_view(GroupTurn&);
  void on_time(GroupTurn&);
  void settle(GroupTurn&);
  void contribute_held(GroupTurn&);  // what the topology held back, if it may go now
  void recover(GroupTurn&);          // reports to all others, and awaits their reports
  // Tells the others that this node has closed the group, once nothing of it is on its way.
  void tell_closed(GroupTurn&);
  void end_attempts();

  const GroupMembers& team() const { return team_; }
  bool frozen() const { return !awaiting_reports_.empty(); }
  // All live members have closed it, or none lives: nobody will ask for anything.
  bool over() const;
  bool has(std::uint32_t range) const { return exchanges_.contains(range); }
  // Exchanges that this peer has begun and this node has not, and the group itself if it is so.
  std::size_t opened_by(Rank peer) const;
  void set_opener(Rank peer) { opener_ = peer; }
  std::optional<Time> due() const;
  void state(Archive&);

 private:
  enum class When { now, late };

  Result<Exchange*> exchange(const VectorId&, std::uint64_t length, bool exact,
                             std::optional<Rank> opener);
  Exchange* find(std::uint32_t range);
  const Exchange* find(std::uint32_t range) const;
  // Is a message of this attempt to be heeded? An Error: only a broken peer can say it.
  Result<When> when(Epoch, const VectorId&) const;
  Status check_members(Rank from, const std::vector<std::uint8_t>& members) const;
  RankList living(const RankList& workers) const;
  void form_team();

  // recovery.cpp
  void report(Rank to, GroupTurn&);
  void resolve(GroupTurn&);

  // rejoin.cpp
  Status follow(const Announcement&, Rank from);
  void forget_borrowed();
  void be_told();
  Round told(std::uint32_t range) const;

  Common& common_;
  const std::uint32_t number_;
  GroupMembers team_;
  std::map<std::uint32_t, Exchange> exchanges_;  // by range
  std::optional<Rank> opener_;                   // who first spoke of it; absent: this node
  // In this epoch: whose reports are awaited, have come, and to whom this node has reported.
  std::set<Rank> awaiting_reports_, heard_, reported_to_;
  std::map<Rank, std::map<std::uint32_t, Round>> reports_;  // until all are in
  std::map<std::uint32_t, Round> told_;  // a node that has come back: rounds that others have had
  bool closed_ = false, closed_told_ = false;  // by this node
  std::set<Rank> closed_by_;                   // other members
};

}  // namespace longhaul::overlay
