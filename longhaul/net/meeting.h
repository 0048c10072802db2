#pragma once
// How a process finds its place in a run: the state machine of starting, resuming, rejoining and
// admission, without sockets. Peers passes it the content of hellos. See docs/meeting.md.
//
//   arriving  has just started. The node meets the others, and begins or resumes with them. A
//   member
//             that does not know it makes it ask.
//   asking    knows that members run, and asks them for admission (a new incarnation). If no member
//             was in contact for a while, there is nothing to rejoin: the node arrives again.
//   member    is in the run. The node replaces a peer's former process by a new one as soon as the
//             former is silent. It makes an arriving node ask, and lets membership admit one that
//             asks.
//
// Only members prove that a run exists; an asking node does not. Bounds: one entry per rank. One
// thread.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "longhaul/net/hello.h"

namespace longhaul::net {

struct MeetingConfig {
  std::uint64_t process = 0;     // see PeersConfig
  std::set<Rank> left_out = {};  // by [run] without
  Time nothing_to_rejoin{0};     // limit for an asking node without a member in contact
  Time told_so{0};               // the same limit after an arriving node has refused it
  // No process ends and restarts within this time. A hello that came longer than this before the
  // last peer may belong to an older process of that peer. The node asks that peer again.
  Time fresh{0};
  Time heard_within{0};  // a process that is heard again within this is alive
  // Limit for the others to connect once a member has begun with this node. The member is connected
  // with all, but some may only reach this node when they dial it: behind NAT, or a flooded port.
  // A node that begins without such a process takes it for one that has restarted.
  Time connect_within{0};
  bool lets_return = true;  // the strategy takes lost nodes back
  // Servers without followers. No other node has their state.
  std::set<Rank> servers = {};
};

class Meeting {
 public:
  // The state of this node's link to a peer.
  struct Contact {
    std::optional<std::uint64_t> process;  // peer's process of the link
    bool connected = false;
    bool heard = false;        // also heard within MeetingConfig::heard_within
    bool dropped = false;      // declared lost
    bool can_be_asked = true;  // this node can dial it
  };
  // `contact` is called for any other rank and must outlive this.
  Meeting(const Place& place, MeetingConfig config, std::function<Contact(Rank)> contact)
      : place_(place), config_(std::move(config)), contact_(std::move(contact)) {
    offers_[place_.self] = {};
  }

  // --- hellos of other nodes, all members of the job
  struct Answer {
    std::optional<Refusal> refusal;
    bool replaces = false;  // a new process: the peer first needs a new link
  };
  Answer hear(const Hello& hello, Time now) {
    if (config_.left_out.contains(hello.rank))
      return {Refusal{"[run] without leaves this site out of the run"}};
    if (hello.running)
      members_[hello.rank] = hello.life;
    else
      members_.erase(hello.rank);
    heard_[hello.rank] = now;
    if (is_member()) return hear_member(hello, now);
    if (!place_.comes_back()) return hear_arriving(hello);
    const Contact contact = contact_(hello.rank);
    // The link may belong to an earlier process.
    const bool other = open_ && contact.process && contact.process != hello.process;
    if (hello.running && open_ && hello.life != life_) {
      // The run that this node asked has ended, and so is its knowledge of it; another was resumed.
      other_life_ = true;
      return {Refusal{"this node waits for another life of the run", RefusalKind::later}};
    }
    if (hello.running) return {.refusal = {}, .replaces = other && !contact.heard};
    return {Refusal{"this node waits for a run to rejoin", RefusalKind::later}};
  }

  // Returns true if an arriving node must ask this member whether the member knows it.
  bool must_ask(const Hello& hello) const {
    const auto known = known_.find(hello.rank);
    return !open_ && !place_.comes_back() && hello.running &&
           contact_(hello.rank).process != hello.process &&
           !(known != known_.end() && known->second == hello.process);
  }

  void on_known(const Hello& hello) { known_[hello.rank] = hello.process; }

  // --- before the run
  struct Offer {                // a checkpoint to resume from
    std::uint64_t newest = 0;   // 0: none
    std::uint32_t members = 0;  // nodes of the job at that time
    bool has_before = false;    // the previous checkpoint can be resumed from, too
    View view = {};             // view in that checkpoint
  };
  void offer(Offer mine) {
    if (mine.view.live.empty())
      mine.view.live = RankList::below(mine.members > 0 ? mine.members : place_.size());
    offers_[place_.self] = std::move(mine);
  }

  bool holds_state() const { return offers_.at(place_.self).newest > 0; }
  // Returns true if the peer is connected or left out.
  bool here(Rank peer) const {
    if (config_.left_out.contains(peer)) return !place_.comes_back();
    return contact_(peer).connected;
  }

  bool knows_member() const { return !members_.empty(); }
  // Returns true if a member has begun with this arriving node.
  bool is_counted_on() const { return !counts_on_.empty(); }
  bool asks(Rank peer) const { return asking_.contains(peer); }
  // Returns true if this node can begin: all others are connected and begin with it, or a member
  // has begun with it and the limit for the others has passed.
  bool complete(Time now) {
    to_ask_.clear();
    bool all = true, any = false;
    for (Rank rank = 0; rank < place_.size(); ++rank) {
      if (rank == place_.self) continue;
      const bool is_here = here(rank);
      all &= is_here;
      any |= is_here;
    }
    if (is_counted_on()) {
      if (!counts_since_) counts_since_ = now;
      return all || now - *counts_since_ >= config_.connect_within;
    }
    if (place_.comes_back()) return any;
    if (!all) return all_here_since_.reset(), false;
    if (!all_here_since_) all_here_since_ = now;
    for (const auto& [rank, at] : heard_)
      if (const Contact contact = contact_(rank);
          contact.connected && contact.can_be_asked && at + config_.fresh < *all_here_since_)
        to_ask_.push_back(rank);
    if (!to_ask_.empty()) return false;
    // The others resume without this node. Once they have begun, it can ask for admission.
    const auto chosen = choose_checkpoint();
    if (!chosen || *chosen) return true;
    for (const auto& [rank, at] : heard_) to_ask_.push_back(rank);
    return false;
  }

  // Connected nodes that must be asked again whether they have begun.
  const std::vector<Rank>& to_ask() const { return to_ask_; }
  // Returns true if the connected nodes hold a state that they can resume.
  bool can_resume() const {
    if (!holds_state()) return false;
    const auto chosen = choose_checkpoint();
    return chosen && *chosen;
  }

  // Returns true if a connected server lacks its state. Then no other node can help.
  bool state_is_gone() const {
    const auto chosen = choose_checkpoint();
    return !chosen && chosen.error().kind == Error::Kind::state_lost;
  }

  // Returns the checkpoint to resume from; 0: the run begins. The result is the newest checkpoint
  // that a quorum of its view holds. Nodes without it were lost and must rejoin. A node outside
  // that view, or one that returned to it after its own checkpoint, is no holder: its checkpoint of
  // that number is from another moment. Null: this node must rejoin. Returns an Error if no quorum
  // holds one state, or if a server does not hold it. Nodes of one run are at most one checkpoint
  // apart. A node further behind was lost before, and a node further ahead belongs to another run.
  Result<std::optional<std::uint64_t>> choose_checkpoint() const {
    const auto has = [](const Offer& offer, std::uint64_t number) {
      return offer.newest == number || (offer.newest == number + 1 && offer.has_before);
    };
    const Offer& mine = offers_.at(place_.self);
    if (!counts_on_.empty()) {
      const std::uint64_t theirs = counts_on_.begin()->second;
      return has(mine, theirs) ? std::optional(theirs) : std::optional<std::uint64_t>{};
    }
    // For each checkpoint, newest first: the offer with the latest view.
    std::map<std::uint64_t, Rank, std::greater<>> candidates;
    for (const auto& [rank, offer] : offers_) {
      const auto [best, is_new] = candidates.try_emplace(offer.newest, rank);
      if (!is_new && offers_.at(best->second).view.epoch < offer.view.epoch) best->second = rank;
    }
    // Returns true if `rank`, with its offer, was in the run without a break until that view.
    const auto was_in = [](const View& view, Rank rank, const Offer& offer) {
      return view.has(rank) && view.since(rank) <= offer.view.epoch;
    };
    for (const auto& [newest, of] : candidates) {
      // A run that exists is not begun again, except before all nodes had the first checkpoint.
      if (newest == 0 && candidates.begin()->first > 1) break;
      const Offer* const candidate = &offers_.at(of);
      std::uint64_t oldest = newest;
      std::set<Rank> holders, returned;
      for (const auto& [rank, offer] : offers_) {
        if (newest > 0 && !was_in(candidate->view, rank, offer)) {
          // In the view without a checkpoint: the node counts for the quorum.
          if (candidate->view.has(rank) && is_here(rank)) returned.insert(rank);
          continue;
        }
        const bool is_ahead = newest > 0 && offer.newest == newest + 1 && offer.has_before &&
                              was_in(offer.view, of, *candidate);
        const bool is_behind = offer.newest + 1 == newest;
        if (offer.newest != newest && !is_ahead && !is_behind) continue;
        holders.insert(rank);
        oldest = std::min(oldest, offer.newest);
      }
      returned.insert(holders.begin(), holders.end());
      if (!holds_quorum(returned, *candidate)) continue;
      const auto lacks = [&](Rank server) {
        return candidate->newest > 0 && candidate->view.has(server) && !holders.contains(server);
      };
      if (const auto server = std::ranges::find_if(config_.servers, lacks);
          server != config_.servers.end()) {
        if (is_here(*server) || config_.left_out.contains(*server))
          return holds_no_state(*server, candidate->newest);
        break;
      }
      if (!holders.contains(place_.self) && mine.newest > newest) break;
      if (!holders.contains(place_.self) || !has(mine, oldest))
        return std::optional<std::uint64_t>{};
      return std::optional(oldest);
    }
    return differ();
  }

  // --- the run
  // Begins, resumes or asks.
  void open() {
    open_ = true;
    if (place_.comes_back()) {
      for (const auto& [rank, life] : members_)
        if (contact_(rank).connected) life_ = life;
    } else if (!counts_on_.empty()) {
      life_ = members_.at(counts_on_.begin()->first);
    } else {
      Rank lowest = 0;
      while (lowest < place_.self && !contact_(lowest).connected) ++lowest;
      life_ = lowest == place_.self ? config_.process : contact_(lowest).process.value_or(0);
    }
  }

  // Called when the members admit this node.
  void admit() { admitted_ = true; }
  bool is_member() const { return open_ && (admitted_ || !place_.comes_back()); }
  void end() { ending_ = true; }
  // Returns a number that identifies the run among runs begun at other moments. Equal on all
  // members. Valid after open().
  std::uint64_t life() const { return life_; }
  bool meets_member() const {
    return !other_life_ && std::ranges::any_of(members_, [this](const auto& member) {
      return contact_(member.first).connected;
    });
  }

  void told_to_resume() { told_to_resume_ = true; }
  // Returns true if this node asks and no member was in contact for long enough.
  bool nothing_to_rejoin(Time now) {
    if (other_life_ && !is_member()) return true;
    if (meets_member() || is_member() || !place_.comes_back()) {
      without_member_since_.reset();
      return false;
    }
    if (!without_member_since_) without_member_since_ = now;
    return now - *without_member_since_ >=
           (told_to_resume_ ? config_.told_so : config_.nothing_to_rejoin);
  }

  // --- new processes of peers, at a member
  // Returns true if the peer asks and no list admits it yet.
  bool is_stranger(Rank peer) const { return !strangers_.empty() && strangers_.contains(peer); }
  bool forget_stranger(Rank peer) { return strangers_.erase(peer) > 0; }  // admitted, or gone again
  bool has_restarted(Rank peer) const { return restarted_.contains(peer); }
  void replaced(Rank peer) { restarted_.erase(peer); }

 private:
  Answer hear_arriving(const Hello& hello) {
    if (hello.incarnation > 0 && !hello.running) {
      asking_.insert(hello.rank);
      return {Refusal{"no run is here that this site could rejoin", RefusalKind::resume}};
    }
    asking_.erase(hello.rank);
    if (hello.running)
      counts_on_[hello.rank] = hello.checkpointed.taken;
    else
      offers_[hello.rank] = {.newest = hello.checkpointed.saved,
                             .members = std::min(hello.members, place_.size()),
                             .has_before = hello.has_before,
                             .view = view_of(hello)};
    return {};
  }

  Answer hear_member(const Hello& hello, Time now) {
    const Contact contact = contact_(hello.rank);
    const bool met = contact.process == hello.process;
    if (ending_ && !met)
      return {Refusal{"the run has ended; its model and summary are in the folders of the others"}};
    if (hello.incarnation > 0) return hear_returning(hello, contact, now);
    // Two nodes that joined the run at different times may meet for the first time, or one may know
    // an earlier process of the other.
    if (hello.running && !met) {
      if (hello.life == life_)
        return {.refusal = {}, .replaces = contact.process && !contact.heard};
      return {Refusal{"the run was resumed without this site, which may ask to rejoin it",
                      RefusalKind::rejoin}};
    }
    if (met && contact.dropped && hello.running) return {declared_lost()};
    if (met && !contact.dropped) return {};
    if (auto refusal = wait_for_former(hello, contact, now)) return {std::move(refusal)};
    if (contact.process && contact.heard) return {};  // the link refuses it
    restarted_.insert(hello.rank);
    return {Refusal{fmt::format("the run goes on, and site {} may ask to rejoin it", hello.site),
                    RefusalKind::rejoin}};
  }

  Answer hear_returning(const Hello& hello, const Contact& contact, Time now) {
    const bool met = contact.process == hello.process;
    if (!contact.dropped && (met || (!contact.process && hello.running))) return {};
    if (contact.dropped && met && hello.running) return {declared_lost()};
    if (auto refusal = wait_for_former(hello, contact, now)) return {std::move(refusal)};
    if (contact.process && contact.heard && !contact.dropped) return {};  // the link refuses it
    if (!config_.lets_return)
      return {
          Refusal{"the [sync] kind takes no lost site back: end the others and start all with "
                  "--resume"}};
    strangers_.insert(hello.rank);
    return {.refusal = {}, .replaces = true};
  }

  Refusal declared_lost() const {
    return {"the others could not reach this site and have declared it lost",
            config_.lets_return ? RefusalKind::lost : RefusalKind::final};
  }

  // Refuses the new process while the former one is heard: the user started a second one, or the
  // former has just ended.
  std::optional<Refusal> wait_for_former(const Hello& hello, const Contact& contact, Time now) {
    if (!contact.process || *contact.process == hello.process || !contact.heard) {
      claims_.erase(hello.rank);
      return std::nullopt;
    }
    Claim& claim = claims_[hello.rank];
    if (claim.process != hello.process) claim = {hello.process, now};
    if (now - claim.since > 2 * config_.heard_within) return std::nullopt;
    return Refusal{
        fmt::format("another process of site {} is heard in this run; end one of them", hello.site),
        RefusalKind::later};
  }

  // Returns true if the node is connected or is this node.
  bool is_here(Rank rank) const { return rank == place_.self || contact_(rank).connected; }

  bool holds_quorum(const std::set<Rank>& holders, const Offer& of) const {
    const std::size_t live = of.newest > 0 ? of.view.live.size() : place_.size();
    if (place_.quorum.named.empty()) return holders.size() > live / 2;
    // The named site need not hold the checkpoint: its node is connected and has nothing newer.
    std::vector<Rank> all;
    for (Rank rank = 0; rank < (of.members > 0 ? of.members : place_.size()); ++rank)
      all.push_back(rank);
    return place_.quorum.decides(all, [&](Rank rank) { return is_here(rank); });
  }

  Error holds_no_state(Rank server, std::uint64_t newest) const {
    const auto offer = offers_.find(server);
    const std::string held =
        config_.left_out.contains(server) ? "[run] without leaves it out"
        : offer == offers_.end() || offer->second.newest == 0
            ? "its folder has no checkpoint"
            : fmt::format("its folder has checkpoint {}", offer->second.newest);
    return state_lost(fmt::format(
        "the state of the server, site {} (rank {}), is gone: {}, and the others have checkpoint "
        "{}, "
        "which does not hold it. Bring the folder of site {} back, or start all sites with --force "
        "to begin anew; with [server] standby_every other sites keep a copy",
        place_.member(server).site, server, held, newest, place_.member(server).site));
  }

  Error differ() const {
    std::string text = "the sites hold different states of the run:";
    for (const auto& [rank, offer] : offers_)
      text += fmt::format(" {} {},", place_.member(rank).site,
                          offer.newest > 0 ? fmt::format("checkpoint {}", offer.newest) : "none");
    text.back() = '.';
    return unavailable(text +
                       " Was a site started in another folder? Bring its folder back, or start all "
                       "sites with --force to begin anew");
  }

  // Limits the number of members: a peer can send any.
  View view_of(const Hello& hello) const {
    const std::uint32_t members = std::min(hello.members, place_.size());
    View view{.epoch = hello.epoch, .live = RankList::below(members)};
    for (const Rank rank : hello.lost) view.live.erase(rank);
    for (const auto& [rank, epoch] : hello.returned) view.returned[rank] = epoch;
    return view;
  }

  const Place place_;
  const MeetingConfig config_;
  const std::function<Contact(Rank)> contact_;
  bool open_ = false, admitted_ = false, ending_ = false;
  std::uint64_t life_ = 0;
  std::map<Rank, Offer> offers_;             // from hellos before the run
  std::map<Rank, std::uint64_t> members_;    // members' lives, from their last hellos
  std::map<Rank, std::uint64_t> known_;      // processes that have this one in their run
  std::map<Rank, std::uint64_t> counts_on_;  // checkpoints of members that have and await this node
  std::set<Rank> asking_;                    // filled while this node arrives
  std::set<Rank> strangers_, restarted_;
  struct Claim {
    std::uint64_t process = 0;
    Time since{0};
  };
  std::map<Rank, Claim> claims_;  // new processes, while the former is heard
  std::optional<Time> without_member_since_;
  bool told_to_resume_ = false, other_life_ = false;
  std::map<Rank, Time> heard_;  // last hello, while this node arrives
  std::optional<Time> all_here_since_, counts_since_;
  std::vector<Rank> to_ask_;
};

}  // namespace longhaul::net
