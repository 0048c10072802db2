#pragma once
// What goes over a connection: frames of a fixed header, a head and a body. docs/wire-format.md
//
// Whoever reads takes kFrameHeader bytes, decode_header() says how much follows (within limits:
// nothing is allocated on a stranger's word), and check() says whether all of it is what was sent.
#include <array>
#include <span>

#include "longhaul/core/message.h"

namespace longhaul::net {

struct FrameHeader {
  enum class Type : std::uint8_t {
    message = 1,
    ack = 2,
    ping = 3,
    hello = 4,
    refusal = 5,
    bye = 6,
    checkpoint = 7
  };
  static constexpr Type kLastType = Type::checkpoint;

  std::uint32_t head_bytes = 0;
  std::uint32_t body_bytes = 0;
  std::uint32_t machine = 0;  // Path::bits()
  std::uint16_t kind = 0;
  Type type = Type::message;
  std::uint8_t service_class = 0;  // Service::service_class()
  Epoch epoch = 0;                 // the sender's when it sent
  std::uint64_t number = 0;        // of messages: counts from 0 in its class
  std::uint32_t order = 0;         // Service::order
  std::uint32_t checksum = 0;      // of all of the frame but itself

  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
  void state(auto& archive) {
    archive(head_bytes, body_bytes, machine, kind, type, service_class, epoch, number, order,
            checksum);
  }
};

struct FrameLimits {
  std::uint32_t head_bytes = 64 * 1024;
  std::uint32_t body_bytes = 2 * 1024 * 1024;
};

using HeaderBytes = std::array<std::byte, kFrameHeader>;

// A frame that is to be written, or was read whole. Heads and bodies are shared, never copied.
struct Frame {
  FrameHeader header;
  Payload head, body;

  std::size_t size() const { return kFrameHeader + head.size() + body.size(); }
  Service service() const;
  Message message() const;  // of a message frame
  void state(auto& archive) { archive(header, head, body); }
};

// Sizes and checksum are filled in by seal(), which whoever writes the frame calls last.
Frame message_frame(const Message&, const Service&);
HeaderBytes seal(Frame&);

// Errors: not a frame of ours, or longer than the limits.
Result<FrameHeader> decode_header(std::span<const std::byte, kFrameHeader>, const FrameLimits&);
// Errors: head or body are not what the header was written for.
Status check(const FrameHeader&, std::span<const std::byte> head, std::span<const std::byte> body);

}  // namespace longhaul::net
