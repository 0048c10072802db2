#include "longhaul/outer/registry.h"

#include <cfloat>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "longhaul/base/rng.h"
#include "longhaul/base/testing/archived.h"
#include "longhaul/base/testing/result.h"

namespace longhaul::outer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Floats = std::vector<float>;

Settings table(std::string_view kind, std::vector<Setting> more = {}) {
  Settings settings{.table = "outer", .file = "job.toml", .line = 1, .entries = std::move(more)};
  settings.set({"kind", {std::string(kind)}, "job.toml", 2});
  return settings;
}
Setting setting(std::string key, Value value) { return {std::move(key), value, "job.toml", 3}; }

std::unique_ptr<Transform> make(const OuterEntry& entry) {
  return *entry.make(table(entry.name), Place{});
}

TEST(OuterRegistry, NamesAreUniqueAndEveryEntryMakesWhatKeepsALength) {
  std::set<std::string_view> names;
  for (const OuterEntry& entry : registry()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_FALSE(entry.summary.empty()) << entry.name;
    EXPECT_EQ(*entry_of(table(entry.name)), &entry);
    const auto outer = make(entry);
    Floats update(5, 1.f);
    outer->apply(update);
    outer->apply(update);
    EXPECT_TRUE(std::isfinite(update[4])) << entry.name;
    make(entry)->apply({});  // a phantom's update
  }
  EXPECT_EQ(names, (std::set<std::string_view>{"none", "momentum", "nesterov", "adam"}));
  const Settings empty{.table = "outer", .file = "job.toml", .line = 0, .entries = {}};
  EXPECT_EQ((*entry_of(empty))->name, "none");
}

// Every key: misspelt, mistyped, below its least, above its most.
TEST(OuterRegistry, EveryEntryRefusesBadKeys) {
  for (const OuterEntry& entry : registry()) {
    EXPECT_THAT(failure(entry.make(table(entry.name, {setting("ratte", {0.5})}), Place{})).what,
                HasSubstr("job.toml:3: [outer] ratte: unknown key"))
        << entry.name;
    for (const FieldDoc& doc : entry.describe()) {
      const std::string key(doc.field.name);
      EXPECT_FALSE(doc.field.doc.empty()) << key;
      const double low = doc.field.positive ? 0.0 : doc.field.min - 1e-13;
      for (const Value& bad :
           {Value{"fast"}, Value{low}, Value{doc.field.max * 1.01}, Value{NAN}}) {
        EXPECT_THAT(failure(entry.make(table(entry.name, {setting(key, bad)}), Place{})).what,
                    HasSubstr("job.toml:3: [outer] " + key + ": expected"))
            << entry.name << " " << key << " " << to_text(bad);
      }
      const auto good = entry.make(table(entry.name, {setting(key, doc.data)}), Place{});
      EXPECT_TRUE(good) << entry.name << " " << key;
    }
  }
}

TEST(OuterRegistry, UnknownKindNamesTheNearest) {
  EXPECT_THAT(failure(entry_of(table("nestrov"))).what,
              AllOf(HasSubstr("job.toml:2: [outer] kind"), HasSubstr("did you mean 'nesterov'")));
}

// Saving and loading after every step equals going on, and all nodes keep equal bits.
TEST(OuterRegistry, LoadedAfterEveryStepGoesOnAlike) {
  for (const OuterEntry& entry : registry()) {
    Random random(6, {Purpose::test});
    auto steady = make(entry), reborn = make(entry);
    for (int step = 0; step < 20; ++step) {
      auto loaded = make(entry);
      ASSERT_TRUE(longhaul::testing::copy_state(*reborn, *loaded)) << entry.name;
      reborn = std::move(loaded);
      Floats a(100);
      for (float& value : a) value = float(random.normal());
      Floats b = a;
      steady->apply(a);
      reborn->apply(b);
      ASSERT_EQ(a, b) << entry.name << " " << step;
    }
  }
}

// State may come from a peer: a length that is not the model's is found before it is used.
TEST(OuterRegistry, StateOfAnotherLengthIsFound) {
  for (const OuterEntry& entry : registry()) {
    const auto used = make(entry);
    EXPECT_TRUE(used->fits(5) && used->fits(4)) << entry.name << " has seen no update";
    Floats update(5, 1.f);
    used->apply(update);
    EXPECT_TRUE(used->fits(5)) << entry.name;
    EXPECT_EQ(used->fits(4), longhaul::testing::saved(*used).empty()) << entry.name;
  }
}

// Large updates do not become infinite under any outer optimiser that builds up speed.
TEST(OuterRegistry, FiniteUpdatesStayFinite) {
  for (const OuterEntry& entry : registry()) {
    const auto outer = make(entry);
    for (int step = 0; step < 100; ++step) {
      Floats update = {FLT_MAX, -FLT_MAX};
      outer->apply(update);
      ASSERT_TRUE(std::isfinite(update[0]) && std::isfinite(update[1])) << entry.name;
    }
  }
}

}  // namespace
}  // namespace longhaul::outer
