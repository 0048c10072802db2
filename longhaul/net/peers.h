#pragma once
// All peers of a node. Of two nodes the lower rank dials the other, or the one that cannot be
// dialled (PeersConfig::dials_out), again and again with a pause that grows; two that cannot be
// dialled meet at a third (relay.h). Connections of
// strangers are refused. A peer that is silent for too long is reported (Events::on_silent);
// membership decides what follows.
//
// Who is admitted, and what a new process of a peer is told: Meeting. A new process gets a new
// link, because messages to or from the former one are void. Until the members have let it in, only
// messages of membership pass. It dials all the others itself.
//
// A link that brings nothing for a third of the silence that is allowed is dialled anew beside the
// old connection, which may hang for long after an outage that has ended.
//
// With credentials every connection is one of TLS, and best-effort datagrams are sealed with keys
// of the connection. New connections use the files that are there when they begin.
//
// Strangers: callers wait for their hello at Callers::kMost places, each for Handshake::kTimeout
// and 4 KiB, with TLS about 60 KiB; callers.h says who gets a place. Hosts of members are those
// that their addresses resolve to when this node begins to connect, and those they have called
// from. Where a caller is refused its socket stays until it has read why, tcp.cpp says how many and
// for how long. One thread: the loop's.
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
  std::uint64_t process = 0;             // a random number that tells processes of a node apart
  std::vector<Address> addresses;        // by rank
  std::optional<Address> bind = {};      // where this node listens, see listening_address()
  std::vector<JobKey> job_keys = {};     // what job_hash is of, by name; for refusals
  std::vector<SharedInput> inputs = {};  // what this node has read, for the others to compare
  Words words = {};    // introductions (hello.h): this node's, and others' it knows
  int listening = -1;  // a socket that this node inherited for its address
  // By rank: the node is behind NAT or a firewall, nodes of other sites cannot dial it. Empty:
  // none.
  std::vector<bool> dials_out = {};
  // By peer that neither can dial nor be dialled: the nodes through which it is reached (relay.h),
  // the first that works. The same at both.
  std::map<Rank, std::vector<Rank>> relays = {};
  std::set<Rank> left_out =
      {};                     // of the run: nobody waits for them, and they are lost from its start
  std::uint32_t streams = 1;  // parallel connections to each peer, for bulk
  std::string congestion = {};  // control of all connections; "": the system's
  // Most payload bytes per second of bulk, by peer, until a member is lost; others: unlimited.
  std::map<Rank, double> pacing = {};
  bool dscp = false;       // the stream for control is marked, see kControlDscp
  bool datagrams = false;  // best-effort messages go by UDP where that passes
  // Proves this site to its peers, and encrypts; null: everything goes in plain text.
  std::shared_ptr<secure::Credentials> credentials = {};
  Time connect_timeout =
      std::chrono::seconds(60);  // all must be connected within this, or the run fails
  // Of a node that asks to rejoin: without a member in reach for so long it gives up.
  Time nothing_to_rejoin = std::chrono::seconds(3);
  bool lets_return = true;                           // the strategy takes lost nodes back
  std::set<Rank> servers = {};                       // without followers, see MeetingConfig
  Time first_retry = std::chrono::milliseconds(50);  // first pause before dialling again; doubles
  Time max_retry = std::chrono::seconds(1);
  Time heartbeat = std::chrono::seconds(1);
  Time silence_timeout = std::chrono::seconds(10);  // without a byte: the peer is silent
};

class Peers final : private Handshake::Host, private Link::Events, private Datagrams::Events {
 public:
  // DSCP of the stream for control: class selector 5. The two above it belong to the network's own
  // control (RFC 4594), and networks take them away.
  static constexpr unsigned kControlDscp = 40;
  class Events {
   public:
    virtual ~Events() = default;
    virtual void on_message(Rank from, const Message&) = 0;
    virtual void on_writable(Rank peer, unsigned service_class) = 0;
    virtual void on_silent(Rank peer, bool silent, const std::string& trouble) = 0;
    virtual bool on_checkpoint(Rank peer, std::uint64_t number) = 0;  // see Link::Events
    virtual void on_refused(const Error&) = 0;                        // a peer refuses this node
    // A run is there that this process is not in; its node may ask to rejoin. `lost`: the members
    // of its own run say so, which have declared it lost.
    virtual void on_left_out(const Error& why, bool lost) { (void)lost, on_refused(why); }
    // No run goes on that this node could rejoin: the others resume, and need it.
    virtual void on_resumes(const Error& why) { on_refused(why); }
    virtual void on_rejoin_request(Rank) = 0;           // a new process of a node asks to be let in
    virtual void on_note(const std::string& text) = 0;  // for the user, one line
  };
  // Loop and events outlive this.
  Peers(Loop&, PeersConfig, const Place&, Events&);
  ~Peers() override;

  // Opens this node's port; the port it really has, if that is 0 in the config. While the machine
  // has no address of that name it tries again, for connect_timeout at most; `failed` ends that.
  Result<std::uint16_t> listen(const std::function<bool()>& failed = [] { return false; });
  bool listening() const { return listener_ != nullptr; }
  std::uint16_t port() const { return listener_->port(); }  // after listen(); any thread
  // Where others listen, if unknown at construction; before connect_all().
  void set_addresses(std::vector<Address> addresses) { config_.addresses = std::move(addresses); }
  // Waits until all peers are connected; for a rejoining node, until any is. When the wait is over,
  // those who are there resume if they hold a state that needs no others (choose_checkpoint); who
  // holds a state waits for them until Place::majority_wait is over. Error: names each missing peer
  // and why. `failed` ends the wait early.
  Status connect_all(const std::function<bool()>& failed);
  // Before open(): this node ends for a reason that holds for all sites. Sends it to all in a last
  // hello, refuses calls with it, and waits until all have it, `within` at most.
  void leave(const Error& why, Time within);
  // The reason of another node that leaves, or refuses this one; for leave().
  const std::optional<Error>& last_word() const { return last_word_; }
  // From now on messages are delivered and silence counts.
  void open();
  // Called periodically.
  void tick();
  // Announces this node's checkpoints.
  void announce(CheckpointProgress);
  // The same before connect_all(): the checkpoint that this node could resume from.
  void offer(Meeting::Offer);
  // How to tell peers, from open() on, for how long this node's run has been going on.
  void tell_time(std::function<Time()> elapsed) { identity_.elapsed = std::move(elapsed); }
  // What all have said of themselves, this node included; after connect_all().
  const Words& words() const { return identity_.words; }
  // All resume from that checkpoint; before open().
  void restore_checkpoint(std::uint64_t number);
  const Meeting& meeting() const { return meeting_; }
  void admitted();                                // this node is let in
  std::uint64_t newest_taken_checkpoint() const;  // that is taken
  // When the run of the others began, on this node's loop, which may be before its zero: the median
  // of what those say that run. Nothing: none has said so.
  std::optional<Time> run_began() const;
  // Whether all others run and have that checkpoint on disk.
  bool saved_by_all(std::uint64_t number) const;
  // `members`: nodes of the job that the state is of; later ones were added since.
  void state(Archive&, std::uint32_t members);
  // The job continues without that peer.
  void drop(Rank);
  void end_pacing();
  // The members have admitted a new incarnation of the peer.
  void admit(Rank);
  void send(const Send& send) {
    if (meeting_.is_stranger(send.to) && !Node::is_of_membership(send.message)) return;
    if (datagrams_.takes(send.to, send.message, send.service))
      return datagrams_.send(send.to, send.message, send.service);
    links_.at(send.to)->send(send.message, send.service);
  }
  // Peers that this node waits for: to be connected, before open(); to part, after shut_down() has
  // begun.
  std::vector<Rank> awaited() const;
  // Those that were not heard for three heartbeats, since when; of the run's members alone.
  std::vector<std::pair<Rank, Time>> quiet() const;
  // Sends a bye to all and waits until all messages are acknowledged, `within` at most.
  bool idle() const {  // the others have all that was sent
    return std::ranges::all_of(links_, [](const auto& entry) {
      return !entry.second->connected() || entry.second->idle();
    });
  }
  void shut_down(Time within);
  std::size_t handshakes() const { return handshakes_.size(); }  // that have not ended
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
  // The node that is dialled in place of that peer.
  std::optional<Rank> relay_of(StreamKey) const;
  void tick_relay();
  void tell_relayed();
  void start_handshake(std::unique_ptr<Stream>, std::optional<Handshake::Dialled>);
  // False: there is none, and no other caller has to go.
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
  bool is_first_to_dial(Rank) const;  // this node, of it and that peer
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
  std::set<Rank> rejoined_;     // have rejoined once
  std::map<Rank, Time> began_;  // their runs, on this loop; of those that run
  Timer probe_;
  std::vector<std::unique_ptr<Link>> retired_;  // of incarnations before; until the next tick
  std::set<std::shared_ptr<Handshake>> handshakes_;
  std::map<Rank, std::set<std::string>> hosts_;  // by member: what its address resolved to
  std::map<Rank, std::string> called_from_;      // by peer: the host of its newest connection
  std::map<StreamKey, Time> retry_after_;        // before dialling again
  std::map<StreamKey, Timer> dials_;
  std::map<Rank, Time> refused_since_;  // nobody listens at the peer's address
  std::map<Rank, Time> dialled_anew_;   // beside a connection that brings nothing
  Time ticked_{0};
  Relay relay_;                                  // for others
  std::map<StreamKey, std::size_t> relay_turn_;  // how many relays did not work
  std::map<Rank, Rank> said_relayed_;            // by peer: the relay that the user was told of
  std::set<std::pair<Rank, Rank>> said_relays_;
  std::map<Rank, std::string> last_errors_;  // why a peer is not connected
  std::set<Rank> silent_;                    // reported to events_
  std::uint64_t dialled_ = 0;
  // Notes about strangers: each reason once a minute, kNoteBurst at once, then one a second; the
  // others are counted.
  static constexpr Time kSameNote = std::chrono::minutes(1);
  static constexpr std::size_t kMostNoted = 32;
  std::map<std::string, Time> noted_;  // reason: when
  static constexpr double kNoteBurst = 20;
  double note_tokens_ = kNoteBurst;
  Time note_at_{0};
  std::uint64_t suppressed_notes_ = 0;
  bool open_ = false, shutting_down_ = false, leaving_ = false;
  std::optional<Error> last_word_;
  std::set<Rank> heard_why_;  // have the reason why this node leaves, or are gone
  bool warned_congestion_ = false;
  std::string key_trouble_;              // the last that was reported
  std::map<Rank, std::string> refused_;  // why a dialled handshake failed, as last reported
  // Pending dials may end after this object; they check here whether it still exists.
  std::shared_ptr<Peers*> alive_ = std::make_shared<Peers*>(this);
};

}  // namespace longhaul::net
