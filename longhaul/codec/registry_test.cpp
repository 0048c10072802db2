#include "longhaul/codec/registry.h"

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "longhaul/codec/testing/made.h"

namespace longhaul::codec {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using made::table_of;

Setting setting(std::string key, Value value) { return {std::move(key), value, "job.toml", 3}; }
const Setting kFeedback = setting("error_feedback", {true});

TEST(CodecRegistry, NamesAreUniqueAndEveryEntrySaysWhatItCosts) {
  std::set<std::string_view> names;
  for (const CodecEntry& entry : registry()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_FALSE(entry.summary.empty()) << entry.name;
    EXPECT_FALSE(entry.cost.bytes.empty() || entry.cost.error.empty()) << entry.name;
  }
  EXPECT_EQ(registry().front().name, "fp32");
}

TEST(CodecRegistry, EveryEntryRefusesAMisspeltOrMistypedKey) {
  for (const CodecEntry& entry : registry()) {
    for (const FieldDoc& doc : entry.describe()) {
      const std::string key(doc.field.name);
      const auto misspelt =
          entry.make(table_of(entry.name, {setting(key + "x", doc.data)}), Place{}, CodecUse::sum);
      ASSERT_FALSE(misspelt) << entry.name << key;
      EXPECT_THAT(misspelt.error().what,
                  AllOf(HasSubstr("job.toml:3"), HasSubstr("did you mean '" + key + "'")));
      const auto mistyped = entry.make(table_of(entry.name, {setting(key, {std::vector<Value>{}})}),
                                       Place{}, CodecUse::sum);
      ASSERT_FALSE(mistyped) << entry.name << key;
      EXPECT_THAT(mistyped.error().what, HasSubstr("[codec] " + key + ": expected"));
    }
  }
}

TEST(CodecRegistry, UnknownKindNamesTheNearest) {
  const auto codec = make_codec(table_of("fp166"), Place{}, false);
  ASSERT_FALSE(codec);
  EXPECT_THAT(codec.error().what,
              AllOf(HasSubstr("job.toml:2: [codec] kind"), HasSubstr("did you mean 'fp16'")));
  Settings number = table_of("fp16");
  number.set(setting("kind", {std::int64_t{16}}));
  ASSERT_FALSE(make_codec(number, Place{}, true));
  EXPECT_THAT(make_codec(number, Place{}, true).error().what, HasSubstr("a string in quotes"));
}

// Bytes of a codec made for a second time tell whether a residual was carried over.
bool feeds_back(Codec& codec) {
  const std::vector<float> values = {1.f, 0.0011f};
  const Buffer first = codec.encode({{.round = 0}}, {0, 2}, values);
  codec.settle({{.round = 0}}, Codec::Fate::abandoned);
  return codec.encode({{.round = 1}}, {0, 2}, values) != first;
}

TEST(CodecRegistry, FeedbackIsForThoseWhoAskIfTheJobWantsIt) {
  for (const char* kind : {"fp16", "int8"}) {
    EXPECT_TRUE(feeds_back(**make_codec(table_of(kind, {kFeedback}), Place{}, true))) << kind;
    EXPECT_FALSE(feeds_back(**make_codec(table_of(kind, {kFeedback}), Place{}, false))) << kind;
    EXPECT_FALSE(feeds_back(**make_codec(table_of(kind), Place{}, true))) << kind;
    EXPECT_TRUE(*wants_error_feedback(table_of(kind, {kFeedback})));
    EXPECT_FALSE(*wants_error_feedback(table_of(kind)));
  }
  Settings empty{.table = "codec", .file = "job.toml", .line = 0, .entries = {}};
  EXPECT_EQ((*entry_of(empty))->name, "fp32");
  EXPECT_TRUE(make_codec(empty, Place{}, true));
}

// only contractions are wrapped; that they are is tested in properties_test.cpp.
TEST(CodecRegistry, R4_2_OnlyContractionsAreWrapped) {
  for (const CodecEntry& entry : registry()) {
    const auto made = make_codec(table_of(entry.name, {kFeedback}), Place{}, true);
    EXPECT_EQ(bool(made), !refuses_feedback(entry)) << entry.name;
    if (entry.traits.feedback) {
      EXPECT_FALSE(refuses_feedback(entry)) << entry.name;
    }
  }
  CodecEntry noisy = registry()[1];
  noisy.traits = {.algebra = Algebra::reencode, .contraction = false, .unbiased = true};
  ASSERT_TRUE(refuses_feedback(noisy));
  EXPECT_THAT(*refuses_feedback(noisy), HasSubstr("no contraction"));
}

TEST(CodecRegistry, FeedbackAroundALosslessCodecIsRefusedAsPointless) {
  for (bool feedback : {false, true}) {
    const auto codec = make_codec(table_of("fp32", {kFeedback}), Place{}, feedback);
    ASSERT_FALSE(codec);
    EXPECT_THAT(codec.error().what, AllOf(HasSubstr("job.toml:3: [codec] error_feedback"),
                                          HasSubstr("fp32"), HasSubstr("loses nothing")));
  }
  EXPECT_TRUE(make_codec(table_of("fp32", {setting("error_feedback", {false})}), Place{}, true));
}

}  // namespace
}  // namespace longhaul::codec
