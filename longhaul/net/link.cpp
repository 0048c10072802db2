#include "longhaul/net/link.h"

#include <algorithm>

#include <fmt/format.h>

namespace longhaul::net {
namespace {

constexpr Outbox::Priorities kUrgent{kControl.priority, 7}, kBulk{0, kControl.priority - 1};

Frame plain_frame(FrameHeader::Type type) {
  Frame frame;
  frame.header.type = type;
  return frame;
}

}  // namespace

bool Link::FirstReports::first(std::uint64_t number) {
  if (number < below_ || !above_.insert(number).second) return false;
  while (above_.erase(below_) > 0) ++below_;
  return true;
}

Link::~Link() {
  for (StreamState& stream : streams_) {
    if (!stream.connection) continue;
    stream.connection->detach();
    stream.connection->end(unavailable("this node has ended"));
  }
}

Link::StreamState& Link::stream_of(const Connection& connection) {
  const auto it = std::find_if(streams_.begin(), streams_.end(), [&](const StreamState& stream) {
    return stream.connection.get() == &connection;
  });
  LH_CHECK(it != streams_.end());
  return *it;
}

void Link::wake() {
  for (const StreamState& stream : streams_)
    if (const auto connection = stream.connection) connection->wake();
}

bool Link::connected() const {
  return std::all_of(streams_.begin(), streams_.end(),
                     [](const StreamState& stream) { return stream.connection != nullptr; });
}

void Link::send(const Message& message, const Service& service) {
  if (dropped_) return;
  outbox_.push(message, service);
  wake();
}

// --- connections --------------------------------------------------------------------------------

Status Link::check_hello(const Hello& hello) const {
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
  // Before anything was read or said, a node may be started anew.
  const bool none = std::none_of(streams_.begin(), streams_.end(), [](const StreamState& stream) {
    return stream.connection && !stream.connection->stream().closed_by_peer();
  });
  if (!open_ && none) return Ok{};
  return unavailable(
      fmt::format("another process of site {} (rank {}) is in this run already; end one of them",
                  hello.site, hello.rank));
}

// The next checkpoint is taken when all have the last one on disk, so nobody is further ahead.
Status Link::check_checkpoint(CheckpointProgress theirs) const {
  if ((theirs.taken <= mine_.saved + 1 || comes_back_) && theirs.is_valid()) return Ok{};
  return malformed(fmt::format("says that it has taken checkpoint {} and saved {}; here it is {}",
                               theirs.taken, theirs.saved, mine_.saved));
}

bool Link::can_attach(const Hello& hello) {
  const std::uint64_t taken = hello.checkpointed.taken;
  return !open_ || taken <= mine_.taken || events_.on_checkpoint(peer_, taken);
}

Status Link::attach(std::shared_ptr<Connection> connection, const Hello& hello, Time now) {
  LH_TRY(check_hello(hello));
  // Before that this end may lack what its checkpoint holds; then the peer says it again.
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

// What was on its way goes again: over the other streams, or over the next one.
void Link::on_stream_lost(StreamState& stream) {
  stream.connection.reset();
  outbox_.rewind();
  inbox_.resend_acknowledgements();
}

void Link::on_end(Connection& connection, const Error& why) {
  StreamState& ended = stream_of(connection);
  distrusted_ |= why.kind == Error::Kind::malformed;
  on_stream_lost(ended);
  events_.on_disconnected(peer_, std::uint32_t(&ended - streams_.data()), why);
  wake();
}

void Link::open(Time now) {
  open_ = true;
  last_heard_ = now;
  // Says what this node goes on from; and a checkpoint may have brought frames.
  for (StreamState& stream : streams_) stream.announce = true;
  wake();
  resume_reading();
}

// Those that wait for a checkpoint go on waiting.
void Link::resume_reading() {
  if (!open_) return;
  for (StreamState& stream : streams_)
    if (const auto connection = stream.connection; connection && !stream.waits_for_checkpoint)
      connection->resume();
}

void Link::drop() {
  dropped_ = true;
  disconnect(unavailable("declared lost"));
  outbox_ = {};
}

void Link::disconnect(const Error& why) {
  for (const StreamState& stream : streams_)
    if (const auto connection = stream.connection) connection->end(why);
}

void Link::tick(Time now, Time heartbeat) {
  for (StreamState& stream : streams_) {
    const auto connection = stream.connection;
    if (!connection) continue;
    const Stream& transport = connection->stream();
    const bool came = transport.received() != std::exchange(stream.received, transport.received());
    if (came && !distrusted_) last_heard_ = now;
    if (transport.sent() != std::exchange(stream.sent, transport.sent())) stream.last_written = now;
    if (now - stream.last_written >= heartbeat) stream.ping = true;
    stream.frames = 0;
    connection->wake();
    if (!connection->paused()) continue;
    last_heard_ = now;  // it is this node that does not listen
    if (connection->stream().closed_by_peer())
      connection->end(unavailable(connection->stream().peer() + " closed the connection"));
  }
  resume_reading();
}

void Link::announce(CheckpointProgress mine) {
  mine_ = mine;
  for (StreamState& stream : streams_) {
    stream.announce = true;
    if (mine_.taken >= theirs_.taken) stream.waits_for_checkpoint = false;
  }
  wake();
  resume_reading();
}

void Link::restore_checkpoint(std::uint64_t number) {
  mine_ = theirs_ = {number, number};
  restored_ = number;
}

void Link::state(Archive& ar) {
  outbox_.state(ar);
  inbox_.state(ar);
  ar(reported_);
}

void Link::say_bye() {
  bye_ = true;
  wake();
}

// --- frames -------------------------------------------------------------------------------------

std::optional<Frame> Link::to_write(Connection& connection) {
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

std::optional<Frame> Link::control() {
  if (auto unsent = inbox_.take_unsent(); !unsent.empty()) {
    Frame frame = plain_frame(FrameHeader::Type::ack);
    frame.head = Payload(share(to_wire(Acknowledgement{std::move(unsent)})));
    return frame;
  }
  if (auto frame = outbox_.next(kUrgent)) return frame;
  if (bye_ && !bye_written_ && outbox_.idle()) return plain_frame(FrameHeader::Type::bye);
  return std::nullopt;
}

void Link::on_written(Connection&, const Frame& frame) {
  const FrameHeader& header = frame.header;
  if (header.type == FrameHeader::Type::bye) bye_written_ = true;
  if (header.type != FrameHeader::Type::message) return;
  report_writable(frame);
}

// Once for each, whether this node learns that it is written from the stream or from the peer: a
// stream that breaks may keep it to itself.
void Link::report_writable(const Frame& frame) {
  const FrameHeader& header = frame.header;
  const bool first = reported_[header.service_class].first(header.number);
  if (first && frame.body.size() > 0) events_.on_writable(peer_, header.service_class);
}

Status Link::acknowledged(const Acknowledged& have) {
  const auto done = outbox_.acknowledged(have);
  if (!done) return done.error();
  for (const Frame& frame : *done) report_writable(frame);
  return Ok{};
}

void Link::on_frame(Connection& connection, Frame&& frame) {
  if (++stream_of(connection).frames > kFramesPerTick) connection.pause();
  const Status good = take(connection, std::move(frame));
  if (!good) return connection.end(good.error());
  distrusted_ = false;
}

Status Link::on_peer_checkpoint(Connection& connection, CheckpointProgress theirs,
                                std::uint64_t since_resumed) {
  LH_TRY(check_checkpoint(theirs));
  // Its first announcement need not be the first that is heard: while the connections to it are
  // broken, both ends may take checkpoint after checkpoint with the others.
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

Status Link::take(Connection& connection, Frame&& frame) {
  switch (frame.header.type) {
    case FrameHeader::Type::message: {
      auto messages = inbox_.accept(std::move(frame));
      if (!messages) return messages.error();
      for (const Frame& one : *messages) events_.on_message(peer_, one.message());
      wake();
      return Ok{};
    }
    case FrameHeader::Type::ack: {
      const auto ack = from_wire<Acknowledgement>(frame.head.view());
      if (!ack) return ack.error();
      for (const Acknowledged& have : ack->have) LH_TRY(acknowledged(have));
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

}  // namespace longhaul::net
