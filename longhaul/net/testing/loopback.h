#pragma once
// Streams over the loopback, and an owner of connections over them.
#include <deque>
#include <vector>

#include "longhaul/net/connection.h"
#include "longhaul/net/tcp.h"

namespace longhaul::net {

// The two ends of a TCP connection.
struct LoopbackPair {
  Loop loop;
  std::unique_ptr<Stream> dialled, accepted;
  std::unique_ptr<Listener> listener;

  LoopbackPair() {
    auto opened = listen(loop, {"127.0.0.1", 0}, [this](auto s) { accepted = std::move(s); });
    LH_CHECK(opened);
    listener = *std::move(opened);
    connect(loop, {"127.0.0.1", listener->port()}, std::chrono::seconds(5), [this](auto result) {
      LH_CHECK(result);
      dialled = *std::move(result);
    });
    LH_CHECK(wait([this] { return dialled && accepted; }));
  }
  bool wait(const std::function<bool()>& done) {
    return loop.run_until(loop.now() + std::chrono::seconds(20), done);
  }
};

// Writes its frames and keeps received ones.
struct FrameEnd final : Connection::Owner {
  std::deque<Frame> out;
  std::vector<Frame> in;
  std::size_t written = 0;
  std::string why;
  void on_frame(Connection&, Frame&& frame) override { in.push_back(std::move(frame)); }
  std::optional<Frame> to_write(Connection&) override {
    if (out.empty()) return std::nullopt;
    Frame frame = std::move(out.front());
    out.pop_front();
    return frame;
  }
  void on_written(Connection&, const Frame&) override { ++written; }
  void on_end(Connection&, const Error& error) override { why = error.what; }
};

inline Frame numbered_frame(std::uint16_t kind, std::size_t head, std::size_t body) {
  Message message;
  message.kind = kind;
  if (head > 0) message.head = Payload(share(Buffer(head, std::byte(kind))));
  if (body > 0) message.body = Payload(share(Buffer(body, std::byte(kind + 1))));
  return message_frame(message, {});
}

}  // namespace longhaul::net
