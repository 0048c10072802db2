#include "longhaul/sync/registry.h"

#include <gtest/gtest.h>

#include <set>

#include "longhaul/base/testing/result.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

Result<std::unique_ptr<Strategy>> made_of(const SyncEntry& entry, const Settings& settings) {
  const testing::OneNode node(4);
  return entry.make(settings, testing::plain_parts(node.place), node.place);
}

TEST(SyncRegistry, EveryEntrySaysWhatItIsAndIsMadeByDefault) {
  std::set<std::string_view> names;
  for (const SyncEntry& entry : registry()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_FALSE(entry.summary.empty()) << entry.name;
    EXPECT_FALSE(entry.traits.when_lost.empty()) << entry.name;
    EXPECT_EQ((*good(made_of(entry, Settings{.table = "sync"})))->rounds_done(), 0u);
    const Settings small{"sync", "", 0, entry.small};
    EXPECT_TRUE(made_of(entry, small)) << entry.name;
    for (const FieldDoc& doc : entry.describe()) EXPECT_FALSE(doc.field.doc.empty());
  }
}

// Generated from the fields: each key misspelt is refused with the right one named.
TEST(SyncRegistry, AMisspeltKeyIsAnsweredWithTheNearest) {
  for (const SyncEntry& entry : registry()) {
    for (const FieldDoc& doc : entry.describe()) {
      Settings settings{"sync", "job.toml", 3, {{std::string(doc.field.name) + "x", doc.data}}};
      EXPECT_TRUE(says(made_of(entry, settings), doc.field.name));
    }
  }
}

TEST(SyncRegistry, AnImpossibleValueIsRefused) {
  const Settings settings{"sync", "job.toml", 3, {{"steps", {std::int64_t{0}}, "job.toml", 4}}};
  const auto entry = good(find_entry(registry(), settings, "fedavg"));
  EXPECT_TRUE(says(made_of(**entry, settings), "job.toml:4"));
}

}  // namespace
}  // namespace longhaul::sync
