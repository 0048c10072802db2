#pragma once
// The frames of a connection: a fixed header, a head and a body. docs/wire-format.md
//
// To read one: kFrameHeader bytes, then the sizes that decode_header() returns (checked against
// limits before anything is allocated), then check() for the checksum.
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
  Epoch epoch = 0;                 // the sender's epoch at sending
  std::uint64_t number = 0;        // messages: counts from 0 in each class
  std::uint32_t order = 0;         // Service::order, its lower half
  std::uint32_t checksum = 0;      // checksum of the rest of the frame

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

// A frame to write, or one read completely. Heads and bodies are shared, never copied.
struct Frame {
  FrameHeader header;
  Payload head, body;

  std::size_t size() const { return kFrameHeader + head.size() + body.size(); }
  Service service() const;
  Message message() const;  // of a message frame
  void state(auto& archive) { archive(header, head, body); }
};

// seal() fills in sizes and checksum; the writer calls it last.
Frame message_frame(const Message&, const Service&);
HeaderBytes seal(Frame&);

// Errors: not a longhaul frame, or longer than the limits.
Result<FrameHeader> decode_header(std::span<const std::byte, kFrameHeader>, const FrameLimits&);
// Error: the checksum does not match head and body.
Status check(const FrameHeader&, std::span<const std::byte> head, std::span<const std::byte> body);

}  // namespace longhaul::net
