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

bool Link::Told::first(std::uint64_t number) {
  if (number < below_ || !above_.insert(number).second) return false;
  while (above_.erase(below_) > 0) ++below_;
  return true;
}

Link::~Link() {
  for (Lane& lane : lanes_) {
    if (!lane.connection) continue;
    lane.connection->leave();
    lane.connection->end(unavailable("this node has ended"));
  }
}

Link::Lane& Link::lane(const Connection& connection) {
  const auto it = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& lane) {
    return lane.connection.get() == &connection;
  });
  LH_CHECK(it != lanes_.end());
  return *it;
}

void Link::wake() {
  for (const Lane& lane : lanes_)
    if (const auto connection = lane.connection) connection->wake();
}

bool Link::connected() const {
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [](const Lane& lane) { return lane.connection != nullptr; });
}

void Link::send(const Message& message, const Service& service) {
  if (dropped_) return;
  outbox_.push(message, service);
  wake();
}

// --- connections --------------------------------------------------------------------------------

Status Link::fits(const Hello& hello) const {
  if (dropped_)
    return unavailable(
        fmt::format("the job goes on without site {} (rank {}): the others could not "
                    "reach it and have declared it lost; where [sync] lets lost sites come "
                    "back, start it with --rejoin",
                    hello.site, hello.rank));
  if (hello.stream >= lanes_.size())
    return malformed(
        fmt::format("it opens stream {}; this job has {}", hello.stream + 1, lanes_.size()));
  if (open_ && hello.checkpointed.possible()) LH_TRY(possible(hello.checkpointed));
  if (!process_ || *process_ == hello.process) return Ok{};
  // Before anything was read or said, a node may be started anew.
  const bool none = std::none_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) {
    return lane.connection && !lane.connection->stream().gone();
  });
  if (!open_ && none) return Ok{};
  return unavailable(
      fmt::format("another process of site {} (rank {}) is in this run already; end one of them",
                  hello.site, hello.rank));
}

// The next checkpoint is taken when all have the last one on disk, so nobody is further ahead.
Status Link::possible(Checkpointed theirs) const {
  if (theirs.taken <= mine_.saved + 1 && theirs.possible()) return Ok{};
  return malformed(fmt::format("says that it has taken checkpoint {} and saved {}; here it is {}",
                               theirs.taken, theirs.saved, mine_.saved));
}

bool Link::ready(const Hello& hello) {
  const std::uint64_t taken = hello.checkpointed.taken;
  return !open_ || taken <= mine_.taken || events_.on_checkpoint(peer_, taken);
}

Status Link::attach(std::shared_ptr<Connection> connection, const Hello& hello, Time now) {
  LH_TRY(fits(hello));
  // Before that this end may lack what its checkpoint holds; then the peer says it again.
  if (open_)
    for (const Acknowledged& have : hello.have) LH_TRY(acknowledged(have));
  process_ = hello.process;
  Lane& lane = lanes_[hello.stream];
  if (const auto old = lane.connection) {
    old->leave();
    old->end(unavailable("the peer has connected again"));
    lost(lane);
  }
  theirs_ = hello.checkpointed;
  lane = {.connection = std::move(connection), .last_written = now, .announce = open_};
  last_heard_ = now;
  lane.connection->pass_to(*this);
  if (!open_) lane.connection->hold();
  lane.connection->wake();
  return Ok{};
}

// What was on its way goes again: over the other streams, or over the next one.
void Link::lost(Lane& lane) {
  lane.connection.reset();
  outbox_.rewind();
  inbox_.tell_again();
}

void Link::on_end(Connection& connection, const Error& why) {
  Lane& ended = lane(connection);
  lost(ended);
  events_.on_disconnected(peer_, std::uint32_t(&ended - lanes_.data()), why);
  wake();
}

void Link::open(Time now) {
  open_ = true;
  last_heard_ = now;
  // Says what this node goes on from; and a checkpoint may have brought frames.
  for (Lane& lane : lanes_) lane.announce = true;
  wake();
  read_on();
}

// Those that wait for a checkpoint go on waiting.
void Link::read_on() {
  if (!open_) return;
  for (Lane& lane : lanes_)
    if (const auto connection = lane.connection; connection && !lane.waits_for_checkpoint)
      connection->resume();
}

void Link::drop() {
  dropped_ = true;
  disconnect(unavailable("declared lost"));
  outbox_ = {};
}

void Link::disconnect(const Error& why) {
  for (const Lane& lane : lanes_)
    if (const auto connection = lane.connection) connection->end(why);
}

void Link::tick(Time now, Time heartbeat) {
  for (Lane& lane : lanes_) {
    const auto connection = lane.connection;
    if (!connection) continue;
    const Stream& stream = connection->stream();
    if (stream.received() != std::exchange(lane.received, stream.received())) last_heard_ = now;
    if (stream.sent() != std::exchange(lane.sent, stream.sent())) lane.last_written = now;
    if (now - lane.last_written >= heartbeat) lane.ping = true;
    lane.frames = 0;
    connection->wake();
    if (!connection->held()) continue;
    last_heard_ = now;  // it is this node that does not listen
    if (connection->stream().gone())
      connection->end(unavailable(connection->stream().peer() + " closed the connection"));
  }
  read_on();
}

void Link::announce(Checkpointed mine) {
  mine_ = mine;
  for (Lane& lane : lanes_) {
    lane.announce = true;
    if (mine_.taken >= theirs_.taken) lane.waits_for_checkpoint = false;
  }
  wake();
  read_on();
}

void Link::go_back(std::uint64_t number) { mine_ = theirs_ = {number, number}; }

void Link::state(Archive& ar) {
  outbox_.state(ar);
  inbox_.state(ar);
  ar(told_);
}

void Link::say_bye() {
  bye_ = true;
  wake();
}

// --- frames -------------------------------------------------------------------------------------

std::optional<Frame> Link::to_write(Connection& connection) {
  Lane& lane = this->lane(connection);
  if (std::exchange(lane.announce, false)) {
    Frame frame = plain_frame(FrameHeader::Type::checkpoint);
    frame.header.number = mine_.taken;
    frame.header.epoch = mine_.saved;
    return frame;
  }
  if (auto frame = &lane == &lanes_.back() ? control() : outbox_.next(kBulk)) return frame;
  if (std::exchange(lane.ping, false)) return plain_frame(FrameHeader::Type::ping);
  return std::nullopt;
}

std::optional<Frame> Link::control() {
  if (auto news = inbox_.news(); !news.empty()) {
    Frame frame = plain_frame(FrameHeader::Type::ack);
    frame.head = Payload(share(to_wire(Acknowledgement{std::move(news)})));
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
  tell_writable(frame);
}

// Once for each, whether this node learns that it is written from the stream or from the peer: a
// stream that breaks may keep it to itself.
void Link::tell_writable(const Frame& frame) {
  const FrameHeader& header = frame.header;
  const bool first = told_[header.service_class].first(header.number);
  if (first && frame.body.size() > 0) events_.on_writable(peer_, header.service_class);
}

Status Link::acknowledged(const Acknowledged& have) {
  const auto done = outbox_.acknowledged(have);
  if (!done) return done.error();
  for (const Frame& frame : *done) tell_writable(frame);
  return Ok{};
}

void Link::on_frame(Connection& connection, Frame&& frame) {
  if (++lane(connection).frames > kFramesPerTick) connection.hold();
  if (const Status good = take(connection, std::move(frame)); !good) connection.end(good.error());
}

Status Link::follow(Connection& connection, Checkpointed theirs) {
  LH_TRY(possible(theirs));
  theirs_ = theirs;
  announced_ = true;
  if (theirs.taken <= mine_.taken || events_.on_checkpoint(peer_, theirs.taken)) return Ok{};
  lane(connection).waits_for_checkpoint = true;
  connection.hold();
  return Ok{};
}

Status Link::take(Connection& connection, Frame&& frame) {
  switch (frame.header.type) {
    case FrameHeader::Type::message: {
      auto ready = inbox_.accept(std::move(frame));
      if (!ready) return ready.error();
      for (const Frame& one : *ready) events_.on_message(peer_, one.message());
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
      gone_ = true;
      return Ok{};
    case FrameHeader::Type::ping:
      return Ok{};
    case FrameHeader::Type::checkpoint:
      return follow(connection, {frame.header.number, frame.header.epoch});
    case FrameHeader::Type::refusal:
      return unavailable("it ends the connection: " + read_refusal(frame));
    case FrameHeader::Type::hello:
      break;
  }
  return malformed("a second hello");
}

}  // namespace longhaul::net
