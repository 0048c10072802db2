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
    "What nodes tell each other, as `fields()` of the structs has it: encoder, decoder, fuzzer "
    "and\n"
    "this page come from the same list (tests/message_table.h). Numbers are little endian and of\n"
    "fixed width; a list is a u32 count and its elements. A number outside its range, a list "
    "longer\n"
    "than its bound, or bytes left over make the message malformed: it is counted, told, dropped.\n"
    "Every frame adds "
    "a header of 40 bytes (longhaul/core/message.h); `piece` carries a body.\n";

std::string page() {
  std::string text(kHead), last;
  for_each_message([&]<class M>(std::string_view family) {
    if (family != last) {
      text += fmt::format(
          "\n## {}\n\n| kind | message | field | type | bound |\n|---|---|---|---|---|\n", family);
    }
    last = family;
    M message{};
    bool first = true;
    M::fields(message, [&]<class Member>(const Field& f, Member&) {
      text += fmt::format("| {} | {} | {} | {} | {} |\n", first ? std::to_string(M::kKind) : "",
                          first ? M::kName : "", f.name, type_of<Member>(), bounds(f));
      first = false;
    });
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
