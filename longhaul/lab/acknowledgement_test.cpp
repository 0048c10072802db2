#include "longhaul/lab/router.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace longhaul::lab {
namespace {

using Bytes = std::vector<std::byte>;

// An IPv4 packet of `protocol` with a TCP header of 32 bytes, as Linux's are with timestamps.
Bytes tcp_packet(unsigned flags, std::size_t data, unsigned protocol = 6, std::size_t options = 0) {
  Bytes packet(20 + options + 32 + data);
  packet[0] = std::byte(0x40 | (20 + options) / 4);
  packet[9] = std::byte(protocol);
  packet[20 + options + 12] = std::byte(8 << 4);
  packet[20 + options + 13] = std::byte(flags);
  return packet;
}

TEST(Acknowledgement, BareIsWhatAcknowledgesAndNothingElse) {
  EXPECT_TRUE(is_bare_acknowledgement(tcp_packet(0x10, 0)));
  EXPECT_TRUE(is_bare_acknowledgement(tcp_packet(0x10, 0, 6, 8))) << "with options of IP";
  EXPECT_TRUE(is_bare_acknowledgement(tcp_packet(0x18, 0))) << "PSH says nothing";
  EXPECT_FALSE(is_bare_acknowledgement(tcp_packet(0x10, 1))) << "data";
  for (const unsigned flags : {0x11u, 0x12u, 0x14u, 0x00u})
    EXPECT_FALSE(is_bare_acknowledgement(tcp_packet(flags, 0))) << flags;
  EXPECT_FALSE(is_bare_acknowledgement(tcp_packet(0x10, 0, 17))) << "UDP";
  for (const std::size_t place : {6u, 7u}) {
    Bytes fragment = tcp_packet(0x10, 0);
    fragment[place] = std::byte(1);
    EXPECT_FALSE(is_bare_acknowledgement(fragment)) << "of what is there no header";
  }
}

// Whatever bytes there are, none beyond them are read.
RC_GTEST_PROP(Acknowledgement, OfAnyBytes, ()) {
  const auto length = *rc::gen::inRange<std::size_t>(0, 130);
  const auto bytes =
      *rc::gen::container<std::vector<unsigned char>>(length, rc::gen::arbitrary<unsigned char>());
  std::vector<unsigned char> packet(bytes.begin(), bytes.end());
  const auto put = [&](std::size_t at, unsigned char value) {
    if (at < packet.size()) packet[at] = value;
  };
  put(0, *rc::gen::inRange<unsigned char>(0x40, 0x50));
  put(6, 0);
  put(7, 0);
  put(9, 6);
  packet.shrink_to_fit();
  if (is_bare_acknowledgement(std::as_bytes(std::span(packet))))
    RC_ASSERT(packet.size() >= 40 && packet.size() <= 120 && packet.size() % 4 == 0);
}

}  // namespace
}  // namespace longhaul::lab
