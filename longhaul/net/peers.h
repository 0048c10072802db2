#pragma once
// All peers of a node. The lower rank of two nodes dials the other, or the node that cannot be
// dialled does (PeersConfig::dials_out). Attempts repeat with a growing pause. Two nodes that
// cannot be dialled meet at a relay (relay.h). Connections of strangers are refused. A peer that is
// silent too long is reported (Events::on_silent); membership then decides.
//
// Meeting decides which nodes are admitted, and the answer to a new process of a peer. A new
// process gets a new link, because messages to or from the previous process are void. Until the
// members admit the process, only messages of membership pass. The process dials all other nodes
// itself.
//
// If a link receives nothing for a third of the silence timeout, the node dials the peer again. It
// keeps the old connection, which can hang long after an outage has ended.
//
// With credentials, every connection uses TLS, and best-effort datagrams are sealed with keys of
// the connection. New connections use the key files that exist when they begin.
//
// Callers that have not sent their hello occupy at most Callers::kMost places, each for
// Handshake::kTimeout and with 4 KiB, or about 60 KiB with TLS; see callers.h. Hosts of members are
// the hosts that their addresses resolve to when this node begins to connect, and those of their
// connections. The socket of a refused caller stays open until the caller has read the reason;
// tcp.cpp has the limits. One thread: the loop's.
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "longhaul/core/node.h"
#include "longhaul/net/datagrams.h"
#include "longhaul/net/handshake.h"
#include "longhaul/net/meeting.h"
#include "longhaul/net/relay.h"
#include "longhaul/secure/credentials.h"

namespace longhaul::net {

struct PeersConfig {
  std::uint64_t job_hash = 0;
  std::uint64_t process = 0;             // random number that identifies a process of the node
  std::vector<Address> addresses;        // by rank
  std::optional<Address> bind = {};      // listening address of this node, see listening_address()
  std::vector<JobKey> job_keys = {};     // keys behind job_hash, by name; for refusals
  std::vector<SharedInput> inputs = {};  // inputs of this node, for comparison with the others
  Words words = {};    // introductions (hello.h) of this node, and known ones of others
  int listening = -1;  // inherited listening socket; -1: none
  // By rank: the node is behind NAT or a firewall, so that nodes of other sites cannot dial it.
  // Empty: none.
  std::vector<bool> dials_out = {};
  // By peer, if neither that peer nor this node can be dialled: the relays between them (relay.h),
  // in order of preference. Equal on both nodes.
  std::map<Rank, std::vector<Rank>> relays = {};
  std::set<Rank> left_out =
      {};  // nodes outside the run: no node waits for them, and they are lost from the start
  std::uint32_t streams = 1;    // parallel connections to each peer, for bulk
  std::string congestion = {};  // congestion control of all connections; "": the system's
  // Maximum bulk payload by peer, bytes per second, until a member is lost; other peers: unlimited.
  std::map<Rank, double> pacing = {};
  bool dscp = false;       // marks the stream for control, see kControlDscp
  bool datagrams = false;  // best-effort messages use UDP if it reaches the peer
  // Proves this site to its peers, and encrypts; null: all traffic is plain text.
  std::shared_ptr<secure::Credentials> credentials = {};
  Time connect_timeout =
      std::chrono::seconds(60);  // limit for all connections; the run fails afterwards
  // A node that asks to rejoin gives up after this time without a reachable member.
  Time nothing_to_rejoin = std::chrono::seconds(3);
  bool lets_return = true;                           // the strategy admits lost nodes again
  std::set<Rank> servers = {};                       // servers without followers, see MeetingConfig
  Time first_retry = std::chrono::milliseconds(50);  // first pause before dialling again; doubles
  Time max_retry = std::chrono::seconds(1);
  Time heartbeat = std::chrono::seconds(1);
  Time silence_timeout = std::chrono::seconds(10);  // time without a byte until a peer is silent
};

class Peers final : private Handshake::Host, private Link::Events, private Datagrams::Events {
 public:
  // DSCP of the stream for control: class selector 5. The two classes above it are for the
  // network's own control (RFC 4594), and networks remove them.
  static constexpr unsigned kControlDscp = 40;
  class Events {
   public:
    virtual ~Events() = default;
    virtual void on_message(Rank from, const Message&) = 0;
    virtual void on_writable(Rank peer, unsigned service_class) = 0;
    virtual void on_silent(Rank peer, bool silent, const std::string& trouble) = 0;
    virtual bool on_checkpoint(Rank peer, std::uint64_t number) = 0;  // see Link::Events
    virtual void on_refused(const Error&) = 0;                        // a peer refuses this node
    // Called when a run exists without this process; its node can ask to rejoin. `lost`: the
    // members of its own run report that they have declared it lost.
    virtual void on_left_out(const Error& why, bool lost) { (void)lost, on_refused(why); }
    // Called when this node can rejoin no run: the other nodes resume, and need it.
    virtual void on_resumes(const Error& why) { on_refused(why); }
    virtual void on_rejoin_request(Rank) = 0;           // a new process of a node asks to join
    virtual void on_note(const std::string& text) = 0;  // one line for the user
  };
  // Loop and events must outlive this.
  Peers(Loop&, PeersConfig, const Place&, Events&);
  ~Peers() override;

  // Opens this node's port and returns its number, also if the config says 0. Retries for at most
  // connect_timeout while this machine lacks the address; `failed` ends the retries.
  Result<std::uint16_t> listen(const std::function<bool()>& failed = [] { return false; });
  bool listening() const { return listener_ != nullptr; }
  std::uint16_t port() const { return listener_->port(); }  // after listen(); any thread
  // Sets the addresses, by rank, if unknown at construction. Must be called before connect_all().
  void set_addresses(std::vector<Address> addresses) { config_.addresses = std::move(addresses); }
  // Waits until all peers are connected; a rejoining node waits for one. After connect_timeout, the
  // connected nodes resume if they hold a state that needs no other node (choose_checkpoint()). A
  // node with a state waits for that until Place::majority_wait. Returns an Error that lists each
  // missing peer and the reason. `failed` ends the wait early.
  Status connect_all(const std::function<bool()>& failed);
  // Ends this node before open(), for a reason that holds for all sites. Sends the reason to all
  // nodes in a last hello, refuses calls with it, and waits at most `within` until all have
  // received it.
  void leave(const Error& why, Time within);
  // Returns the reason of another node that leaves or refuses this one; for leave().
  const std::optional<Error>& last_word() const { return last_word_; }
  // Delivers messages and measures silence from now on.
  void open();
  // Called periodically.
  void tick();
  // Announces this node's checkpoints.
  void announce(CheckpointProgress);
  // Announces, before connect_all(), the checkpoint that this node could resume from.
  void offer(Meeting::Offer);
  // Sets the clock of this node's run, for hellos after open().
  void tell_time(std::function<Time()> elapsed) { identity_.elapsed = std::move(elapsed); }
  // Returns the introductions of all nodes, including this one. Valid after connect_all().
  const Words& words() const { return identity_.words; }
  // Makes all links resume from that checkpoint. Must be called before open().
  void restore_checkpoint(std::uint64_t number);
  const Meeting& meeting() const { return meeting_; }
  void admitted();                                // called when the members have let this node in
  std::uint64_t newest_taken_checkpoint() const;  // highest number of any peer
  // Returns the start of the others' run on this node's loop, possibly negative: the median of the
  // running peers' values. Empty if no peer has reported one.
  std::optional<Time> run_began() const;
  // Returns true if all other nodes run and have that checkpoint on disk.
  bool saved_by_all(std::uint64_t number) const;
  // `members`: number of nodes in the job when the state was saved; later nodes are not in it.
  void state(Archive&, std::uint32_t members);
  // Called when the job continues without that peer.
  void drop(Rank);
  void end_pacing();
  // Called when the members have admitted a new incarnation of the peer.
  void admit(Rank);
  void send(const Send& send) {
    if (meeting_.is_stranger(send.to) && !Node::is_of_membership(send.message)) return;
    if (datagrams_.takes(send.to, send.message, send.service))
      return datagrams_.send(send.to, send.message, send.service);
    links_.at(send.to)->send(send.message, send.service);
  }
  // Returns the peers that this node waits for: to connect, before open(); to finish, after
  // shut_down().
  std::vector<Rank> awaited() const;
  // Returns members that were silent for three heartbeats, each with the time since it was heard.
  std::vector<std::pair<Rank, Time>> quiet() const;
  bool idle() const {  // true if the other nodes have all messages
    return std::ranges::all_of(links_, [](const auto& entry) {
      return !entry.second->connected() || entry.second->idle();
    });
  }
  // Sends a bye to all nodes and waits at most `within` until all messages are acknowledged.
  void shut_down(Time within);
  std::size_t handshakes() const { return handshakes_.size(); }  // in progress
  const Datagrams::Figures& datagrams() const { return datagrams_.figures(); }
  bool relayed(Rank peer) const { return config_.relays.contains(peer); }
  void break_connections();  // for tests

 private:
  // Handshake::Host
  Loop& loop() override { return loop_; }
  const Identity& identity() const override { return identity_; }
  Link& link(Rank rank) override { return *links_.at(rank); }
  std::optional<Refusal> accepts(const Hello&, bool incoming) override;
  bool must_ask(const Hello& hello) override { return meeting_.must_ask(hello); }
  void on_introduced(Words) override;
  void on_known(const Hello& hello) override { meeting_.on_known(hello); }
  std::optional<Refusal> refuses_relay(const Hello&) override;
  void on_relay_wanted(Handshake&, const Hello&, std::shared_ptr<Connection>) override;
  void on_relayed(Handshake&, std::unique_ptr<Stream>, bool dials) override;
  void on_handshake_done(Handshake&, Rank, std::uint32_t stream) override;
  void on_handshake_failed(Handshake&, std::optional<RefusalKind> refused, const Error&) override;
  // Link::Events
  void on_message(Rank from, const Message& m) override { events_.on_message(from, m); }
  void on_writable(Rank peer, unsigned c) override { events_.on_writable(peer, c); }
  void on_disconnected(Rank peer, std::uint32_t stream, const Error& why) override;
  bool on_checkpoint(Rank peer, std::uint64_t number) override {
    return events_.on_checkpoint(peer, number);
  }

  // Datagrams::Events
  void on_datagram(Rank from, const Message&) override;
  void on_datagram_sent(Rank peer, unsigned c) override { events_.on_writable(peer, c); }
  bool on_datagrams_blocked(Rank peer, std::vector<Frame> queued) override;

  void meet_by_datagrams(Rank, std::uint32_t stream);
  std::unique_ptr<Stream> secured(std::unique_ptr<Stream>,
                                  const std::optional<Handshake::Dialled>&);
  void refresh_keys();
  void warn_of_expiry();
  using StreamKey = std::pair<Rank, std::uint32_t>;  // (peer, stream)
  void dial(StreamKey, bool anew = false);
  void dial_later(StreamKey);
  // Returns the node that is dialled in place of that peer.
  std::optional<Rank> relay_of(StreamKey) const;
  void tick_relay();
  void tell_relayed();
  void start_handshake(std::unique_ptr<Stream>, std::optional<Handshake::Dialled>);
  // Returns false if there is no room and no other caller can be refused for it.
  bool make_room_for(const Caller&);
  void turn_away(std::unique_ptr<Stream>);
  bool is_host_of_member(const std::string& host) const;
  void learn_hosts(Rank from);
  void on_rejected(const Error&);
  void watch(Rank, Link&);
  std::unique_ptr<Link> make_link(Rank);
  void replace_link(Rank);
  bool dials_out(Rank rank) const { return !config_.dials_out.empty() && config_.dials_out[rank]; }
  bool can_dial(Rank) const;
  bool is_first_to_dial(Rank) const;  // whether this node is the one to dial
  bool should_dial(Rank) const;
  Meeting::Contact contact(Rank) const;
  void probe();
  void dial_beside(Rank, const Link&);
  void ask_again(Rank);
  void on_told_to_rejoin(RefusalKind, const Error&);
  void hear_last_word(Error);
  void on_differs(Rank, bool dialled, const Error& why);
  bool all_have_heard() const;
  Error missing() const;
  std::string waits_for() const;
  std::string name(Rank) const;

  Loop& loop_;
  PeersConfig config_;
  const Place place_;
  Identity identity_;
  Events& events_;
  std::unique_ptr<Listener> listener_;
  Datagrams datagrams_;
  std::map<Rank, std::unique_ptr<Link>> links_;
  Meeting meeting_;
  std::set<Rank> rejoined_;     // peers that have rejoined before
  std::map<Rank, Time> began_;  // start of each running peer's run, on this loop
  Timer probe_;
  std::vector<std::unique_ptr<Link>> retired_;  // earlier incarnations', until the next tick
  std::set<std::shared_ptr<Handshake>> handshakes_;
  std::map<Rank, std::set<std::string>> hosts_;  // by member: hosts that its address resolved to
  std::map<Rank, std::string> called_from_;      // by peer: the host of its newest connection
  std::map<StreamKey, Time> retry_after_;        // pause before the next attempt
  std::map<StreamKey, Timer> dials_;
  std::map<Rank, Time> refused_since_;  // time of the first refused connection
  std::map<Rank, Time> dialled_anew_;   // time of the last extra dial, next to a silent connection
  Time ticked_{0};
  Relay relay_;                                  // for others
  std::map<StreamKey, std::size_t> relay_turn_;  // number of failed relays
  std::map<Rank, Rank> said_relayed_;            // by peer: the relay that the user knows of
  std::set<std::pair<Rank, Rank>> said_relays_;
  std::map<Rank, std::string> last_errors_;  // reason why a peer is not connected
  std::set<Rank> silent_;                    // reported to events_
  std::uint64_t dialled_ = 0;
  // Notes about strangers: each reason once a minute, kNoteBurst at once, then one per second.
  // Suppressed notes are counted.
  static constexpr Time kSameNote = std::chrono::minutes(1);
  static constexpr std::size_t kMostNoted = 32;
  std::map<std::string, Time> noted_;  // by reason: time of the last note
  static constexpr double kNoteBurst = 20;
  double note_tokens_ = kNoteBurst;
  Time note_at_{0};
  std::uint64_t suppressed_notes_ = 0;
  bool open_ = false, shutting_down_ = false, leaving_ = false;
  std::optional<Error> last_word_;
  std::set<Rank> heard_why_;  // peers that have the reason why this node leaves, or have ended
  bool warned_congestion_ = false;
  std::string key_trouble_;              // last trouble reported
  std::map<Rank, std::string> refused_;  // last reported reason of a failed dialled handshake
  // Pending dials can end after this object; they check here whether it still exists.
  std::shared_ptr<Peers*> alive_ = std::make_shared<Peers*>(this);
};

}  // namespace longhaul::net
