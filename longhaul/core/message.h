#pragma once
// Message between the same machines of two nodes.
#include <cstdint>
#include <string_view>

#include "longhaul/base/bytes.h"
#include "longhaul/base/wire.h"
#include "longhaul/core/types.h"

namespace longhaul {

// Address of a machine in its node: the path from the root, four bits per level. Nested machines
// keep their messages and timers apart without knowledge of each other.
class Path {
 public:
  Path() = default;
  Path child(unsigned index) const {
    LH_CHECK(index < 15 && bits_ < (1u << 28));
    return Path(bits_ << 4 | (index + 1));
  }
  static Path from_bits(std::uint32_t bits) { return Path(bits); }
  std::uint32_t bits() const { return bits_; }
  bool empty() const { return bits_ == 0; }
  // Return the first step of the path, and the rest after it.
  unsigned head() const { return (bits_ >> shift()) - 1; }
  Path tail() const { return Path(bits_ & ((1u << shift()) - 1)); }
  friend auto operator<=>(const Path&, const Path&) = default;

 private:
  explicit Path(std::uint32_t bits) : bits_(bits) {}
  unsigned shift() const {
    unsigned s = 0;
    while (bits_ >> s > 0xF) s += 4;
    return s;
  }
  std::uint32_t bits_ = 0;
};

// Requirements of a send on the network. A host without `best_effort` may give more.
struct Service {
  enum class Delivery : std::uint8_t {
    reliable,    // once, in order, per (from, to, class, epoch), across reconnects
    best_effort  // possibly never, possibly late; never corrupt
  };
  Delivery delivery = Delivery::reliable;
  std::uint8_t priority = 4;  // 0..7, 7 first
  std::uint64_t order = 0;    // lower goes first within a priority

  static constexpr unsigned kClasses = 16;
  unsigned service_class() const { return unsigned(delivery) * 8 + priority; }
};
inline constexpr Service kControl{.priority = 7};

struct Message {
  Path machine;            // addressee; set by Turn::send
  std::uint16_t kind = 0;  // unique in that machine
  Epoch epoch = 0;         // sender's epoch at the send
  Payload head;            // the fields of a message struct, as base/wire.h writes them
  Payload body;            // bulk: part of a vector. Empty for control messages

  bool is_bulk() const { return body.size() > 0; }
  void state(auto& archive) {
    std::uint32_t bits = machine.bits();
    archive(bits, kind, epoch, head, body);
    machine = Path::from_bits(bits);
  }
};

// Bytes of one message on the wire, equal for sockets, link model, bounds and wan_bytes. The link
// model adds IP and TCP headers; retransmission and encryption are not counted.
inline constexpr std::size_t kFrameHeader = 40;
inline std::size_t frame_size(const Message& m) {
  return kFrameHeader + m.head.size() + m.body.size();
}

// A message struct has fields(), and by LONGHAUL_MESSAGE a kind (unique in its machine) and a name.
// A machine lists its structs once, as `Messages`; fuzzers and documentation read the list.
#define LONGHAUL_MESSAGE(number, text)           \
  static constexpr std::uint16_t kKind = number; \
  static constexpr std::string_view kName = text

template <class... M>
struct MessageList {};

template <class M>
concept MessageStruct = Fielded<M> && requires {
  { M::kKind } -> std::convertible_to<std::uint16_t>;
  { M::kName } -> std::convertible_to<std::string_view>;
};

// Decodes the head as the struct of the list that has the message's kind, and calls `handle` with
// it. `handle` returns a Status. Any other kind is a malformed message.
template <MessageStruct... M, class Handle>
Status dispatch(MessageList<M...>, const Message& message, Handle&& handle) {
  Status status = malformed("unknown kind of message: " + std::to_string(message.kind));
  auto attempt = [&]<class One>(One*) {
    if (message.kind != One::kKind) return;
    auto decoded = from_wire<One>(message.head.view());
    if (decoded) {
      status = handle(*decoded);
    } else {
      status = malformed(std::string(One::kName) + " " + decoded.error().what);
    }
  };
  (attempt(static_cast<M*>(nullptr)), ...);
  return status;
}

}  // namespace longhaul
