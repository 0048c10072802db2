#pragma once
// State between this node and one peer: Outbox, Inbox and the current parallel connections. A Link
// neither loses nor duplicates a message when connections break and are replaced.
//
// The last stream carries only acknowledgements and messages of the highest priority. A slow
// receiver may have megabytes of bulk waiting in its kernel; on the same stream control messages
// would wait behind them.
//
// Bounds: those of Outbox and Inbox; after kFramesPerTick frames a connection is not read until the
// next tick().
//
// Checkpoints: each node fixes its state (with its links) at its own time and announces that on
// every stream before any later message. A node that receives the announcement first fixes its own
// state, then continues to read. So no state contains a message that its sender's state has not
// sent (Lai and Yang, "On distributed snapshots", 1987); messages in flight are in the senders'
// Outboxes. One thread: the loop's.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "longhaul/net/connection.h"
#include "longhaul/net/hello.h"
#include "longhaul/net/inbox.h"
#include "longhaul/net/outbox.h"

namespace longhaul::net {

class Link final : public Connection::Owner {
  static constexpr Outbox::Priorities kUrgent{kControl.priority, 7},
      kBulk{0, kControl.priority - 1};

  static Frame plain_frame(FrameHeader::Type type) {
    Frame frame;
    frame.header.type = type;
    return frame;
  }

 public:
  static constexpr unsigned kFramesPerTick = 20000;
  class Events {
   public:
    virtual ~Events() = default;
    virtual void on_message(Rank from, const Message&) = 0;
    virtual void on_writable(Rank peer, unsigned service_class) = 0;  // bulk only
    virtual void on_disconnected(Rank peer, std::uint32_t stream, const Error& why) = 0;
    // Called when the peer has taken a checkpoint that this node lacks. This node must take it
    // before it handles later messages of the peer. Returns true if it has; otherwise announce()
    // follows.
    virtual bool on_checkpoint(Rank peer, std::uint64_t number) = 0;
  };
  // `streams`: number of bulk streams; there is one more. `comes_back`: this node has returned to a
  // run. Until all nodes admit it, they take checkpoints without it and can be any number ahead.
  Link(Rank peer, std::uint32_t streams, Events& events, bool comes_back = false)
      : peer_(peer), comes_back_(comes_back), events_(events), streams_(streams + 1) {}
  ~Link() override {
    for (StreamState& stream : streams_) {
      if (!stream.connection) continue;
      stream.connection->detach();
      stream.connection->end(unavailable("this node has ended"));
    }
  }

  void send(const Message& message, const Service& service) {
    if (dropped_) return;
    outbox_.push(message, service);
    wake();
  }

  // Returns an Error if the hello acknowledges an unsent message or comes from another process of
  // the peer, or if the peer is dropped. The caller then refuses the hello.
  Status check_hello(const Hello& hello) const {
    if (dropped_)
      return unavailable(
          fmt::format("the job continues without site {} (rank {}): the others could not reach it "
                      "and have declared it lost; if the [sync] kind lets lost sites return, start "
                      "it with --rejoin",
                      hello.site, hello.rank));
    if (hello.stream >= streams_.size())
      return malformed(
          fmt::format("it opens stream {}; this job has {}", hello.stream + 1, streams_.size()));
    if (open_ && hello.checkpointed.is_valid()) LH_TRY(check_checkpoint(hello.checkpointed));
    if (!process_ || *process_ == hello.process) return Ok{};
    // Before anything was read or announced, a node may be restarted.
    const bool none = std::none_of(streams_.begin(), streams_.end(), [](const StreamState& stream) {
      return stream.connection && !stream.connection->stream().closed_by_peer();
    });
    if (!open_ && none) return Ok{};
    return unavailable(
        fmt::format("another process of site {} (rank {}) is in this run already; end one of them",
                    hello.site, hello.rank));
  }

  // Sets the DSCP of that stream's packets, if it is connected.
  void set_dscp(std::uint32_t stream, unsigned dscp) {
    if (const auto& connection = streams_[stream].connection) connection->set_dscp(dscp);
  }
  // Limits each connected bulk stream to `most` bytes per second.
  void set_pacing(double most) {
    for (std::size_t i = 0; i + 1 < streams_.size(); ++i)
      if (const auto& connection = streams_[i].connection) connection->set_pacing(most);
  }
  // Returns false if this node must take the peer's checkpoint first; the peer may dial again soon.
  bool can_attach(const Hello& hello) {
    const std::uint64_t taken = hello.checkpointed.taken;
    return !open_ || taken <= mine_.taken || events_.on_checkpoint(peer_, taken);
  }

  // Takes over a connection after its hello; ends the stream's previous connection.
  Status attach(std::shared_ptr<Connection> connection, const Hello& hello, Time now) {
    LH_TRY(check_hello(hello));
    // Before open(), this end may lack messages of its own checkpoint; the peer repeats them later.
    if (open_)
      for (const Acknowledged& have : hello.have) LH_TRY(acknowledged(have));
    process_ = hello.process;
    StreamState& stream = streams_[hello.stream];
    if (const auto old = stream.connection) {
      old->detach();
      old->end(unavailable("the peer has connected again"));
      on_stream_lost(stream);
    }
    theirs_ = hello.checkpointed;
    stream = {.connection = std::move(connection), .last_written = now, .announce = open_};
    if (!distrusted_) last_heard_ = now;
    stream.connection->set_owner(*this);
    if (!open_) stream.connection->pause();
    stream.connection->wake();
    return Ok{};
  }

  std::vector<Acknowledged> have() const { return inbox_.all(); }
  // The peer's process; empty before the first connection.
  const std::optional<std::uint64_t>& process() const { return process_; }
  // Starts the exchange of messages. Before this call only hellos are read; the peer keeps its
  // messages.
  void open(Time now) {
    open_ = true;
    last_heard_ = now;
    // Announce the restored checkpoint. The checkpoint may also hold frames to send.
    for (StreamState& stream : streams_) stream.announce = true;
    wake();
    resume_reading();
  }

  // Announces this node's checkpoints before any message that is not in them.
  void announce(CheckpointProgress mine) {
    mine_ = mine;
    for (StreamState& stream : streams_) {
      stream.announce = true;
      if (mine_.taken >= theirs_.taken) stream.waits_for_checkpoint = false;
    }
    wake();
    resume_reading();
  }

  CheckpointProgress checkpointed() const { return mine_; }
  CheckpointProgress peer_checkpointed() const { return theirs_; }
  bool announced() const { return announced_; }  // the peer runs and has announced its checkpoints
  // Makes both ends resume from that checkpoint. Must be called before open().
  void restore_checkpoint(std::uint64_t number) {
    mine_ = theirs_ = {number, number};
    restored_ = number;
  }

  // Saves or loads the link. Requires that nothing is being read or written.
  void state(Archive& ar) {
    outbox_.state(ar);
    inbox_.state(ar);
    ar(reported_);
  }

  // Called when the job continues without the peer. Sends and accepts nothing from now on.
  void drop() {
    dropped_ = true;
    disconnect(unavailable("declared lost"));
    outbox_ = {};
  }

  // Called periodically: records progress, and sends a ping on a stream idle for `heartbeat`.
  void tick(Time now, Time heartbeat) {
    for (StreamState& stream : streams_) {
      const auto connection = stream.connection;
      if (!connection) continue;
      const Stream& transport = connection->stream();
      const bool came =
          transport.received() != std::exchange(stream.received, transport.received());
      if (came && !distrusted_) last_heard_ = now;
      if (transport.sent() != std::exchange(stream.sent, transport.sent()))
        stream.last_written = now;
      if (now - stream.last_written >= heartbeat) stream.ping = true;
      stream.frames = 0;
      connection->wake();
      if (!connection->paused()) continue;
      last_heard_ = now;  // this node has stopped reading
      if (connection->stream().closed_by_peer())
        connection->end(unavailable(connection->stream().peer() + " closed the connection"));
    }
    resume_reading();
  }

  Time last_heard() const { return last_heard_; }
  // Ignores a silence caused by this node.
  void excuse(Time silence, Time now) { last_heard_ = std::min(now, last_heard_ + silence); }
  std::uint32_t streams() const { return std::uint32_t(streams_.size()); }
  // Returns true if all streams are connected.
  bool connected() const {
    return std::all_of(streams_.begin(), streams_.end(),
                       [](const StreamState& stream) { return stream.connection != nullptr; });
  }

  bool connected(std::uint32_t stream) const { return streams_[stream].connection != nullptr; }
  // Returns the address of the first connected stream, such as "10.0.0.7:7000"; "" without one.
  std::string peer_address() const {
    for (const StreamState& stream : streams_)
      if (stream.connection) return stream.connection->stream().peer();
    return "";
  }
  // Returns the session of a connected stream; nullptr without TLS.
  const secure::Session* security(std::uint32_t stream) const {
    const auto& connection = streams_[stream].connection;
    return connection ? connection->stream().security() : nullptr;
  }
  bool dropped() const { return dropped_; }
  void disconnect(const Error& why) {
    for (const StreamState& stream : streams_)
      if (const auto connection = stream.connection) connection->end(why);
  }

  // Announces the end of messages. Every message has arrived once settled() is true on either side.
  void say_bye() {
    bye_ = true;
    wake();
  }

  bool idle() const { return outbox_.idle(); }  // true if the peer has all messages
  bool settled() const { return peer_done_ || dropped_ || (outbox_.idle() && bye_written_); }
  bool peer_is_done() const { return peer_done_; }

 private:
  struct StreamState {
    std::shared_ptr<Connection> connection;
    std::uint64_t received = 0, sent = 0;  // bytes, at the last tick
    Time last_written{0};
    unsigned frames = 0;  // since the last tick
    bool ping = false;
    bool announce = false;              // before any other frame
    bool waits_for_checkpoint = false;  // nothing is read until this node takes it
  };
  // Message numbers of a class that on_writable was called for; writes of parallel streams end in
  // any order.
  class FirstReports {
   public:
    bool first(std::uint64_t number) {
      if (number < below_ || !above_.insert(number).second) return false;
      while (above_.erase(below_) > 0) ++below_;
      return true;
    }

    void state(auto& archive) { archive(below_, above_); }

   private:
    std::uint64_t below_ = 0;
    std::set<std::uint64_t> above_;  // bounded by the Outbox's unacknowledged messages
  };

  void on_frame(Connection& connection, Frame&& frame) override {
    if (++stream_of(connection).frames > kFramesPerTick) connection.pause();
    const Status good = take(connection, std::move(frame));
    if (!good) return connection.end(good.error());
    distrusted_ = false;
  }

  std::optional<Frame> to_write(Connection& connection) override {
    StreamState& stream = this->stream_of(connection);
    if (std::exchange(stream.announce, false)) {
      Frame frame = plain_frame(FrameHeader::Type::checkpoint);
      frame.header.number = mine_.taken;
      frame.header.epoch = mine_.saved;
      frame.header.order = std::uint32_t(mine_.taken - restored_.value_or(mine_.taken));
      return frame;
    }
    if (auto frame = &stream == &streams_.back() ? control() : outbox_.next(kBulk)) return frame;
    if (std::exchange(stream.ping, false)) return plain_frame(FrameHeader::Type::ping);
    return std::nullopt;
  }

  void on_written(Connection&, const Frame& frame) override {
    const FrameHeader& header = frame.header;
    if (header.type == FrameHeader::Type::bye) bye_written_ = true;
    if (header.type != FrameHeader::Type::message) return;
    report_writable(frame);
  }

  void on_end(Connection& connection, const Error& why) override {
    StreamState& ended = stream_of(connection);
    distrusted_ |= why.kind == Error::Kind::malformed;
    on_stream_lost(ended);
    events_.on_disconnected(peer_, std::uint32_t(&ended - streams_.data()), why);
    wake();
  }

  // Returns the next frame of the last stream.
  std::optional<Frame> control() {
    if (auto unsent = inbox_.take_unsent(); !unsent.empty()) {
      Frame frame = plain_frame(FrameHeader::Type::ack);
      frame.head = Payload(share(to_wire(Acknowledgement{std::move(unsent)})));
      return frame;
    }
    if (auto frame = outbox_.next(kUrgent)) return frame;
    if (bye_ && !bye_written_ && outbox_.idle()) return plain_frame(FrameHeader::Type::bye);
    return std::nullopt;
  }

  Status take(Connection& connection, Frame&& frame) {
    switch (frame.header.type) {
      case FrameHeader::Type::message: {
        LH_LET(messages, inbox_.accept(std::move(frame)));
        for (const Frame& one : messages) events_.on_message(peer_, one.message());
        wake();
        return Ok{};
      }
      case FrameHeader::Type::ack: {
        LH_LET(ack, from_wire<Acknowledgement>(frame.head.view()));
        for (const Acknowledged& have : ack.have) LH_TRY(acknowledged(have));
        wake();
        return Ok{};
      }
      case FrameHeader::Type::bye:
        peer_done_ = true;
        return Ok{};
      case FrameHeader::Type::ping:
        return Ok{};
      case FrameHeader::Type::checkpoint:
        return on_peer_checkpoint(connection, {frame.header.number, frame.header.epoch},
                                  frame.header.order);
      case FrameHeader::Type::refusal:
        return unavailable("it ends the connection: " + read_refusal(frame));
      case FrameHeader::Type::hello:
        break;
    }
    return malformed("a second hello");
  }

  Status on_peer_checkpoint(Connection& connection, CheckpointProgress theirs,
                            std::uint64_t since_resumed) {
    LH_TRY(check_checkpoint(theirs));
    // The peer's first announcement may be missed: while its connections are broken, both ends can
    // take several checkpoints with the other nodes.
    if (const auto from = theirs.taken - since_resumed; restored_ && from != *restored_)
      return malformed(
          fmt::format("goes on from checkpoint {}, this node from {}", from, *restored_));
    theirs_ = theirs;
    announced_ = true;
    if (theirs.taken <= mine_.taken || events_.on_checkpoint(peer_, theirs.taken)) return Ok{};
    stream_of(connection).waits_for_checkpoint = true;
    connection.pause();
    return Ok{};
  }

  StreamState& stream_of(const Connection& connection) {
    const auto it = std::find_if(streams_.begin(), streams_.end(), [&](const StreamState& stream) {
      return stream.connection.get() == &connection;
    });
    LH_CHECK(it != streams_.end());
    return *it;
  }

  // Repeats frames in flight over the other streams or the next connection.
  void on_stream_lost(StreamState& stream) {
    stream.connection.reset();
    outbox_.rewind();
    inbox_.resend_acknowledgements();
  }

  // Streams that wait for a checkpoint stay paused.
  void resume_reading() {
    if (!open_) return;
    for (StreamState& stream : streams_)
      if (const auto connection = stream.connection; connection && !stream.waits_for_checkpoint)
        connection->resume();
  }

  // Reports each message once, whether its stream or the peer's acknowledgement reports the write.
  // A broken stream may not report it.
  void report_writable(const Frame& frame) {
    const FrameHeader& header = frame.header;
    const bool first = reported_[header.service_class].first(header.number);
    if (first && frame.body.size() > 0) events_.on_writable(peer_, header.service_class);
  }

  Status acknowledged(const Acknowledged& have) {
    LH_LET(done, outbox_.acknowledged(have));
    for (const Frame& frame : done) report_writable(frame);
    return Ok{};
  }

  // A checkpoint is taken only when all nodes have the last one on disk, so no node is further
  // ahead.
  Status check_checkpoint(CheckpointProgress theirs) const {
    if ((theirs.taken <= mine_.saved + 1 || comes_back_) && theirs.is_valid()) return Ok{};
    return malformed(fmt::format("says that it has taken checkpoint {} and saved {}; here it is {}",
                                 theirs.taken, theirs.saved, mine_.saved));
  }

  void wake() {
    for (const StreamState& stream : streams_)
      if (const auto connection = stream.connection) connection->wake();
  }

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
  std::optional<std::uint64_t> restored_;  // checkpoint that both ends resume from
  bool open_ = false, dropped_ = false, announced_ = false;
  // The peer's last frame was invalid. New connections count as signs of life only after a valid
  // frame.
  bool distrusted_ = false;
  bool bye_ = false, bye_written_ = false, peer_done_ = false;
};

}  // namespace longhaul::net
