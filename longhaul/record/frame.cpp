#include "longhaul/record/frame.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <xxhash.h>

namespace longhaul::record {
namespace {

constexpr std::size_t kBlock = 1 << 20;  // read at once
constexpr std::array<char, 8> kMagic = {'\x8c', 'l', 'h', 'r', 'e', 'c', '\r', '\n'};
constexpr std::size_t kOpening = kMagic.size() + sizeof kVersion;

// The bytes before each payload.
struct Head {
  std::uint64_t length = 0;
  std::uint32_t type = 0;
  std::uint32_t check = 0;  // checksum of length and type
  std::uint64_t sum = 0;    // checksum of these and the payload; seeds that of the next entry
};
static_assert(sizeof(Head) == 24);

std::uint64_t sum_of(const Head& head, std::uint64_t chain) {
  return XXH3_64bits_withSeed(&head, offsetof(Head, check), chain);
}

std::uint64_t sum_of(std::uint64_t head_sum, std::span<const std::byte> payload) {
  return XXH3_64bits_withSeed(payload.data(), payload.size(), head_sum);
}

void append(Buffer& to, const void* from, std::size_t size) {
  const auto* bytes = static_cast<const std::byte*>(from);
  to.insert(to.end(), bytes, bytes + size);
}

std::uint64_t first_chain() { return XXH3_64bits_withSeed(kMagic.data(), kMagic.size(), kVersion); }

}  // namespace

FrameWriter::FrameWriter(Sink& sink) : sink_(sink), chain_(first_chain()) {
  append(waiting_, kMagic.data(), kMagic.size());
  append(waiting_, &kVersion, sizeof kVersion);
}

void FrameWriter::add(EntryType type, std::span<const std::byte> payload) {
  if (failed_) return;
  Head head{payload.size(), std::uint32_t(type), 0, 0};
  const std::uint64_t head_sum = sum_of(head, chain_);
  head.check = std::uint32_t(head_sum);
  head.sum = chain_ = sum_of(head_sum, payload);
  append(waiting_, &head, sizeof head);
  append(waiting_, payload.data(), payload.size());
}

Status FrameWriter::flush() {
  if (!failed_ && !waiting_.empty()) {
    if (Status status = sink_.write(waiting_); !status) failed_ = status.error();
    waiting_.clear();
  }
  if (failed_) return *failed_;
  return Ok{};
}

// As many bytes as there are, up to the span's size.
Result<std::size_t> FrameReader::fill(std::span<std::byte> into) {
  std::size_t have = 0;
  while (have < into.size()) {
    LH_LET(more, source_.read(into.subspan(have)));
    if (more == 0) break;
    have += more;
  }
  return have;
}

Status FrameReader::open() {
  std::array<std::byte, kOpening> bytes{};
  LH_LET(have, fill(bytes));
  if (have < kOpening) return malformed("not a recording: ends before byte 12");
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return malformed("not a recording: does not begin like one (bytes 0 to 7)");
  std::uint32_t version = 0;
  std::memcpy(&version, bytes.data() + kMagic.size(), sizeof version);
  if (version != kVersion)
    return malformed(
        fmt::format("a recording of version {} (bytes 8 to 11); this program reads version {}",
                    version, kVersion));
  opened_ = true;
  offset_ = kOpening;
  chain_ = first_chain();
  return Ok{};
}

// In blocks, so that a wrong length is found out before memory is taken for it. False: ends early.
Result<bool> FrameReader::read_payload(std::uint64_t length, Buffer& payload) {
  while (payload.size() < length) {
    const std::size_t before = payload.size();
    const std::size_t block = std::size_t(
        std::min<std::uint64_t>(length - before, std::max<std::size_t>(kBlock, before)));
    payload.resize(before + block);
    LH_LET(have, fill(std::span(payload).subspan(before)));
    if (have < block) return false;
  }
  return true;
}

Result<std::variant<Frame, StreamEnd>> FrameReader::next() {
  using Next = std::variant<Frame, StreamEnd>;
  if (!opened_) LH_TRY(open());
  if (ending_) return Next(*ending_);
  const auto end = [&](StreamEnd::Kind kind, std::uint64_t size = 0) {
    ending_ = StreamEnd{kind, number_, offset_, size};
    return Next(*ending_);
  };
  Head head;
  LH_LET(have, fill(std::as_writable_bytes(std::span(&head, 1))));
  if (have == 0) return end(StreamEnd::Kind::between);
  if (have < sizeof head) return end(StreamEnd::Kind::torn);
  const std::uint64_t head_sum = sum_of(head, chain_);
  if (head.check != std::uint32_t(head_sum)) return end(StreamEnd::Kind::damaged, sizeof head);
  Frame frame{EntryType(head.type), number_, offset_, sizeof head + head.length, {}};
  LH_LET(whole, read_payload(head.length, frame.payload));
  if (!whole) return end(StreamEnd::Kind::torn);
  if (head.sum != sum_of(head_sum, frame.payload)) return end(StreamEnd::Kind::damaged, frame.size);
  chain_ = head.sum;
  offset_ += frame.size;
  ++number_;
  return Next(std::move(frame));
}

}  // namespace longhaul::record
