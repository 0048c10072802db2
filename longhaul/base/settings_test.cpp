#include "longhaul/base/settings.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "longhaul/base/testing/result.h"

namespace longhaul {
namespace {

struct Config {
  bool nesterov = false;
  std::uint32_t steps = 20;
  std::uint64_t seed = 1;
  double rate = 0.5;
  std::string kind = "ring";
  std::vector<std::string> sites;
  std::vector<double> shares;
  std::optional<double> mbps;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(nesterov);
    LONGHAUL_FIELD(steps, .min = 1, .max = 1000);
    LONGHAUL_FIELD(seed);
    LONGHAUL_FIELD(rate, .min = 0, .max = 10, .positive = true);
    LONGHAUL_FIELD(kind, .choices = {"ring", "hub", "direct"});
    LONGHAUL_FIELD(sites);
    LONGHAUL_FIELD(shares, .min = 0);
    LONGHAUL_FIELD(mbps, .min = 0, .unit = "Mbit/s", .positive = true);
  }
};

Settings table(std::string key, Value value) {
  return {.table = "sync",
          .file = "job.toml",
          .line = 3,
          .entries = {{std::move(key), std::move(value), "job.toml", 12}}};
}

std::string why(std::string key, Value value) {
  Config config;
  const Status status = read_settings(table(std::move(key), std::move(value)), config, {});
  return status ? "" : status.error().what;
}

Value integer(std::int64_t i) { return {i}; }
Value text(std::string s) { return {std::move(s)}; }

TEST(Settings, FillsEveryKindOfMember) {
  Settings s{.table = "sync", .file = "job.toml"};
  s.set({"nesterov", {true}});
  s.set({"steps", integer(7)});
  s.set({"seed", integer(std::int64_t{1} << 40)});
  s.set({"rate", integer(2)});  // a whole number is a number too
  s.set({"kind", text("hub")});
  s.set({"sites", {std::vector<Value>{text("a"), text("b")}}});
  s.set({"shares", {std::vector<Value>{{0.25}, integer(1)}}});
  s.set({"mbps", {1.5}});
  Config config;
  ASSERT_TRUE(read_settings(s, config, {}));
  EXPECT_TRUE(config.nesterov);
  EXPECT_EQ(config.steps, 7u);
  EXPECT_EQ(config.seed, std::uint64_t{1} << 40);
  EXPECT_EQ(config.rate, 2.0);
  EXPECT_EQ(config.kind, "hub");
  EXPECT_EQ(config.sites, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(config.shares, (std::vector<double>{0.25, 1}));
  EXPECT_EQ(config.mbps, 1.5);
}

TEST(Settings, WhatIsLeftOutKeepsItsDefault) {
  Config config;
  ASSERT_TRUE(read_settings(Settings{.table = "sync"}, config));
  EXPECT_EQ(config.steps, 20u);
  EXPECT_FALSE(config.mbps.has_value());
}

TEST(Settings, LaterWins) {
  Settings s = table("steps", integer(5));
  s.set({"steps", integer(9), "--set", 0});
  Config config;
  ASSERT_TRUE(read_settings(s, config));
  EXPECT_EQ(config.steps, 9u);
  EXPECT_EQ(s.entries.size(), 1u);
}

TEST(Settings, AnUnknownKeyNamesFileLineTableAndTheNearestKey) {
  const std::string message = why("stesp", integer(5));
  EXPECT_EQ(message.find("job.toml:12: [sync] stesp: unknown key; did you mean 'steps'?"), 0u)
      << message;
  EXPECT_TRUE(says(message, "known: nesterov, steps"));
}

TEST(Settings, KeysThatSomebodyElseReadsAreNamedInAlso) {
  Config config;
  Settings s{.table = "sync", .file = "job.toml", .entries = {{"other", {true}, "job.toml", 1}}};
  EXPECT_FALSE(read_settings(s, config));
  EXPECT_TRUE(read_settings(s, config, {"other"}));
}

TEST(Settings, TheCommandLineHasNoLine) {
  Settings s{.table = "sync", .entries = {{"steps", text("x"), "--set", 0}}};
  Config config;
  EXPECT_EQ(failure(read_settings(s, config)).what,
            "--set: [sync] steps: expected a whole number from 1 to 1000, found \"x\"");
}

struct Bad {
  std::string key;
  Value value;
  std::string expected;
};

TEST(Settings, WrongTypesSayWhatWasExpected) {
  const std::vector<Bad> all = {
      {"nesterov", integer(1), "expected true or false, found 1"},
      {"steps", {2.5}, "expected a whole number from 1 to 1000, found 2.5"},
      {"steps", {true}, "found true"},
      {"seed", text("x"), "expected a whole number of at least 0, found \"x\""},
      {"rate", text("fast"), "expected a number above 0 and at most 10, found \"fast\""},
      {"kind", integer(3), "expected one of ring, hub, direct, found 3"},
      {"sites", text("a"), "expected a list of strings, found \"a\""},
      {"sites", {std::vector<Value>{integer(1)}}, "expected a string in quotes, found 1"},
      {"shares", {std::vector<Value>{text("a")}}, "expected a number of at least 0, found \"a\""},
      {"mbps", {false}, "expected a number above 0 (Mbit/s), found false"},
  };
  for (const Bad& bad : all) {
    const std::string message = why(bad.key, bad.value);
    EXPECT_TRUE(says(message, bad.expected)) << bad.key << ": " << message;
    EXPECT_EQ(message.find("job.toml:12: [sync] " + bad.key), 0u) << message;
  }
}

TEST(Settings, WhatHasNoLineIsItsFile) {
  EXPECT_EQ(source_of({.key = "steps", .value = {}, .file = "job.toml", .line = 3}), "job.toml:3");
  EXPECT_EQ(source_of({.key = "steps", .value = {}, .file = "--set"}), "--set");
}

TEST(Settings, TextIsNothingIfItIsNotThereOrNone) {
  const Settings table{"sync", "job.toml", 1, {{"kind", {std::string("bsp")}}, {"steps", {2.0}}}};
  EXPECT_EQ(table.text("kind"), "bsp");
  EXPECT_EQ(table.text("steps"), std::nullopt);
  EXPECT_EQ(table.text("rate"), std::nullopt);
}

// Range and choices of a list hold for each element; how many there may be is bounded too.
TEST(Settings, ListsAreBoundedInLengthAndInEachElement) {
  EXPECT_EQ(why("shares", {std::vector<Value>{{0.5}, integer(70000)}}), "");
  EXPECT_TRUE(says(why("shares", {std::vector<Value>{{0.5}, {-1.0}}}), "found -1"));
  const std::string message = why("shares", {std::vector<Value>(65537, integer(1))});
  EXPECT_EQ(message, "job.toml:12: [sync] shares: expected at most 65536 elements, found 65537");
}

TEST(Settings, ValuesOutOfRangeAreRefused) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<std::string, Value>> all = {
      {"steps", integer(0)}, {"steps", integer(1001)}, {"steps", integer(-1)},
      {"seed", integer(-1)}, {"rate", {0.0}},          {"rate", {-1.0}},
      {"rate", {10.5}},      {"rate", {inf}},          {"rate", {std::nan("")}},
      {"mbps", {0.0}},       {"mbps", {-3.0}},
  };
  for (const auto& [key, value] : all) EXPECT_NE(why(key, value), "") << key << to_text(value);
  std::uint32_t wide = 0;
  const Settings s = table("n", integer(std::int64_t{1} << 32));
  EXPECT_FALSE(read_value(s, s.entries[0], Field{.name = "n"}, wide));
}

TEST(Settings, AWrongNameOffersTheNearest) {
  EXPECT_TRUE(why("kind", text("rign"))
                  .ends_with("expected a known name, found \"rign\"; did you mean 'ring'? (known: "
                             "ring, hub, direct)"))
      << why("kind", text("rign"));
  EXPECT_TRUE(why("kind", text("zzzzzzz"))
                  .ends_with(", found \"zzzzzzz\" (known: ring, hub, "
                             "direct)"));
}

TEST(Settings, AStringHasAMaximum) {
  EXPECT_NE(why("sites", {std::vector<Value>{text(std::string(70000, 'x'))}}), "");
}

TEST(Nearest, IsByEditDistance) {
  const std::vector<std::string_view> names = {"lenet", "linear", "logistic", "mlp"};
  EXPECT_EQ(nearest("lenett", names), "lenet");
  EXPECT_EQ(nearest("lnet", names), "lenet");
  EXPECT_EQ(nearest("logistik", names), "logistic");
  EXPECT_EQ(nearest("logisti", names), "logistic");
  EXPECT_EQ(nearest("transformer", names), "");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(ToText, IsWhatAUserWouldWrite) {
  EXPECT_EQ(to_text({true}), "true");
  EXPECT_EQ(to_text(integer(3)), "3");
  EXPECT_EQ(to_text({3.0}), "3.0");
  EXPECT_EQ(to_text({0.5}), "0.5");
  EXPECT_EQ(to_text(text("a\"b\\\n")), "\"a\\\"b\\\\\\u000a\"");
  EXPECT_EQ(to_text({std::vector<Value>{integer(1), text("x")}}), "[1, \"x\"]");
}

TEST(Describe, ListsEveryFieldWithItsDefault) {
  const std::vector<FieldDoc> docs = describe(Config{});
  ASSERT_EQ(docs.size(), 8u);
  EXPECT_EQ(docs[1].field.name, "steps");
  EXPECT_EQ(docs[1].type, "integer");
  EXPECT_EQ(docs[1].value, "20");
  EXPECT_EQ(docs[4].value, "\"ring\"");
  EXPECT_TRUE(docs[7].absent);
  EXPECT_EQ(docs[7].value, "");
}

}  // namespace
}  // namespace longhaul
