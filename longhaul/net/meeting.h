#pragma once
// How a process finds its place in a run: the machine of starting, resuming, rejoining and being
// let in, without sockets. Peers feeds it what hellos say; docs/meeting.md is its page.
//
//   arriving  has just started. It meets the others, and begins or resumes with them; a member that
//             does not know it sends it to ask.
//   asking    knows that members run, and asks them to let it in (a new incarnation). When no
//             member has been in contact for a while there is nothing to rejoin: it arrives again.
//   member    is in the run. It replaces a peer's former process by a new one as soon as the former
//             is not heard, tells one that arrives to ask, and lets membership admit one that asks.
//
// Only members are evidence of a run: one that asks is none. Bounds: one entry a rank. One thread.
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "longhaul/net/hello.h"

namespace longhaul::net {

struct MeetingConfig {
  std::uint64_t process = 0;     // as PeersConfig's
  std::set<Rank> left_out = {};  // by [run] without
  Time nothing_to_rejoin{0};     // an asking node without a member in contact gives up
  Time told_so{0};               // the same after an arriving node has refused it
  // No process dies and is started again within this. A peer that was heard earlier before the last
  // one came may have begun with another process of that one, and is asked again.
  Time fresh{0};
  Time heard_within{0};     // a process that is heard again within this is alive
  bool lets_return = true;  // the strategy takes lost nodes back
  // Servers without followers. No other node has their state.
  std::set<Rank> servers = {};
};

class Meeting {
 public:
  // The state of this node's link to a peer.
  struct Contact {
    std::optional<std::uint64_t> process;  // that the link is of
    bool connected = false;
    bool heard = false;        // and heard within MeetingConfig::heard_within
    bool dropped = false;      // declared lost
    bool can_be_asked = true;  // this node can dial it
  };
  // `contact` is asked for any other rank; it outlives this.
  Meeting(const Place&, MeetingConfig, std::function<Contact(Rank)> contact);

  // --- what others say. The hello is of a member of the job, and not this node's own.
  struct Answer {
    std::optional<Refusal> refusal;
    bool replaces = false;  // a new process: the peer needs a new link first
  };
  Answer hear(const Hello&, Time now);
  // An arriving node has to ask this member whether it knows it.
  bool must_ask(const Hello&) const;
  void on_known(const Hello& hello) { known_[hello.rank] = hello.process; }

  // --- before the run
  struct Offer {                // of a checkpoint
    std::uint64_t newest = 0;   // 0: none
    std::uint32_t members = 0;  // nodes of the job then
    bool has_before = false;    // the checkpoint before can be resumed from, too
    View view = {};             // in it
  };
  void offer(Offer mine);
  bool holds_state() const { return offers_.at(place_.self).newest > 0; }
  bool here(Rank) const;  // connected, or left out
  bool knows_member() const { return !members_.empty(); }
  bool asks(Rank peer) const { return asking_.contains(peer); }
  // Returns true if this node can begin: all others are connected and begin with it, or a member
  // has begun with it.
  bool complete(Time now);
  // Connected nodes that must be asked again whether they have begun.
  const std::vector<Rank>& to_ask() const { return to_ask_; }
  // Returns true if the connected nodes hold a state that they can resume.
  bool can_resume() const;
  // Returns true if a connected server lacks its state. Then no other node can help.
  bool state_is_gone() const;
  // Returns the checkpoint to resume from; 0: the run begins. It is the newest that a quorum of its
  // view holds. Nodes without it were lost and must rejoin. A node that is not in that view, or has
  // returned to it since its own checkpoint, is no holder: its checkpoint of that number is of
  // another moment. Null: this node must rejoin. Error: no quorum holds one state, or a server does
  // not hold it.
  Result<std::optional<std::uint64_t>> choose_checkpoint() const;

  // --- the run
  void open();   // begins, resumes, or asks
  void admit();  // this node is let in
  bool is_member() const { return open_ && (admitted_ || !place_.comes_back()); }
  void end() { ending_ = true; }
  // Tells runs that began at different moments apart; members of one have the same. After open().
  std::uint64_t life() const { return life_; }
  bool meets_member() const;
  void told_to_resume() { told_to_resume_ = true; }
  // One that asks: no member has been in contact for long enough.
  bool nothing_to_rejoin(Time now);

  // --- new processes of peers, at a member
  // Returns true if the peer asks and no list admits it yet.
  bool is_stranger(Rank peer) const { return !strangers_.empty() && strangers_.contains(peer); }
  bool forget_stranger(Rank peer) { return strangers_.erase(peer) > 0; }  // in, or gone again
  bool has_restarted(Rank peer) const { return restarted_.contains(peer); }
  void replaced(Rank peer) { restarted_.erase(peer); }

 private:
  Answer hear_arriving(const Hello&);
  Answer hear_member(const Hello&, Time now);
  Answer hear_returning(const Hello&, const Contact&, Time now);
  Refusal declared_lost() const;
  // The former process is heard: a second one of the site was started, or it has just died.
  std::optional<Refusal> wait_for_former(const Hello&, const Contact&, Time now);
  bool is_here(Rank) const;  // connected, or this one
  bool holds_quorum(const std::set<Rank>& holders, const Offer& of) const;
  Error holds_no_state(Rank server, std::uint64_t newest) const;
  Error differ() const;
  View view_of(const Hello&) const;

  const Place place_;
  const MeetingConfig config_;
  const std::function<Contact(Rank)> contact_;
  bool open_ = false, admitted_ = false, ending_ = false;
  std::uint64_t life_ = 0;
  std::map<Rank, Offer> offers_;             // as hellos said before the run
  std::map<Rank, std::uint64_t> members_;    // that run, as they said last: their lives
  std::map<Rank, std::uint64_t> known_;      // processes that have this one in their run
  std::map<Rank, std::uint64_t> counts_on_;  // members that do, and wait: what they resumed from
  std::set<Rank> asking_;                    // while this node arrives
  std::set<Rank> strangers_, restarted_;
  struct Claim {
    std::uint64_t process = 0;
    Time since{0};
  };
  std::map<Rank, Claim> claims_;  // new processes, while the former is heard
  std::optional<Time> without_member_since_;
  bool told_to_resume_ = false, other_life_ = false;
  std::map<Rank, Time> heard_;  // hellos, while this node arrives
  std::optional<Time> all_here_since_;
  std::vector<Rank> to_ask_;
};

}  // namespace longhaul::net
