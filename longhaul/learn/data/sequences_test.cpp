#include "longhaul/learn/data/sequences.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include <gmock/gmock.h>

#include "longhaul/base/check.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/learn/data/dataset.h"
#include "longhaul/learn/data/facts.h"
#include "longhaul/learn/data/load.h"

namespace longhaul::learn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::byte> bytes_of(const std::vector<std::uint32_t>& tokens, std::uint32_t each = 2) {
  std::vector<std::byte> bytes;
  for (const std::uint32_t token : tokens)
    for (std::uint32_t i = 0; i < each; ++i) bytes.push_back(std::byte(token >> (8 * i)));
  return bytes;
}

std::vector<std::int64_t> tokens_at(const DataSet& data, std::size_t row) {
  std::vector<std::int64_t> tokens(data.shape.width() + 1);
  data.copy_window(row, tokens);
  return tokens;
}

std::vector<std::uint32_t> counted(std::uint32_t from, std::uint32_t count) {
  std::vector<std::uint32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

TEST(Tokens, EachIsPredictedOnceAndKeepsItsBytes) {
  for (const std::uint32_t each : {2u, 4u}) {
    const std::uint32_t high = each == 2 ? 0xff00 : 0xabcd00;
    const TokenOptions options{.context = 3, .bytes = each, .vocabulary = 1 << 24};
    TokenSets sets = no_tokens(options);
    ASSERT_TRUE(add_tokens(sets, bytes_of(counted(high, 8), each), {"a.bin", "a"}, options));
    ASSERT_TRUE(add_tokens(sets, bytes_of(counted(7, 4), each), {"b.bin", "b"}, options));
    const DataSet& data = sets.train;
    EXPECT_EQ(data.shape, (DataShape{{3}, 1 << 24, Task::text}));
    ASSERT_EQ(data.size(), 3u);  // the last token of a.bin begins a rest
    EXPECT_THAT(tokens_at(data, 0), ElementsAre(high, high + 1, high + 2, high + 3));
    EXPECT_THAT(tokens_at(data, 1), ElementsAre(high + 3, high + 4, high + 5, high + 6));
    EXPECT_THAT(tokens_at(data, 2), ElementsAre(7, 8, 9, 10));
    EXPECT_THAT(data.labels, ElementsAre(0, 0, 1));
    EXPECT_THAT(data.names, ElementsAre("a", "b"));
    EXPECT_EQ(data.text.size(), 3u * 4 * each);
    EXPECT_EQ(sets.test.size(), 0u);
    const DataSet taken = take_rows(data, std::vector{2u, 0u});
    EXPECT_EQ(tokens_at(taken, 0), tokens_at(data, 2));
    DataSet both = data;
    append(both, taken);
    EXPECT_EQ(tokens_at(both, 4), tokens_at(data, 0));
    EXPECT_NE(digest_of(both), digest_of(data));
  }
}

TEST(Tokens, TheLastShareOfEachFileIsHeldOut) {
  const TokenOptions options{.context = 2, .vocabulary = 100, .test_share = 0.25};
  TokenSets sets = no_tokens(options);
  ASSERT_TRUE(add_tokens(sets, bytes_of(counted(0, 9)), {"a.bin", "a"}, options));
  ASSERT_TRUE(add_tokens(sets, bytes_of(counted(50, 9)), {"b.bin", "b"}, options));
  EXPECT_THAT(sets.train.labels, ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(sets.test.labels, ElementsAre(0, 1));
  EXPECT_THAT(tokens_at(sets.test, 1), ElementsAre(56, 57, 58));
}

TEST(Tokens, WhatIsNotInTheVocabularyIsRefusedByItsPlace) {
  const TokenOptions options{.context = 2, .vocabulary = 300};
  TokenSets sets = no_tokens(options);
  Status status = add_tokens(sets, bytes_of({1, 299, 300, 4}), {"x/a.bin", "a"}, options);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().what, AllOf(HasSubstr("x/a.bin: token 2 (at byte 4) is 300"),
                                         HasSubstr("below [data] vocabulary = 300"),
                                         HasSubstr("token_type = \"uint16\"")));
  auto odd = bytes_of({1, 2});
  odd.pop_back();
  status = add_tokens(sets, odd, {"x/a.bin", "a"}, options);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().what, HasSubstr("x/a.bin: 3 bytes are no whole number of tokens"));
}

class TokenFiles : public ::testing::Test {
 protected:
  TokenFiles() {
    std::string folder = ::testing::TempDir() + "longhaul-tokens-XXXXXX";
    LH_CHECK(mkdtemp(folder.data()) != nullptr);
    folder_ = folder;
  }
  ~TokenFiles() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::vector<std::uint32_t>& tokens) const {
    const auto bytes = bytes_of(tokens);
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
    return (folder_ / name).string();
  }
  DataConfig config(const std::string& path) const {
    DataConfig config{.kind = "tokens", .path = path, .context = 4, .vocabulary = 1000};
    return config;
  }
  std::string error_of(const DataConfig& config) const {
    const auto split = load_data(config);
    return split ? "no error" : split.error().what;
  }
  std::filesystem::path folder_;
};

TEST_F(TokenFiles, AFolderIsAGroupForEachFile) {
  write("set/b/one.bin", counted(100, 41));
  write("set/a.bin", counted(0, 41));
  write("set/README", {1});
  DataConfig config = this->config((folder_ / "set").string());
  auto split = load_data(config);
  ASSERT_TRUE(split) << split.error().what;
  EXPECT_THAT(split->train->names, ElementsAre("a.bin", "b/one.bin"));
  EXPECT_EQ(split->train->size(), 16u);
  EXPECT_EQ(split->test->size(), 4u);
  const auto shards = partition(
      *split->train, 2,
      [&] {
        config.partition = "by_label";
        return config;
      }(),
      1);
  ASSERT_TRUE(shards);
  EXPECT_THAT((*shards)[1], ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
  config.test_path = write("test.bin", counted(500, 9));
  split = load_data(config);
  ASSERT_TRUE(split) << split.error().what;
  EXPECT_EQ(split->train->size(), 20u);
  EXPECT_THAT(tokens_at(*split->test, 0), ElementsAre(500, 501, 502, 503, 504));
  config.test_path = (folder_ / "none.bin").string();
  EXPECT_THAT(error_of(config), AllOf(HasSubstr("none.bin: no such file"), HasSubstr("test_path")));
  config = this->config(write("few.bin", counted(0, 6)));
  EXPECT_THAT(error_of(config), HasSubstr("1 samples of 4 tokens leave none for the test set"));
}

TEST_F(TokenFiles, EachSiteMayHaveItsOwn) {
  DataConfig config = this->config("");
  config.partition = "local";
  const std::vector<std::string> names = {"oslo", "rome"};
  const std::vector<std::string> paths = {write("o.bin", counted(0, 41)),
                                          write("r.bin", counted(900, 21))};
  const auto local = good(load_local(config, names, paths));
  EXPECT_EQ(local->shards[0].size(), 8u);
  EXPECT_EQ(local->shards[1].size(), 4u);
  EXPECT_EQ(local->tests[1].size(), 1u);
  EXPECT_THAT(tokens_at(*local->split.train, local->shards[1][0]),
              ElementsAre(900, 901, 902, 903, 904));
  auto own = good(load_site(config, paths[1]));
  EXPECT_TRUE(own->own_test);
  EXPECT_EQ(facts_of(own->train, own->test).outputs, 1000);
}

Settings data_table(std::vector<std::pair<std::string, Value>> entries) {
  Settings settings{.table = "data", .file = "job.toml", .line = 3, .entries = {}};
  for (auto& [key, value] : entries)
    settings.entries.push_back({key, std::move(value), "job.toml", 4});
  return settings;
}

std::string refusal(std::vector<std::pair<std::string, Value>> entries) {
  const auto config = read_data(data_table(std::move(entries)));
  return config ? "no error" : config.error().what;
}

TEST(DataTable, TokensNeedAVocabularyThatTheirBytesCanSay) {
  const Value tokens{std::string("tokens")}, wide{std::string("uint32")};
  EXPECT_THAT(refusal({{"kind", tokens}}), HasSubstr("expected vocabulary = N"));
  EXPECT_THAT(refusal({{"kind", tokens}, {"vocabulary", {std::int64_t{128256}}}}),
              AllOf(HasSubstr("job.toml:4: [data] vocabulary"), HasSubstr("2 to 65536")));
  EXPECT_EQ(
      refusal({{"kind", tokens}, {"vocabulary", {std::int64_t{128256}}}, {"token_type", wide}}),
      "no error");
}

TEST(DataTable, TargetsMayBeOneOrSeveral) {
  const Value csv{std::string("csv")}, one{std::string("y")}, number{std::int64_t{3}};
  const Value two{std::vector<Value>{{std::string("a")}, {std::string("b")}}};
  const Value regression{std::string("regression")}, bce{std::string("bce")};
  EXPECT_THAT(read_data(data_table({{"kind", csv}, {"target", one}}))->target, ElementsAre("y"));
  EXPECT_THAT(read_data(data_table({{"kind", csv}, {"target", number}}))->target, ElementsAre("3"));
  EXPECT_THAT(read_data(data_table({{"kind", csv}, {"target", two}, {"loss", bce}}))->target,
              ElementsAre("a", "b"));
  EXPECT_EQ(refusal({{"kind", csv}, {"target", two}, {"task", regression}}), "no error");
  EXPECT_THAT(refusal({{"kind", csv}, {"target", two}}),
              AllOf(HasSubstr("[data] target"), HasSubstr("loss = \"bce\"")));
  EXPECT_THAT(refusal({{"kind", csv}, {"task", regression}, {"loss", bce}}),
              HasSubstr("[data] loss"));
  EXPECT_THAT(refusal({{"kind", csv}, {"loss", bce}, {"classes", number}}),
              HasSubstr("[data] loss"));
}

TEST_F(TokenFiles, ClassWeightsAreOneForEachClass) {
  DataConfig config{.kind = "synthetic",
                    .class_weights = {1, 2},
                    .classes = 3,
                    .samples = 10,
                    .test_samples = 10};
  EXPECT_THAT(error_of(config), HasSubstr("[data] class_weights: expected 3 numbers, one a class"));
  config.class_weights = {1, 2, 3};
  EXPECT_EQ(error_of(config), "no error");
  config.task = "regression";
  EXPECT_THAT(error_of(config), HasSubstr("[data] class_weights: expected none"));
}

// --- corpus

NamedText text_of(std::string name, std::string_view text) {
  NamedText named{std::move(name), {}};
  for (const char c : text) named.bytes.push_back(std::byte(c));
  return named;
}

std::string window_of(const DataSet& data, std::size_t row) {
  std::vector<std::int64_t> bytes(data.shape.width() + 1);
  data.copy_window(row, bytes);
  return {bytes.begin(), bytes.end()};
}

Corpus corpus_of(const std::vector<NamedText>& texts, const CorpusOptions& options) {
  auto corpus = read_corpus(texts, "folder", options);
  EXPECT_TRUE(corpus) << (corpus ? "" : corpus.error().what);
  return *std::move(corpus);
}

TEST(Corpus, EveryByteOfAGroupIsPredictedOnceButForTheRest) {
  const Corpus corpus = corpus_of({text_of("a/1", "abcde"), text_of("a/2", "fgh")}, {.context = 3});
  const DataSet& data = corpus.samples;
  // 0abcde0fgh in steps of three, each with the byte after it.
  ASSERT_EQ(data.size(), 3u);
  EXPECT_EQ(window_of(data, 0), std::string("\0abc", 4));
  EXPECT_EQ(window_of(data, 1), std::string("cde\0", 4));
  EXPECT_EQ(window_of(data, 2), std::string("\0fgh", 4));
  EXPECT_EQ(data.shape.outputs, 256);
  EXPECT_THAT(data.shape.sample, ElementsAre(3));
}

TEST(Corpus, ASubFolderIsAGroupAndATextInNoneIsOne) {
  const Corpus corpus = corpus_of({text_of("a/1", "xxxx"), text_of("a/b/1", "xxxx"),
                                   text_of("a/c", "xxxx"), text_of("z", "xxxx")},
                                  {.context = 4});
  EXPECT_THAT(corpus.samples.names, ElementsAre("a", "a/b", "z"));
  EXPECT_THAT(corpus.samples.labels, ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(corpus.sizes, ElementsAre(2, 1, 1));
}

TEST(Corpus, PatternsDealTextsToGroupsByTheFirstThatMatches) {
  const std::vector<NamedText> texts = {text_of("lincoln/1861", "xxxx"),
                                        text_of("obama/2009", "yy"), text_of("taft/1910", "zzzz")};
  const Corpus corpus = corpus_of(texts, {.context = 2, .groups = {"*/18*|*/19*", "*/20*", "*"}});
  EXPECT_THAT(corpus.sizes, ElementsAre(4, 1, 0));
  EXPECT_THAT(corpus.samples.labels, ElementsAre(0, 0, 0, 0, 1));
  EXPECT_THAT(failure(read_corpus(texts, "folder", {.context = 2, .groups = {"*/18*"}})).what,
              HasSubstr("folder/obama/2009: matches no pattern"));
}

TEST(Corpus, TooFewBytesForASampleIsAnError) {
  EXPECT_THAT(failure(read_corpus({{text_of("a", "abc")}}, "folder", {.context = 4})).what,
              HasSubstr("lower [data] context"));
}

TEST(Corpus, TheTestSetIsTheLastShareOfEachGroup) {
  const Corpus corpus =
      corpus_of({text_of("a", "0123456789"), text_of("b", "01234")}, {.context = 1});
  EXPECT_THAT(corpus_tails(corpus, 0.2), ElementsAre(8, 9, 14));
  EXPECT_THAT(corpus_tails(corpus, 0.05), ElementsAre(9));  // half a sample is rounded up
}

TEST(Corpus, AppendedSetsKeepTheirGroups) {
  Corpus one = corpus_of({text_of("a", "xx"), text_of("b", "xx")}, {.context = 2});
  const Corpus other = corpus_of({text_of("b", "yy"), text_of("c", "yy")}, {.context = 2});
  append(one.samples, other.samples);
  EXPECT_THAT(one.samples.names, ElementsAre("a", "b", "c"));
  EXPECT_THAT(one.samples.labels, ElementsAre(0, 1, 1, 2));
  EXPECT_EQ(window_of(one.samples, 3), std::string("\0yy", 3));
}

}  // namespace
}  // namespace longhaul::learn
