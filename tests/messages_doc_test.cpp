// docs/messages.md is written by the structs themselves. To write it anew: scripts/generate-docs
#include <fmt/format.h>

#include <cmath>
#include <set>

#include "longhaul/run/job/testing/generated.h"
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

template <class T>
std::string type_of() {
  if constexpr (std::is_same_v<T, bool>)
    return "flag";
  else if constexpr (std::is_enum_v<T>)
    return type_of<std::underlying_type_t<T>>();
  else if constexpr (std::is_floating_point_v<T>)
    return fmt::format("f{}", 8 * sizeof(T));
  else if constexpr (std::is_arithmetic_v<T>)
    return fmt::format("{}{}", std::is_signed_v<T> ? "i" : "u", 8 * sizeof(T));
  else if constexpr (Fielded<T>) {
    std::string text;
    T value{};
    T::fields(value, [&]<class Member>(const Field& f, Member&) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", f.name, type_of<Member>());
    });
    return "(" + text + ")";
  } else {
    return "list of " + type_of<typename T::value_type>();
  }
}

std::string bounds(const Field& f) {
  if (!std::isfinite(f.min) && !std::isfinite(f.max)) return "";
  if (!std::isfinite(f.min)) return fmt::format("at most {:g}", f.max);
  return fmt::format("{:g} to {:g}", f.min, f.max);
}

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
