// Frames from a stranger. The first byte says how the rest is read. 0: a frame, header and all; one
// that decodes, and seals to other bytes, must fail its check. 1: the head of a hello; 2: of a
// refusal. 3: three bytes a message (class, number), as an inbox gets them in any order. 4: the
// head of an acknowledgement, for an outbox that has written a few messages.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "longhaul/net/hello.h"
#include "longhaul/net/inbox.h"

namespace longhaul::net {
namespace {

void frame(std::span<const std::byte> bytes) {
  if (bytes.size() < kFrameHeader) return;
  const auto header = decode_header(bytes.first<kFrameHeader>(), {});
  if (!header) return;
  const auto rest = bytes.subspan(kFrameHeader);
  if (rest.size() != std::size_t(header->head_bytes) + header->body_bytes) return;
  const auto head = rest.first(header->head_bytes), body = rest.subspan(header->head_bytes);
  const bool good = bool(check(*header, head, body));
  Frame frame{*header, Payload(share(Buffer(head.begin(), head.end()))),
              Payload(share(Buffer(body.begin(), body.end())))};
  const HeaderBytes sealed = seal(frame);
  LH_CHECK(good == (std::memcmp(sealed.data(), bytes.data(), kFrameHeader) == 0));
}

void greet(std::span<const std::byte> bytes, bool hello) {
  static const Members members = {{.site = "a"}, {.site = "b"}};
  Frame frame{.header = {}, .head = Payload(share(Buffer(bytes.begin(), bytes.end()))), .body = {}};
  frame.header.type = hello ? FrameHeader::Type::hello : FrameHeader::Type::refusal;
  frame.header.machine = kMagic;
  frame.header.kind = kVersion;
  if (hello) {
    (void)read_hello(frame, {.job_hash = 0, .self = 0, .members = &members});
  } else {
    LH_CHECK(!read_refusal(frame).empty());
  }
}

void deliver(std::span<const std::byte> bytes) {
  Inbox inbox({.early_bytes = 4096});
  std::array<std::uint64_t, Service::kClasses> next{};
  for (; bytes.size() >= 3; bytes = bytes.subspan(3)) {
    Frame frame;
    frame.header.service_class = std::uint8_t(bytes[0]) % Service::kClasses;
    frame.header.number = std::uint64_t(bytes[1]) | std::uint64_t(bytes[2]) << 8;
    const auto ready = inbox.accept(frame);
    if (!ready) continue;
    for (const Frame& one : *ready) LH_CHECK(one.header.number == next[one.header.service_class]++);
  }
}
void acknowledge(std::span<const std::byte> bytes) {
  const auto ack = from_wire<Acknowledgement>(bytes);
  if (!ack) return;
  Outbox outbox;
  for (int i = 0; i < 5; ++i) outbox.push({}, {});
  for (int i = 0; i < 3; ++i) (void)outbox.next();
  std::size_t done = 0;
  for (const Acknowledged& have : ack->have)
    if (const auto frames = outbox.acknowledged(have)) done += frames->size();
  LH_CHECK(done <= 3 && !outbox.idle());
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  const unsigned what = data[0] % 5u;
  if (what == 0) frame(bytes);
  if (what == 1 || what == 2) greet(bytes, what == 1);
  if (what == 3) deliver(bytes);
  if (what == 4) acknowledge(bytes);
  return 0;
}

}  // namespace longhaul::net
