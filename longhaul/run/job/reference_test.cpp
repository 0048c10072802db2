#include "longhaul/run/job/reference.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "longhaul/run/job/testing/generated.h"

namespace longhaul::run {
namespace {

using ::testing::HasSubstr;

// Tests run in the root of the tree.
TEST(Reference, TheDocumentationIsTheOneThatIsGenerated) {
  const std::string first = "\n## `[job]`\n", wanted = job_file_reference(true);
  ASSERT_EQ(wanted.substr(0, first.size()), first);
  expect_generated("docs/job-file.md", first, "", wanted.substr(first.size()));
}

TEST(Reference, ThePageOfAPartHasTheSettingsOfTheCode) {
  for (const PartInfo& part : all_parts()) {
    const std::string settings = settings_text(part, /*as_page=*/true);
    if (has_page(part) && !settings.empty())
      expect_generated(fmt::format("docs/{}/{}.md", part.table, part.name),
                       "\n<!-- settings -->\n\n", "\n<!-- end -->\n", settings);
  }
}

TEST(Reference, EveryKeyHasAMeaning) {
  for (const PartInfo& part : all_parts())
    for (const FieldDoc& doc : part.keys)
      EXPECT_FALSE(doc.field.doc.empty())
          << part.table << " " << part.name << " " << doc.field.name;
}

TEST(Reference, ListsShowTypeDefaultAndRange) {
  const std::string list = key_list(describe(SiteTable{}));
  EXPECT_THAT(list, HasSubstr("- `up_mbps` (number, >0..1000000000, in Mbit/s, absent): uplink"));
  EXPECT_THAT(list, HasSubstr("- `nodes` (integer, 1..65536, default `1`): nodes at this"));
  EXPECT_THAT(list, HasSubstr("- `address` (string, default `\"\"`, local): host:port"));
}

}  // namespace
}  // namespace longhaul::run
