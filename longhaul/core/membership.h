#pragma once
// Membership agrees by messages alone on the list of nodes in the job. It is the same in all hosts.
//
// The members agree on numbered epochs, each with one list, seen by all in order. The members of
// epoch e decide epoch e+1 by single-decree Paxos (Lamport, "Paxos made simple", 2001). The lowest
// member that is not unreachable (if it stays silent, the next) proposes the list without those
// that it cannot reach. A quorum of epoch e (core/quorum.h) must promise and accept. So two parts
// of a cut network never decide differently. Without a quorum in reach the members keep their state
// and wait; after Place::majority_wait they fail. A node declared lost but alive is refused and
// must return with a new incarnation.
//
// A process that ends loses its model, but not its votes. The host keeps them (take_votes) and
// gives them to the next process (remember), which answers with them until a list admits it. A
// process without them is blank. Its answer counts only if every member answers: then no list that
// a living member or a kept vote knows of is missed.
//
// A member's process is replaced in two epochs: the first removes the former process from the list,
// the second adds the new one.
#include <optional>
#include <set>

#include "longhaul/core/machine.h"
#include "longhaul/core/quorum.h"

namespace longhaul {

class Membership final : public Machine {
 public:
  // A ballot orders proposals for one epoch; unique by its proposer.
  struct Ballot {
    std::uint64_t number = 0;  // 0: none
    Rank proposer = 0;
    friend auto operator<=>(const Ballot&, const Ballot&) = default;
    LONGHAUL_FIELDS(number, proposer)
  };
  struct Prepare {
    static constexpr std::uint16_t kKind = 1;
    static constexpr std::string_view kName = "prepare";
    Epoch epoch = 0;
    Ballot ballot;
    LONGHAUL_FIELDS(epoch, ballot)
  };
  struct Promise {
    static constexpr std::uint16_t kKind = 2;
    static constexpr std::string_view kName = "promise";
    Epoch epoch = 0;
    Ballot ballot;
    Ballot accepted;         // number 0: nothing accepted yet
    std::vector<Rank> live;  // the list accepted
    bool blank = false;      // this process does not know what the one before it has accepted
    LONGHAUL_FIELDS(epoch, ballot, accepted, live, blank)
  };
  struct Accept {
    static constexpr std::uint16_t kKind = 3;
    static constexpr std::string_view kName = "accept";
    Epoch epoch = 0;
    Ballot ballot;
    std::vector<Rank> live;
    LONGHAUL_FIELDS(epoch, ballot, live)
  };
  struct Accepted {
    static constexpr std::uint16_t kKind = 4;
    static constexpr std::string_view kName = "accepted";
    Epoch epoch = 0;
    Ballot ballot;
    bool blank = false;
    LONGHAUL_FIELDS(epoch, ballot, blank)
  };
  struct Return {  // of View::returned
    Rank rank = 0;
    Epoch epoch = 0;
    LONGHAUL_FIELDS(rank, epoch)
  };
  struct Decided {  // also the answer to messages of a decided epoch
    static constexpr std::uint16_t kKind = 5;
    static constexpr std::string_view kName = "decided";
    Epoch epoch = 0;
    std::vector<Rank> live;
    std::vector<Return> returned = {};  // in `live`; for nodes that return with this list
    std::uint32_t founders = 0;         // as View::founders, for the same
    LONGHAUL_FIELDS(epoch, live, returned, founders)
  };
  using Messages = MessageList<Prepare, Promise, Accept, Accepted, Decided>;

  // The state of an acceptor, which it must not forget.
  struct Votes {
    Epoch epoch = 1;  // that is open
    Ballot promised, accepted;
    std::vector<Rank> live;  // the list accepted
    Decided last;            // of the epoch before
    LONGHAUL_FIELDS(epoch, promised, accepted, live, last)
  };

  static constexpr Time kShortWait = std::chrono::seconds(10);
  // Epoch 0 is all members of the job. `wait`: a member without a quorum in reach, or a returned
  // node that no list admits, fails after this time; default: Place::majority_wait. `retry`: the
  // time until a proposal without progress is repeated.
  explicit Membership(const Place& place, std::optional<Time> wait = {},
                      Time retry = std::chrono::seconds(2));

  const View& view() const { return view_; }
  bool excluded() const { return excluded_; }  // this node was declared lost
  bool outside() const { return outside_; }    // returned, and in no list yet
  // The process of that member has ended, and a new one has called.
  bool has_ended(Rank rank) const { return ended_.contains(rank); }
  bool has_quorum() const;          // among the members in reach
  std::string waiting_for() const;  // "" if nothing is open

  // Takes the votes of the former process; before on_start, at a returned node only.
  Status remember(std::span<const std::byte> votes);
  // The votes, if they have changed since the last call: for the host to keep before any message
  // that was sent after the change.
  std::optional<Buffer> take_votes();

  // The run has ended at this node, which admits no returned nodes from now on.
  void close();
  // From the host, by way of the Node.
  void on_reachability(Rank peer, bool unreachable, Turn&);
  // A new process of that node has called, and the one before it has ended.
  void on_returned(Rank peer, Turn&);
  void on_start(Turn&) override;
  Status on_message(Rank from, const Message&, Turn&) override;
  void on_timer(TimerId, Turn&) override;
  void state(Archive&) override;

 private:
  Status take(Rank from, const Prepare&, Turn&);
  Status take(Rank from, const Promise&, Turn&);
  Status take(Rank from, const Accept&, Turn&);
  Status take(Rank from, const Accepted&, Turn&);
  Status take(Rank from, const Decided&, Turn&);
  Status check_list(const std::vector<Rank>& live) const;
  Status be_let_in(const Decided&, Turn&);
  static Decided decided(const View&);
  bool is_old(Rank from, Epoch epoch, Turn&);
  bool votes_on(Epoch epoch);
  std::vector<Rank> reachable() const;
  bool passed(const std::map<Rank, bool>& answers) const;
  void propose(Turn&);
  void decide(const std::vector<Rank>& live, Turn&);
  void begin_epoch();
  std::string named(const std::set<Rank>&) const;
  std::string needs() const;
  template <class M>
  void tell_all(const M&, Turn&);

  const Time wait_, retry_;
  const std::shared_ptr<const Members> members_;
  const Quorum quorum_;
  View view_;
  std::map<Epoch, View> history_;  // the last kHistory, for those behind
  std::set<Rank> unreachable_;     // of the view
  std::set<Rank> ended_;           // in the view, but their processes have ended
  std::set<Rank> calling_;         // returned, for the next list
  bool excluded_ = false, closed_ = false;
  bool outside_;
  // As an acceptor, for epoch view_.epoch + 1; while outside, for that of the last proposal.
  Votes votes_;
  bool votes_changed_ = true;
  bool blank_ = false;  // without the votes of the former process
  // As a proposer of it.
  bool proposing_ = false;
  Ballot mine_, best_;
  std::vector<Rank> wanted_;
  std::map<Rank, bool> promises_, accepts_;  // by rank: it knows what it has accepted before
  std::set<Rank> voteless_;                  // of the view: they have answered that they do not
  bool asked_ = false;                       // the list is out
  std::uint64_t highest_seen_ = 0;
  std::uint32_t waits_ = 0;         // retries for the epoch to come
  std::optional<Time> open_since_;  // nothing was decided since
  // No proposal before this time: contact is returning, and suspicions may end soon.
  std::optional<Time> not_before_;
};

}  // namespace longhaul
