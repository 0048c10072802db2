#include "longhaul/sync/registry.h"

#include <gtest/gtest.h>

#include <set>

#include "longhaul/codec/fp32.h"
#include "longhaul/outer/none.h"
#include "longhaul/sync/testing/test_job.h"
#include "longhaul/transfer/reliable.h"

namespace longhaul::sync {
namespace {

Place one_worker() {
  Place place;
  place.members = std::make_shared<const Members>(Members{{"oregon"}});
  place.layout = Layout::flat(4);
  return place;
}

SyncParts parts() {
  SyncParts parts{
      testing::everyone_to_everyone(), std::make_unique<outer::None>(outer::NoneConfig{}), {}};
  parts.transfer = std::make_unique<transfer::Reliable>(one_worker());
  parts.make_transfer = [] { return std::make_unique<transfer::Reliable>(one_worker()); };
  parts.rate = 0.1;
  parts.make_codec = [](bool) { return std::make_unique<codec::Fp32>(); };
  parts.make_outer = [] { return std::make_unique<outer::None>(outer::NoneConfig{}); };
  return parts;
}

TEST(SyncRegistry, EveryEntrySaysWhatItIsAndIsMadeByDefault) {
  std::set<std::string_view> names;
  for (const SyncEntry& entry : registry()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_FALSE(entry.summary.empty()) << entry.name;
    EXPECT_FALSE(entry.traits.when_lost.empty()) << entry.name;
    const auto made = entry.make(Settings{.table = "sync"}, parts(), one_worker());
    ASSERT_TRUE(made) << made.error().what;
    EXPECT_EQ((*made)->rounds_done(), 0u);
    const Settings small{"sync", "", 0, entry.small};
    EXPECT_TRUE(entry.make(small, parts(), one_worker())) << entry.name;
    for (const FieldDoc& doc : entry.describe()) EXPECT_FALSE(doc.field.doc.empty());
  }
}

// Generated from the fields: each key misspelt is refused with the right one named.
TEST(SyncRegistry, AMisspeltKeyIsAnsweredWithTheNearest) {
  for (const SyncEntry& entry : registry()) {
    for (const FieldDoc& doc : entry.describe()) {
      Settings settings{"sync", "job.toml", 3, {{std::string(doc.field.name) + "x", doc.data}}};
      const auto made = entry.make(settings, parts(), one_worker());
      ASSERT_FALSE(made);
      EXPECT_NE(made.error().what.find(doc.field.name), std::string::npos) << made.error().what;
    }
  }
}

TEST(SyncRegistry, AnImpossibleValueIsRefused) {
  const Settings settings{"sync", "job.toml", 3, {{"steps", {std::int64_t{0}}, "job.toml", 4}}};
  const auto entry = find_entry(registry(), settings, "fedavg");
  ASSERT_TRUE(entry);
  const auto made = (*entry)->make(settings, parts(), one_worker());
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().what.find("job.toml:4"), std::string::npos) << made.error().what;
}

}  // namespace
}  // namespace longhaul::sync
