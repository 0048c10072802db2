#include "longhaul/learn/data/sequences.h"

#include <gmock/gmock.h>

namespace longhaul::learn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  auto missing = read_corpus(texts, "folder", {.context = 2, .groups = {"*/18*"}});
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().what, HasSubstr("folder/obama/2009: matches no pattern"));
}

TEST(Corpus, TooFewBytesForASampleIsAnError) {
  auto short_one = read_corpus({{text_of("a", "abc")}}, "folder", {.context = 4});
  ASSERT_FALSE(short_one);
  EXPECT_THAT(short_one.error().what, HasSubstr("lower [data] context"));
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
