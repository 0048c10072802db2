// docs/messages.md is written by the structs themselves. To write it anew: scripts/generate-docs
#include <fmt/format.h>

#include <set>

#include "longhaul/run/job/testing/generated.h"
#include "tests/message_fields.h"
#include "tests/message_table.h"

namespace longhaul {
namespace {

constexpr std::string_view kHead =
    "# Messages\n\n"
    "For implementers: the messages between nodes, by family. The encoder, the decoder, the\n"
    "fuzzers and this page use the same list, [message_table.h](../tests/message_table.h).\n"
    "Numbers are little endian and of fixed width. A list is a u32 count and its elements. A\n"
    "message with a number outside its range, a list above its bound, or bytes left over is\n"
    "malformed: it is counted, reported and dropped. Every frame adds a header of 40 bytes;\n"
    "`piece` carries a body.\n";

std::string page() {
  std::string text(kHead), last;
  for_each_message([&]<class M>(std::string_view family) {
    if (family != last)
      text += fmt::format("\n## {}\n\n| kind | message | fields |\n|---|---|---|\n", family);
    last = family;
    M message{};
    std::string fields;
    M::fields(message, [&]<class Member>(const Field& f, Member&) {
      const std::string bound = bounds(f);
      fields += fmt::format("{}{} {}{}{}", fields.empty() ? "" : "; ", f.name, type_of<Member>(),
                            bound.empty() ? "" : ", ", bound);
    });
    text += fmt::format("| {} | {} | {} |\n", M::kKind, M::kName, fields);
  });
  return text;
}

TEST(MessagesDoc, IsWhatTheStructsSay) {
  expect_generated(LONGHAUL_SOURCE_DIR "/docs/messages.md", "", "", page());
}

// A kind names one struct of its family, and nothing else.
TEST(MessagesDoc, KindsAreUniqueInTheirFamily) {
  std::set<std::pair<std::string_view, std::uint16_t>> kinds;
  for_each_message([&]<class M>(std::string_view family) {
    EXPECT_TRUE(kinds.emplace(family, M::kKind).second) << family << " " << M::kName;
  });
  EXPECT_GE(kinds.size(), 14u);
}

}  // namespace
}  // namespace longhaul
