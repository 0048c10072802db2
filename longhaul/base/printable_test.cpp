#include "longhaul/base/printable.h"

#include <gtest/gtest.h>

#include "longhaul/base/xml_text.h"

namespace longhaul {
namespace {

TEST(Printable, ControlCharactersCommandNoTerminal) {
  EXPECT_EQ(printable("a\x1b[31mX\x7f\r"), "a\\x1b[31mX\\x7f\\x0d");
  EXPECT_EQ(printable("two\n\tlines, \xc3\xa9"), "two\n\tlines, \xc3\xa9");
}

TEST(XmlText, HasNoCharacterWithAMeaning) {
  EXPECT_EQ(xml_text("<1 % & \"a\" 'b'\x01>"), "&lt;1 % &amp; &quot;a&quot; &apos;b&apos; &gt;");
}

}  // namespace
}  // namespace longhaul
