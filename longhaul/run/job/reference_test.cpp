#include "longhaul/run/job/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace longhaul::run {
namespace {

using testing::HasSubstr;

// Tests run in the root of the tree.
TEST(Reference, TheDocumentationIsTheOneThatIsGenerated) {
  std::ifstream in("docs/job-file.md");
  std::stringstream text;
  text << in.rdbuf();
  const std::string found = text.str(), wanted = job_file_reference();
  const std::size_t begin = found.find("\n## `[job]`");
  ASSERT_NE(begin, std::string::npos);
  std::istringstream old_lines(found.substr(begin)), new_lines(wanted);
  std::string old_line, new_line;
  while (std::getline(new_lines, new_line)) {
    ASSERT_TRUE(std::getline(old_lines, old_line)) << "missing: " << new_line;
    ASSERT_EQ(old_line, new_line) << "docs/job-file.md is old: replace all from [job] on by the "
                                     "output of `longhaul explain job-file`";
  }
  EXPECT_FALSE(std::getline(old_lines, old_line)) << "too much: " << old_line;
}

TEST(Reference, EveryKeyHasAMeaning) {
  for (const PartInfo& part : all_parts())
    for (const FieldDoc& doc : part.keys)
      EXPECT_FALSE(doc.field.doc.empty())
          << part.table << " " << part.name << " " << doc.field.name;
}

TEST(Reference, ListsShowTypeDefaultAndRange) {
  const std::string list = key_list(describe(SiteTable{}));
  EXPECT_THAT(list,
              HasSubstr("- `up_mbps` (number, > 0, <= 1000000000, in Mbit/s, absent): uplink"));
  EXPECT_THAT(list, HasSubstr("- `nodes` (integer, >= 1, <= 65536, default `1`): nodes at this"));
  EXPECT_THAT(list, HasSubstr("- `address` (string, default `\"\"`, local): host:port"));
}

}  // namespace
}  // namespace longhaul::run
