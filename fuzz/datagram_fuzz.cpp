// Datagrams that reach a node's UDP port. Any bytes; then frames with any fields that a peer could
// have sent, in plain text and sealed as beside a TLS connection.
#include <cstdint>

#include "longhaul/base/check.h"
#include "longhaul/net/datagrams.h"

namespace longhaul::net {
namespace {

struct Nobody final : Datagrams::Events {
  void on_datagram(Rank from, const Message& message) override {
    LH_CHECK(from == 1 && frame_size(message) <= Datagrams::kLargest);
  }
  void on_datagram_sent(Rank, unsigned) override {}
  bool on_datagrams_blocked(Rank, std::vector<Frame>) override { return true; }
};

// The keys of a peer, known here so that the fuzzer can seal.
struct Known {
  Buffer secret = Buffer(secure::DatagramKeys::kSecret, std::byte{7});
  secure::DatagramKeys of_peer{secret, true};
  std::uint64_t number = std::uint64_t(1) << 40;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Loop loop;
  static Nobody nobody;
  static Datagrams datagrams(loop, 0, nobody), sealed_datagrams(loop, 0, nobody, true);
  static Known known;
  static const bool met = [] {
    LH_CHECK(datagrams.open({{"127.0.0.1", 0}}, false));
    LH_CHECK(sealed_datagrams.open({{"127.0.0.1", 0}}, false));
    datagrams.meet(1, "127.0.0.1", 9, 0);  // a key that changes no checksum
    sealed_datagrams.meet(1, "127.0.0.1", 9,
                          std::make_unique<secure::DatagramKeys>(known.secret, false), 1);
    return true;
  }();
  (void)met;
  const auto bytes =
      std::as_bytes(std::span(data, size)).first(std::min(size, Datagrams::kLargest));
  datagrams.on_bytes(bytes);
  sealed_datagrams.on_bytes(bytes);
  {
    const std::span<const std::byte> parts[] = {bytes};
    sealed_datagrams.on_bytes(known.of_peer.seal(++known.number, parts));
  }
  if (bytes.size() < kFrameHeader) return 0;
  // The same, as the peer would send it.
  const auto header = decode_header(bytes.first<kFrameHeader>(), {});
  if (!header) return 0;
  Frame frame{.header = *header, .head = {}, .body = {}};
  const auto rest = bytes.subspan(kFrameHeader);
  const auto head = rest.first(std::min<std::size_t>(rest.size(), header->head_bytes));
  const auto body = rest.subspan(head.size());
  frame.header.number = std::uint64_t(1) << 40 | (header->number & 0xFFFFFFFF);
  frame.head = Payload(share(Buffer(head.begin(), head.end())));
  if (header->type == FrameHeader::Type::message)
    frame.body = Payload(share(Buffer(body.begin(), body.end())));
  const HeaderBytes sealed = seal(frame);
  Buffer whole(sealed.begin(), sealed.end());
  for (const Payload* part : {&frame.head, &frame.body})
    whole.insert(whole.end(), part->view().begin(), part->view().end());
  datagrams.on_bytes(whole);
  frame.header.number = ++known.number;
  const HeaderBytes header_of_sealed = seal(frame);
  const std::span<const std::byte> parts[] = {header_of_sealed, frame.head.view(),
                                              frame.body.view()};
  sealed_datagrams.on_bytes(known.of_peer.seal(known.number, parts));
  return 0;
}

}  // namespace longhaul::net
