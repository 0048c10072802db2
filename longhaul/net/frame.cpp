#include "longhaul/net/frame.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <bit>
#include <cstring>

namespace longhaul::net {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are little-endian in memory");
// How a TLS client begins (RFC 8446, 5.1): as a head it would be longer than any.
constexpr std::uint32_t kTlsRecord = 0x010316;
constexpr std::size_t kChecksumAt = 36;

template <class T>
void put(HeaderBytes& bytes, std::size_t at, T value) {
  std::memcpy(&bytes[at], &value, sizeof value);
}

template <class T>
T get(std::span<const std::byte, kFrameHeader> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, &bytes[at], sizeof value);
  return value;
}

HeaderBytes encode(const FrameHeader& h) {
  HeaderBytes bytes{};
  put(bytes, 0, h.head_bytes);
  put(bytes, 4, h.body_bytes);
  put(bytes, 8, h.machine);
  put(bytes, 12, h.kind);
  put(bytes, 14, h.type);
  put(bytes, 15, h.service_class);
  put(bytes, 16, h.epoch);
  put(bytes, 24, h.number);
  put(bytes, 32, h.order);
  put(bytes, kChecksumAt, h.checksum);
  return bytes;
}

std::uint32_t checksum(const HeaderBytes& header, std::span<const std::byte> head,
                       std::span<const std::byte> body) {
  XXH64_hash_t hash = XXH3_64bits(header.data(), kChecksumAt);
  for (const auto part : {head, body})
    if (!part.empty()) hash = XXH3_64bits_withSeed(part.data(), part.size(), hash);
  return std::uint32_t(hash);
}

}  // namespace

Service Frame::service() const {
  return {.delivery = Service::Delivery(header.service_class / 8),
          .priority = std::uint8_t(header.service_class % 8),
          .order = header.order};
}

Message Frame::message() const {
  LH_CHECK(header.type == FrameHeader::Type::message);
  return {Path::from_bits(header.machine), header.kind, header.epoch, head, body};
}

Frame message_frame(const Message& message, const Service& service) {
  Frame frame{.header = {}, .head = message.head, .body = message.body};
  frame.header.machine = message.machine.bits();
  frame.header.kind = message.kind;
  frame.header.service_class = std::uint8_t(service.service_class());
  frame.header.epoch = message.epoch;
  frame.header.order = service.order;
  return frame;
}

HeaderBytes seal(Frame& frame) {
  frame.header.head_bytes = std::uint32_t(frame.head.size());
  frame.header.body_bytes = std::uint32_t(frame.body.size());
  frame.header.checksum = checksum(encode(frame.header), frame.head.view(), frame.body.view());
  return encode(frame.header);
}

Result<FrameHeader> decode_header(std::span<const std::byte, kFrameHeader> bytes,
                                  const FrameLimits& limits) {
  FrameHeader h;
  h.head_bytes = get<std::uint32_t>(bytes, 0);
  h.body_bytes = get<std::uint32_t>(bytes, 4);
  h.machine = get<std::uint32_t>(bytes, 8);
  h.kind = get<std::uint16_t>(bytes, 12);
  h.type = get<FrameHeader::Type>(bytes, 14);
  h.service_class = get<std::uint8_t>(bytes, 15);
  h.epoch = get<Epoch>(bytes, 16);
  h.number = get<std::uint64_t>(bytes, 24);
  h.order = get<std::uint32_t>(bytes, 32);
  h.checksum = get<std::uint32_t>(bytes, kChecksumAt);
  if ((h.head_bytes & 0xffffff) == kTlsRecord)
    return malformed("it speaks TLS, and this node was started with --insecure: start all alike");
  if (h.type < FrameHeader::Type::message || h.type > FrameHeader::kLastType)
    return malformed(fmt::format("frame of unknown type {}", unsigned(h.type)));
  if (h.service_class >= Service::kClasses)
    return malformed(fmt::format("frame of unknown service class {}", h.service_class));
  if (h.head_bytes > limits.head_bytes || h.body_bytes > limits.body_bytes)
    return malformed(
        fmt::format("frame with a head of {} and a body of {} bytes; at most {} and {} "
                    "are allowed",
                    h.head_bytes, h.body_bytes, limits.head_bytes, limits.body_bytes));
  const bool may_have_body =
      h.type == FrameHeader::Type::message || h.type == FrameHeader::Type::hello;
  if (!may_have_body && h.body_bytes > 0)
    return malformed("frame with a body that its type has not");
  return h;
}

Status check(const FrameHeader& header, std::span<const std::byte> head,
             std::span<const std::byte> body) {
  LH_CHECK(head.size() == header.head_bytes && body.size() == header.body_bytes);
  if (checksum(encode(header), head, body) == header.checksum) return Ok{};
  return malformed("frame with a wrong checksum: it was damaged on the way");
}

}  // namespace longhaul::net
