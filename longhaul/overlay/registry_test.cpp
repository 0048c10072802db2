#include "longhaul/overlay/registry.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/core/testing/plain_transfer.h"
#include "longhaul/overlay/testing/exact.h"

namespace longhaul::overlay {
namespace {

OverlayParts parts() {
  OverlayParts parts;
  parts.transfer = std::make_unique<longhaul::testing::PlainTransfer>(/*scrambles=*/true);
  parts.make_codec = [](bool) { return std::make_unique<testing::Exact>(); };
  return parts;
}

Settings table(std::string_view kind, std::vector<Setting> entries = {}) {
  Settings settings{.table = "overlay", .file = "job.toml", .line = 1, .entries = {}};
  settings.set({"kind", {std::string(kind)}, "job.toml", 2});
  for (Setting& entry : entries) settings.set(std::move(entry));
  return settings;
}

Setting text(std::string key, std::string value) { return {key, {value}, "job.toml", 3}; }

const OverlayEntry& entry(std::string_view name) {
  for (const OverlayEntry& entry : registry())
    if (entry.name == name) return entry;
  ADD_FAILURE() << "no overlay " << name;
  return registry()[0];
}

class OverlayRegistry : public ::testing::Test {
 protected:
  std::string make(std::string_view name, std::vector<Setting> entries) {
    const auto made = entry(name).make(table(name, std::move(entries)), parts(), place_);
    return made ? "" : made.error().what;
  }
  Place place_{.members = std::make_shared<Members>(Members{{"here"}, {"there"}}),
               .layout = Layout::flat(1)};
};

TEST_F(OverlayRegistry, MakesWhatItNames) {
  for (const OverlayEntry& one : registry()) {
    EXPECT_EQ(make(one.name, {}), "");
    EXPECT_EQ(one.describe().empty(), one.name == "gather");  // it has no settings
    if (one.describe().empty()) continue;
    EXPECT_EQ(make(one.name, {text("phases", "sequential")}), "");
  }
  EXPECT_EQ(make("hub", {{"window", {std::int64_t{4}}, "job.toml", 3}}), "");
  EXPECT_EQ(make("hub", {text("down_codec", "same")}), "");
  EXPECT_EQ(make("ring", {text("order", "bandwidth")}), "") << "also if nothing is believed";
  EXPECT_EQ(make("binary", {text("order", "seeded")}), "");
  EXPECT_EQ(make("rack", {{"groups", {std::int64_t{4}}, "job.toml", 3}}), "");
  EXPECT_EQ(make("hierarchical", {text("between", "forest")}), "") << "also if nothing is believed";
}

TEST_F(OverlayRegistry, RefusesWhatCannotBeWithFileLineAndRemedy) {
  for (const OverlayEntry& one : registry()) {
    if (one.describe().empty()) continue;
    const std::string phases = make(one.name, {text("phases", "streamd")});
    EXPECT_TRUE(says(phases, "job.toml:3"));
    EXPECT_TRUE(says(phases, "streamed"));
    EXPECT_TRUE(says(make(one.name, {text("phase", "streamed")}), "phases"));
  }
  const std::string window =
      make("hub", {text("phases", "sequential"), {"window", {std::int64_t{4}}, "job.toml", 4}});
  EXPECT_TRUE(says(window, "job.toml:4"));
  const std::string order = make("ring", {text("order", "bandwith")});
  EXPECT_TRUE(says(order, "bandwidth"));
  EXPECT_TRUE(says(make("binary", {text("order", "bandwidth")}), "seeded"));
  EXPECT_TRUE(says(make("hierarchical", {text("between", "star")}), "binary"));
  const std::string groups = make("rack", {{"groups", {std::int64_t{-1}}, "job.toml", 3}});
  EXPECT_TRUE(says(groups, "job.toml:3"));
  EXPECT_NE(make("direct", {{"window", {std::int64_t{4}}, "job.toml", 3}}), "");
}

TEST_F(OverlayRegistry, APreferenceIsAProbability) {
  const auto with = [&](double greed) {
    return make("tsengine", {{"greed", {greed}, "job.toml", 3}});
  };
  EXPECT_EQ(with(0), "");
  EXPECT_EQ(with(1), "");
  EXPECT_TRUE(says(with(-0.1), "job.toml:3"));
  EXPECT_TRUE(says(with(1.1), "job.toml:3"));
}

}  // namespace
}  // namespace longhaul::overlay
