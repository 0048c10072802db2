#include "longhaul/core/message.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "longhaul/core/membership.h"
#include "longhaul/core/testing/message_of.h"

namespace longhaul {
namespace {

struct Ping {
  LONGHAUL_MESSAGE(1, "ping");
  std::uint32_t number = 0;
  static void fields(auto& self, auto&& visit) { LONGHAUL_FIELD(number, .max = 10); }
};
struct Pong {
  LONGHAUL_MESSAGE(2, "pong");
  std::vector<std::uint8_t> list;
  static void fields(auto& self, auto&& visit) { LONGHAUL_FIELD(list, .max = 3); }
};
using Messages = MessageList<Ping, Pong>;

template <class M>
Message wrap(const M& fields) {
  return longhaul::testing::message_of(fields);
}

std::string heard(const Message& message) {
  std::string text = "nothing";
  Status status = dispatch(Messages{}, message, [&](const auto& m) -> Status {
    const auto head = message.head.view();
    text = std::string(m.kName);
    if (to_wire(m) == Buffer(head.begin(), head.end())) text += " as it was";
    return Ok{};
  });
  return status ? text : status.error().what;
}

TEST(Message, DispatchFindsTheStructByItsKind) {
  EXPECT_EQ(heard(wrap(Ping{7})), "ping as it was");
  EXPECT_EQ(heard(wrap(Pong{{1, 2}})), "pong as it was");
}

TEST(Message, DispatchRefusesWhatAPeerMustNotSend) {
  EXPECT_EQ(heard(wrap(Ping{11})), "ping number is out of range");
  EXPECT_EQ(heard(wrap(Pong{{1, 2, 3, 4}})), "pong list is too long");
  Message unknown = wrap(Ping{1});
  unknown.kind = 9;
  EXPECT_EQ(heard(unknown), "unknown kind of message: 9");
  Message torn = wrap(Ping{1});
  torn.head = Payload(share(Buffer(3)));
  EXPECT_EQ(heard(torn), "ping ends early");
  torn.head = Payload(share(Buffer(5)));
  EXPECT_EQ(heard(torn), "ping has bytes left over");
}

TEST(Message, FrameSizeCountsHeaderHeadAndBody) {
  Message message = wrap(Ping{1});
  EXPECT_EQ(frame_size(message), kFrameHeader + 4);
  message.body = Payload::phantom(1000);
  EXPECT_EQ(frame_size(message), kFrameHeader + 4 + 1000);
  EXPECT_TRUE(message.is_bulk());
}

TEST(Message, ArchivedItIsTheSame) {
  Message message = wrap(Ping{3});
  message.machine = Path().child(1).child(2);
  message.epoch = 5;
  message.body = Payload(share(Buffer(17, std::byte{9})));
  Archive out;
  out(message);
  const Buffer bytes = out.take();
  Message back;
  Archive in(bytes);
  in(back);
  ASSERT_TRUE(in.finish());
  EXPECT_EQ(back.machine, message.machine);
  EXPECT_EQ(back.epoch, 5u);
  EXPECT_EQ(back.body.view()[16], std::byte{9});
  EXPECT_TRUE(std::ranges::equal(back.head.view(), message.head.view()));
  EXPECT_EQ(heard(back), "ping as it was");
}

}  // namespace
}  // namespace longhaul
