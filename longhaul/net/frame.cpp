#include "longhaul/net/frame.h"

#include <bit>
#include <cstring>

#include <fmt/format.h>
#include <xxhash.h>

namespace longhaul::net {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are little-endian in memory");
// How a TLS client begins (RFC 8446, 5.1): as a head it would be longer than any.
constexpr std::uint32_t kTlsRecord = 0x010316;
constexpr std::size_t kChecksumAt = 36;

// The fields stand one behind the other, in the order of FrameHeader::state().
HeaderBytes encode(FrameHeader header) {
  HeaderBytes bytes{};
  std::size_t at = 0;
  const auto put = [&](const auto& field) {
    std::memcpy(&bytes[at], &field, sizeof field);
    at += sizeof field;
  };
  auto put_all = [&](const auto&... fields) { (put(fields), ...); };
  header.state(put_all);
  LH_CHECK(at == bytes.size());
  return bytes;
}

FrameHeader decode(std::span<const std::byte, kFrameHeader> bytes) {
  FrameHeader header;
  std::size_t at = 0;
  const auto get = [&](auto& field) {
    std::memcpy(&field, &bytes[at], sizeof field);
    at += sizeof field;
  };
  auto get_all = [&](auto&... fields) { (get(fields), ...); };
  header.state(get_all);
  return header;
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
  frame.header.order = std::uint32_t(service.order);
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
  const FrameHeader h = decode(bytes);
  if ((h.head_bytes & 0xffffff) == kTlsRecord)
    return malformed(
        "it speaks TLS, and this node was started with --insecure: start all the same way");
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
  return malformed("frame with a wrong checksum: it was damaged in transit");
}

}  // namespace longhaul::net
