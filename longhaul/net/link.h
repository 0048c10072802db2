#pragma once
// The state between this node and one peer: Outbox, Inbox and the current parallel connections. A
// Link neither loses nor duplicates a message when connections break and are replaced.
//
// The last stream carries only messages of the highest priority and acknowledgements. A slow
// receiver may have megabytes of bulk waiting in its kernel; on the same stream control messages
// would wait behind them.
//
// Bounds: those of Outbox and Inbox; after kFramesPerTick frames a connection is not read until the
// next tick().
//
// Checkpoints: each node fixes its state (with its links) at its own time and announces that on
// every stream before any later message. A node that receives the announcement first fixes its own
// state before it reads on. So no state contains a message that its sender's state has not sent
// (Lai and Yang, "On distributed snapshots", 1987); messages in flight are in the senders'
// Outboxes.
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
    // The peer has taken a checkpoint that this node lacks. This node must take it before it
    // handles later messages of the peer. True: done; false: not yet, announce() follows.
    virtual bool on_checkpoint(Rank peer, std::uint64_t number) = 0;
  };
  // `streams` for bulk; there is one more. `comes_back`: this node has returned to a run. Until all
  // have let it in they take checkpoints without it, so that a peer may be any number ahead.
  Link(Rank peer, std::uint32_t streams, Events& events, bool comes_back = false)
      : peer_(peer), comes_back_(comes_back), events_(events), streams_(streams + 1) {}
  ~Link() override;

  void send(const Message&, const Service&);
  // Error: the hello acknowledges what was never sent, comes from another process of the peer, or
  // the peer is dropped; the caller refuses it.
  Status check_hello(const Hello&) const;
  // Sets the DSCP of that stream's packets, if it is connected.
  void set_dscp(std::uint32_t stream, unsigned dscp) {
    if (const auto& connection = streams_[stream].connection) connection->set_dscp(dscp);
  }
  // False: this node must take the peer's checkpoint first; the peer may dial again soon.
  bool can_attach(const Hello&);
  // Takes over a connection after its hello; ends the stream's previous connection.
  Status attach(std::shared_ptr<Connection>, const Hello&, Time now);
  std::vector<Acknowledged> have() const { return inbox_.all(); }
  // The peer's process; empty before the first connection.
  const std::optional<std::uint64_t>& process() const { return process_; }
  // Before this call only hellos are read; the peer keeps its messages.
  void open(Time now);
  // Tells the peer this node's checkpoints, before any message that is not in them.
  void announce(CheckpointProgress);
  CheckpointProgress checkpointed() const { return mine_; }
  CheckpointProgress peer_checkpointed() const { return theirs_; }
  bool announced() const { return announced_; }  // the peer runs and has announced its checkpoints
  // Both resume from that checkpoint; before open().
  void restore_checkpoint(std::uint64_t number);
  // For checkpoints; only while nothing is being read or written.
  void state(Archive&);
  // The job continues without the peer: sends and accepts nothing any more.
  void drop();

  // Called periodically: records progress, and sends a ping on a stream idle for `heartbeat`.
  void tick(Time now, Time heartbeat);
  Time last_heard() const { return last_heard_; }
  // That silence was this node's own.
  void excuse(Time silence, Time now) { last_heard_ = std::min(now, last_heard_ + silence); }
  std::uint32_t streams() const { return std::uint32_t(streams_.size()); }
  bool connected() const;  // by all streams
  bool connected(std::uint32_t stream) const { return streams_[stream].connection != nullptr; }
  // "10.0.0.7:7000", of the first connection that there is; "" without one.
  std::string peer_address() const {
    for (const StreamState& stream : streams_)
      if (stream.connection) return stream.connection->stream().peer();
    return "";
  }
  // Of a connected stream; nullptr without TLS.
  const secure::Session* security(std::uint32_t stream) const {
    const auto& connection = streams_[stream].connection;
    return connection ? connection->stream().security() : nullptr;
  }
  bool dropped() const { return dropped_; }
  void disconnect(const Error& why);

  // No more messages follow; everything has arrived once settled() is true on either side.
  void say_bye();
  bool idle() const { return outbox_.idle(); }  // the peer has all that was sent
  bool settled() const { return peer_done_ || dropped_ || (outbox_.idle() && bye_written_); }
  bool peer_is_done() const { return peer_done_; }

 private:
  struct StreamState {  // of one stream
    std::shared_ptr<Connection> connection;
    std::uint64_t received = 0, sent = 0;  // bytes, at the last tick
    Time last_written{0};
    unsigned frames = 0;  // since the last tick
    bool ping = false;
    bool announce = false;              // before any other frame
    bool waits_for_checkpoint = false;  // of this node: nothing is read before it is taken
  };
  // Message numbers of a class for which on_writable was called; writes of parallel streams end in
  // any order.
  class FirstReports {
   public:
    bool first(std::uint64_t number);
    void state(auto& archive) { archive(below_, above_); }

   private:
    std::uint64_t below_ = 0;
    std::set<std::uint64_t> above_;  // bounded by the Outbox's unacknowledged messages
  };

  void on_frame(Connection&, Frame&&) override;
  std::optional<Frame> to_write(Connection&) override;
  void on_written(Connection&, const Frame&) override;
  void on_end(Connection&, const Error& why) override;
  std::optional<Frame> control();  // the next of the last stream
  Status take(Connection&, Frame&&);
  Status on_peer_checkpoint(Connection&, CheckpointProgress, std::uint64_t since_resumed);
  StreamState& stream_of(const Connection&);
  void on_stream_lost(StreamState&);
  void resume_reading();
  void report_writable(const Frame&);
  Status acknowledged(const Acknowledged&);
  Status check_checkpoint(CheckpointProgress) const;
  void wake();

  const Rank peer_;
  const bool comes_back_;
  Events& events_;
  Outbox outbox_;
  Inbox inbox_;
  std::vector<StreamState> streams_;
  std::optional<std::uint64_t> process_;
  std::array<FirstReports, Service::kClasses> reported_;
  CheckpointProgress mine_, theirs_;
  Time last_heard_{0};
  std::optional<std::uint64_t> restored_;  // the checkpoint that both are to go on from
  bool open_ = false, dropped_ = false, announced_ = false;
  // Its last frame was none that may come: that it calls again is no sign of life until one is.
  bool distrusted_ = false;
  bool bye_ = false, bye_written_ = false, peer_done_ = false;
};

}  // namespace longhaul::net
