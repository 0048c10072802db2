#pragma once
// All there is between this node and one peer: what is to be sent, what has come, and the parallel
// connections of the moment. Connections come and go; a Link loses and doubles nothing.
//
// The last stream is for messages of the highest priority and acknowledgements: where the receiver
// is slower than the network, megabytes of bulk wait in its kernel, and nothing overtakes them.
//
// What a peer can make it keep: Outbox and Inbox have their bounds. How fast: after kFramesPerTick
// frames a connection is not read until the next tick().
//
// Checkpoints: each node fixes its state (with its links) at a moment of its own, and says so on
// every stream before anything later; whoever hears it first fixes its own before it reads on. So
// no state holds what another has not yet said (Lai and Yang, "On distributed snapshots", 1987);
// what was said and not yet heard stands in the senders' Outboxes.
// One thread: the loop's.
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "longhaul/net/connection.h"
#include "longhaul/net/hello.h"
#include "longhaul/net/inbox.h"
#include "longhaul/net/outbox.h"

namespace longhaul::net {

class Link final : public Connection::Owner {
 public:
  static constexpr unsigned kFramesPerTick = 20000;
  class Events {
   public:
    virtual ~Events() = default;
    virtual void on_message(Rank from, const Message&) = 0;
    virtual void on_writable(Rank peer, unsigned service_class) = 0;  // bulk only
    virtual void on_disconnected(Rank peer, std::uint32_t stream, const Error& why) = 0;
    // The peer has taken a checkpoint that this node has not: it must take it before anything that
    // the peer says later. True: done; false: not yet, announce() will tell.
    virtual bool on_checkpoint(Rank peer, std::uint64_t number) = 0;
  };
  // `streams` for bulk; there is one more.
  Link(Rank peer, std::uint32_t streams, Events& events)
      : peer_(peer), events_(events), streams_(streams + 1) {}
  ~Link() override;

  void send(const Message&, const Service&);
  // A connection on which the peer has said this hello; ends the one before it. An Error: the peer
  // has what it cannot have, another process of it is known, or it is dropped: the caller refuses.
  Status check_hello(const Hello&) const;
  // The packets of that stream, if it is connected: see Stream::mark().
  void set_dscp(std::uint32_t stream, unsigned dscp) {
    if (const auto& connection = streams_[stream].connection) connection->set_dscp(dscp);
  }
  // False: the peer has a checkpoint that this node must take first; it may call again soon.
  bool can_attach(const Hello&);
  Status attach(std::shared_ptr<Connection>, const Hello&, Time now);
  std::vector<Acknowledged> have() const { return inbox_.all(); }
  // Of which process of the peer this is; nothing before the first connection.
  const std::optional<std::uint64_t>& process() const { return process_; }
  // Until this is called nothing is read but hellos: the peer's messages wait with the peer.
  void open(Time now);
  // This node's checkpoints, said to the peer before anything that is not in them.
  void announce(CheckpointProgress);
  CheckpointProgress checkpointed() const { return mine_; }
  CheckpointProgress peer_checkpointed() const { return theirs_; }
  bool announced() const { return announced_; }  // the peer runs and has said so
  // Both go on from that checkpoint; before open().
  void restore_checkpoint(std::uint64_t number);
  // What a checkpoint holds of a link; while nothing is read or written.
  void state(Archive&);
  // The job goes on without the peer: nothing is sent to it or taken from it any more.
  void drop();

  // Every now and then: notes progress, and has a ping sent where nothing was for `heartbeat`.
  void tick(Time now, Time heartbeat);
  Time last_heard() const { return last_heard_; }
  std::uint32_t streams() const { return std::uint32_t(streams_.size()); }
  bool connected() const;  // by all streams
  bool connected(std::uint32_t stream) const { return streams_[stream].connection != nullptr; }
  bool dropped() const { return dropped_; }
  void disconnect(const Error& why);

  // Nothing more is to be said; both have it all once settled() on either side.
  void say_bye();
  bool settled() const { return peer_done_ || dropped_ || (outbox_.idle() && bye_written_); }
  bool peer_is_done() const { return peer_done_; }

 private:
  struct StreamState {  // one of the streams
    std::shared_ptr<Connection> connection;
    std::uint64_t received = 0, sent = 0;  // bytes, at the last tick
    Time last_written{0};
    unsigned frames = 0;  // since the last tick
    bool ping = false;
    bool announce = false;              // before any other frame
    bool waits_for_checkpoint = false;  // of this node: nothing is read before it is taken
  };
  // The numbers of a class that on_writable was called for: streams end their writes in any order.
  class FirstReports {
   public:
    bool first(std::uint64_t number);
    void state(auto& archive) { archive(below_, above_); }

   private:
    std::uint64_t below_ = 0;
    std::set<std::uint64_t> above_;  // fewer than the Outbox has out
  };

  void on_frame(Connection&, Frame&&) override;
  std::optional<Frame> to_write(Connection&) override;
  void on_written(Connection&, const Frame&) override;
  void on_end(Connection&, const Error& why) override;
  std::optional<Frame> control();  // the next of the last stream
  Status take(Connection&, Frame&&);
  Status on_peer_checkpoint(Connection&, CheckpointProgress);
  StreamState& stream_of(const Connection&);
  void on_stream_lost(StreamState&);
  void resume_reading();
  void report_writable(const Frame&);
  Status acknowledged(const Acknowledged&);
  Status check_checkpoint(CheckpointProgress) const;
  void wake();

  const Rank peer_;
  Events& events_;
  Outbox outbox_;
  Inbox inbox_;
  std::vector<StreamState> streams_;
  std::optional<std::uint64_t> process_;
  std::array<FirstReports, Service::kClasses> reported_;
  CheckpointProgress mine_, theirs_;
  Time last_heard_{0};
  bool open_ = false, dropped_ = false, announced_ = false;
  bool bye_ = false, bye_written_ = false, peer_done_ = false;
};

}  // namespace longhaul::net
