#pragma once
// Membership: who is in the job, agreed by messages alone, the same in all hosts.
//
// The members agree on numbered epochs, each with one list, seen by all in order. Epoch e+1 is
// decided by single-decree Paxos (Lamport, "Paxos made simple", 2001) among the members of epoch e:
// the lowest member that is not unreachable (if it stays silent, the next) proposes the list
// without those it cannot reach, a majority of epoch e must promise and accept. So two parts of a
// cut network never go different ways: the minority waits. A node declared lost but alive is
// refused and must come back with a new incarnation.
//
// A new incarnation knows nothing: it votes on nothing until a list that holds it is decided, which
// is proposed by those it has called. What the one before it promised concerns only epochs that
// are over.
#include <optional>
#include <set>

#include "longhaul/core/machine.h"

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
    LONGHAUL_FIELDS(epoch, ballot, accepted, live)
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
    LONGHAUL_FIELDS(epoch, ballot)
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

  // Epoch 0 is all members of the job. `retry`: how long a proposal may make no progress. A node
  // that comes back fails if it is not let in within `let_in`.
  explicit Membership(const Place& place, Time retry = std::chrono::seconds(2),
                      Time let_in = std::chrono::seconds(60));

  const View& view() const { return view_; }
  bool excluded() const { return excluded_; }  // this node was declared lost
  std::string waiting_for() const;             // "" if nothing is open

  // From the host, by way of the Node.
  void on_reachability(Rank peer, bool unreachable, Turn&);
  void on_returned(Rank peer, Turn&);  // a new incarnation of one that is not in the view
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
  std::vector<Rank> reachable() const;
  std::size_t majority() const { return view_.live.size() / 2 + 1; }
  void propose(Turn&);
  void decide(const std::vector<Rank>& live, Turn&);
  template <class M>
  void tell_all(const M&, Turn&);

  const Time retry_, let_in_;
  const std::shared_ptr<const Members> members_;
  View view_;
  std::map<Epoch, View> history_;  // the last kHistory, for those behind
  std::set<Rank> unreachable_;     // of the view
  std::set<Rank> calling_;         // not in the view, and back
  bool excluded_ = false;
  bool outside_;  // has come back and is not let in yet
  // As an acceptor, for epoch view_.epoch + 1.
  Ballot promised_, accepted_;
  std::vector<Rank> accepted_live_;
  // As a proposer of it.
  bool proposing_ = false;
  Ballot mine_, best_;
  std::vector<Rank> wanted_;
  std::set<Rank> promises_, accepts_;
  std::uint64_t highest_seen_ = 0;
  std::uint32_t tries_ = 0;  // retries in a row without a majority in reach
  std::uint32_t waits_ = 0;  // retries for the epoch to come
};

}  // namespace longhaul
