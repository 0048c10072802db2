#include "longhaul/net/link.h"

#include <fmt/format.h>

namespace longhaul::net {
namespace {

struct Acks {
  std::vector<Acknowledged> have;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "have", .max = Service::kClasses}, self.have);
  }
};

Frame plain_frame(FrameHeader::Type type) {
  Frame frame;
  frame.header.type = type;
  return frame;
}

}  // namespace

Link::~Link() {
  if (!connection_) return;
  connection_->leave();
  connection_->end(unavailable("this node has ended"));
}

void Link::send(const Message& message, const Service& service) {
  outbox_.push(message, service);
  if (connection_) connection_->wake();
}

Status Link::fits(const Hello& hello) const {
  if (!process_ || *process_ == hello.process) return Ok{};
  return unavailable(
      fmt::format("another process of site {} (rank {}) is in this run already; end one of them",
                  hello.site, hello.rank));
}

Status Link::attach(std::shared_ptr<Connection> connection, const Hello& hello, Time now) {
  LH_TRY(fits(hello));
  for (const Acknowledged& have : hello.have) LH_TRY(outbox_.acknowledged(have));
  process_ = hello.process;
  if (connection_) {
    connection_->leave();
    connection_->end(unavailable("the peer has connected again"));
  }
  connection_ = std::move(connection);
  connection_->pass_to(*this);
  outbox_.rewind();
  seen_ = 0;
  last_heard_ = last_written_ = now;
  connection_->wake();
  return Ok{};
}

void Link::tick(Time now, Time heartbeat) {
  if (!connection_) return;
  const std::uint64_t received = connection_->stream().received();
  if (received != std::exchange(seen_, received)) last_heard_ = now;
  if (now - last_written_ < heartbeat) return;
  last_written_ = now;
  ping_ = true;
  connection_->wake();
}

void Link::disconnect(const Error& why) {
  if (const auto connection = connection_) connection->end(why);
}

void Link::say_bye() {
  bye_ = true;
  if (connection_) connection_->wake();
}

std::optional<Frame> Link::to_write(Connection&) {
  if (std::exchange(news_, false)) {
    Frame frame = plain_frame(FrameHeader::Type::ack);
    frame.head = Payload(share(to_wire(Acks{inbox_.all()})));
    return frame;
  }
  if (auto frame = outbox_.next()) return frame;
  if (bye_ && !bye_written_ && outbox_.idle()) return plain_frame(FrameHeader::Type::bye);
  if (std::exchange(ping_, false)) return plain_frame(FrameHeader::Type::ping);
  return std::nullopt;
}

void Link::on_written(Connection&, const Frame& frame) {
  const FrameHeader& header = frame.header;
  if (header.type == FrameHeader::Type::bye) bye_written_ = true;
  if (header.type != FrameHeader::Type::message) return;
  std::uint64_t& told = written_[header.service_class];
  if (header.number < told) return;  // written again after a break
  told = header.number + 1;
  if (frame.body.size() > 0) events_.on_writable(peer_, header.service_class);
}

void Link::on_frame(Connection& connection, Frame&& frame) {
  if (const Status good = take(std::move(frame)); !good) connection.end(good.error());
}

Status Link::take(Frame&& frame) {
  switch (frame.header.type) {
    case FrameHeader::Type::message: {
      auto ready = inbox_.accept(std::move(frame));
      if (!ready) return ready.error();
      news_ = true;
      for (const Frame& one : *ready) events_.on_message(peer_, one.message());
      if (connection_) connection_->wake();
      return Ok{};
    }
    case FrameHeader::Type::ack: {
      const auto acks = from_wire<Acks>(frame.head.view());
      if (!acks) return acks.error();
      for (const Acknowledged& have : acks->have) LH_TRY(outbox_.acknowledged(have));
      if (connection_) connection_->wake();
      return Ok{};
    }
    case FrameHeader::Type::bye:
      gone_ = true;
      return Ok{};
    case FrameHeader::Type::ping:
      return Ok{};
    case FrameHeader::Type::refusal:
      return unavailable("it ends the connection: " + read_refusal(frame));
    case FrameHeader::Type::hello:
      break;
  }
  return malformed("a second hello");
}

void Link::on_end(Connection&, const Error& why) {
  connection_.reset();
  events_.on_disconnected(peer_, why);
}

}  // namespace longhaul::net
