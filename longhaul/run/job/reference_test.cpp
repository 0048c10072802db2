#include "longhaul/run/job/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace longhaul::run {
namespace {

using testing::HasSubstr;

TEST(Reference, TheDocumentationIsTheOneThatIsGenerated) {
  std::ifstream in("docs/job-file.md");  // tests run in the root of the tree
  ASSERT_TRUE(in) << "run in the root of the tree";
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_THAT(text.str(), testing::EndsWith(job_file_reference()))
      << "docs/job-file.md is old: replace all below '# Reference' by the output of `longhaul "
         "explain job-file`";
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
