#pragma once
// Membership: who is in the job, agreed by messages alone, the same in all hosts.
//
// The members agree on numbered epochs, each with one list, seen by all in order. Epoch e+1 is
// decided by single-decree Paxos (Lamport, "Paxos made simple", 2001) among the members of epoch e:
// the lowest member that is not unreachable (if it stays silent, the next) proposes the list
// without those it cannot reach, and a quorum of epoch e (core/quorum.h) must promise and accept.
// So two parts of a cut network never go different ways. Without a quorum in reach the members keep
// what they have and wait; after Place::majority_wait they fail. A node declared lost but alive is
// refused and must come back with a new incarnation.
//
// A process that ends takes its model with it, not its votes: the host keeps them (take_votes) and
// gives them to the next process (remember), which answers in its name until it is let in. A
// process without them is blank. Its answer counts only if every member answers: then no list that
// a living member or a kept vote knows of can be missed.
//
// One that is in the list is replaced in two epochs: the first leaves the former process out, the
// second takes the new one in.
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
  struct Decided {  // also the answer to anybody who speaks of an epoch that is over
    static constexpr std::uint16_t kKind = 5;
    static constexpr std::string_view kName = "decided";
    Epoch epoch = 0;
    std::vector<Rank> live;
    std::vector<Return> returned = {};  // of `live`; for those who come back with this list
    std::uint32_t founders = 0;         // as View::founders, for the same
    LONGHAUL_FIELDS(epoch, live, returned, founders)
  };
  using Messages = MessageList<Prepare, Promise, Accept, Accepted, Decided>;

  // What an acceptor must not forget.
  struct Votes {
    Epoch epoch = 1;  // that is open
    Ballot promised, accepted;
    std::vector<Rank> live;  // the list accepted
    Decided last;            // of the epoch before
    LONGHAUL_FIELDS(epoch, promised, accepted, live, last)
  };

  static constexpr Time kShortWait = std::chrono::seconds(10);
  // Epoch 0 is all members of the job. `wait`: for how long a member without a quorum in reach, or
  // one that comes back and is not let in, waits before it fails; by default as the place says.
  // `retry`: how long a proposal may make no progress.
  explicit Membership(const Place& place, std::optional<Time> wait = {},
                      Time retry = std::chrono::seconds(2));

  const View& view() const { return view_; }
  bool excluded() const { return excluded_; }  // this node was declared lost
  bool outside() const { return outside_; }    // it has come back and is not let in yet
  // The process of that member has ended, and a new one has called.
  bool has_ended(Rank rank) const { return ended_.contains(rank); }
  bool has_quorum() const;          // of those that it reaches
  std::string waiting_for() const;  // "" if nothing is open

  // Before on_start, of one that comes back: the votes of the process before.
  Status remember(std::span<const std::byte> votes);
  // The votes, if they have changed since the last call: for the host to keep before any message
  // that was sent after the change.
  std::optional<Buffer> take_votes();

  // The run is over at this node: it lets nobody in any more.
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
  std::set<Rank> ended_;           // of the view: their processes; new ones have called
  std::set<Rank> calling_;         // have come back, and are to be let in
  bool excluded_ = false, closed_ = false;
  bool outside_;
  // As an acceptor, for epoch view_.epoch + 1; while outside, for that of the last proposal.
  Votes votes_;
  bool votes_changed_ = true;
  bool blank_ = false;  // nobody has remembered
  // As a proposer of it.
  bool proposing_ = false;
  Ballot mine_, best_;
  std::vector<Rank> wanted_;
  std::map<Rank, bool> promises_, accepts_;  // by rank: it knows what it has accepted before
  bool asked_ = false;                       // the list is out
  std::uint64_t highest_seen_ = 0;
  std::uint32_t waits_ = 0;         // retries for the epoch to come
  std::optional<Time> open_since_;  // nothing was decided since
  // Contact is coming back: suspicions may be over soon, and are looked at again then.
  std::optional<Time> not_before_;
};

}  // namespace longhaul
