#include "longhaul/doctor/channel.h"

#include <fmt/format.h>

namespace longhaul::doctor {

std::array<std::byte, kHead> encode(const Head& head) {
  ByteWriter writer;
  writer.put(kMagic);
  writer.put(kVersion);
  writer.put(head.kind);
  writer.put(head.size);
  const Buffer bytes = writer.take();
  std::array<std::byte, kHead> out;
  LH_CHECK(bytes.size() == out.size());
  std::copy(bytes.begin(), bytes.end(), out.begin());
  return out;
}

Result<Head> decode(std::span<const std::byte, kHead> bytes) {
  ByteReader reader(bytes);
  std::uint32_t magic = 0;
  std::uint16_t version = 0, kind = 0;
  Head head;
  reader.get({}, magic);
  reader.get({}, version);
  reader.get({}, kind);
  reader.get({}, head.size);
  LH_CHECK(!reader.failed());
  if (magic != kMagic)
    return malformed(
        "it does not speak as longhaul doctor does: a training run or another program has this "
        "port; say there: longhaul doctor JOB --site NAME");
  if (version != kVersion)
    return malformed(fmt::format(
        "it speaks version {} of the doctor's protocol, this site version {}; install the same "
        "release on all sites",
        version, kVersion));
  if (kind < std::uint16_t(Kind::hello) || kind > std::uint16_t(Kind::last))
    return malformed(fmt::format("message of unknown kind {}", kind));
  if (head.size > kMaxMessage)
    return malformed(
        fmt::format("message of {} bytes; at most {} are taken", head.size, kMaxMessage));
  head.kind = Kind(kind);
  return head;
}

std::string_view name_of(Kind kind) {
  static constexpr std::string_view kNames[] = {
      "hello", "refusal",  "facts",    "ping",  "pong",  "count",  "counted", "upload",
      "bulk",  "bulk_end", "received", "fetch", "probe", "result", "bye"};
  return kNames[std::size_t(kind) - 1];
}

Error Channel::wrong(Kind kind, const std::string& what) const {
  return malformed(fmt::format("{}: {}: {}", peer_, name_of(kind), what));
}

Status Channel::send_bytes(Kind kind, const Buffer& body, const Deadline& deadline) const {
  LH_CHECK(body.size() <= kMaxMessage);
  const auto head = encode({kind, std::uint32_t(body.size())});
  Buffer bytes(head.begin(), head.end());
  bytes.insert(bytes.end(), body.begin(), body.end());
  const Status sent = socket_.write(bytes, deadline);
  if (sent) return Ok{};
  return Error{sent.error().kind,
               fmt::format("{}: sending {}: {}", peer_, name_of(kind), sent.error().what)};
}

Result<Channel::Any> Channel::receive_any(const Deadline& deadline) const {
  std::array<std::byte, kHead> bytes;
  Status read = socket_.read(bytes, deadline);
  if (!read) return read.error();
  const auto head = decode(bytes);
  if (!head) return head.error();
  Any any{head->kind, Buffer(head->size)};
  read = socket_.read(any.body, deadline);
  if (!read) return read.error();
  return any;
}

Result<Buffer> Channel::receive_bytes(Kind kind, const Deadline& deadline) const {
  auto any = receive_any(deadline);
  if (!any)
    return Error{any.error().kind,
                 fmt::format("{}: waiting for {}: {}", peer_, name_of(kind), any.error().what)};
  if (any->kind == Kind::refusal) {
    const auto reason = from_wire<Text>(any->body);
    return malformed(fmt::format("{} refuses: {}", peer_,
                                 reason ? printable(reason->text) : "without a readable reason"));
  }
  if (any->kind != kind)
    return malformed(
        fmt::format("{}: expected {}, but {} came", peer_, name_of(kind), name_of(any->kind)));
  return std::move(any->body);
}

}  // namespace longhaul::doctor
