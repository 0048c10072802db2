#include "longhaul/net/hello.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/result.h"

namespace longhaul::net {
namespace {

const Members kMembers = {{.site = "oslo"}, {.site = "rome"}, {.site = "rome", .rank_in_site = 1}};

Identity identity(Rank self) {
  return {.job_hash = 0xabc, .self = self, .incarnation = 2, .process = 99, .members = &kMembers};
}

TEST(Hello, SaysWhoIsThereAndWhatItHas) {
  const Frame frame = hello_frame(identity(1), 0, {}, {{7, 12}});
  const auto hello = good(read_hello(frame, identity(0)));
  EXPECT_EQ(hello->rank, 1u);
  EXPECT_EQ(hello->site, "rome");
  EXPECT_EQ(hello->incarnation, 2u);
  EXPECT_EQ(hello->process, 99u);
  EXPECT_EQ(hello->have, (std::vector<Acknowledged>{{7, 12}}));
}

std::string why(const Frame& frame, const Identity& me) {
  const auto hello = read_hello(frame, me);
  return hello ? "" : hello.error().what;
}

TEST(Hello, ASecondProcessOfASiteIsRefused) {
  EXPECT_TRUE(says(why(hello_frame(identity(1), 0, {}, {}), identity(1)), "start each site once"));
}

TEST(Hello, AnotherJobIsRefusedWithBothHashes) {
  Identity other = identity(1);
  other.job_hash = 0xdef;
  const std::string text = why(hello_frame(other, 0, {}, {}), identity(0));
  for (const char* part : {"0000000000000def", "0000000000000abc", "job file, --set and --wan"})
    EXPECT_TRUE(says(text, part));
}

TEST(Hello, AnotherSharedInputIsRefusedAndNamedAtBothEnds) {
  Identity mine = identity(0), theirs = identity(1);
  mine.inputs = {{"[model] path", "m.pt, digest 1", 1}, {"[data] path", "d.csv, digest 2", 2}};
  theirs.inputs = mine.inputs;
  EXPECT_EQ(why(hello_frame(theirs, 0, {}, {}), mine), "");
  theirs.inputs[1] = {"[data] path", "d.csv, digest 3", 3};
  const Frame frame = hello_frame(theirs, 0, {}, {});
  EXPECT_EQ(why(frame, mine),
            "site rome has another [data] path (here: d.csv, digest 2); give both sites the same");
  const Refusal refusal = parse_refusal(refusal_frame(
      {.reason = "other inputs", .key = mine.inputs[1].part, .value = mine.inputs[1].text}));
  EXPECT_EQ(text_of(refusal, theirs, 0),
            "site rome has another [data] path than site oslo: d.csv, digest 2 at oslo, d.csv, "
            "digest 3 at rome; give both sites the same");
}

TEST(Hello, WhatANodeSaysOfItsDataComesWithTheHello) {
  Identity mine = identity(0), theirs = identity(1);
  mine.words[0] = {1};
  theirs.words[1] = {7, 8};
  const Frame frame = hello_frame(theirs, 0, {}, {});
  const auto hello = good(read_hello(frame, mine));
  EXPECT_EQ(*good(read_introductions(frame, *hello, mine)), (Words{{1, {7, 8}}}));
  theirs.words = {{2, {9}}};  // of another node, before the run: nobody has told it
  const Frame false_one = hello_frame(theirs, 0, {}, {});
  EXPECT_FALSE(read_introductions(false_one, *read_hello(false_one, mine), mine));
}

TEST(Hello, OfAnotherJobTheFirstKeyThatDiffersIsNamedWithBothValues) {
  Identity mine = identity(0), theirs = identity(1);
  theirs.job_hash = 0xdef;
  mine.keys = {{"[data] batch", "8"}, {"[sync] kind", "\"bsp\""}, {"[sync] steps", "20"}};
  theirs.keys = {{"[data] batch", "8"}, {"[sync] kind", "\"bsp\""}, {"[sync] steps", "30"}};
  const Frame frame = hello_frame(theirs, 0, {}, {});
  EXPECT_TRUE(says(why(frame, mine), "[sync] steps differs: here 20"));

  const auto hello = good(from_wire<Hello>(frame.head.view()));
  const JobKey differs = first_difference(*hello, mine);
  const Refusal refusal = parse_refusal(
      refusal_frame(Refusal{.reason = "another job", .key = differs.name, .value = differs.value}));
  EXPECT_EQ(text_of(refusal, theirs, 0),
            "site rome runs another job than site oslo: [sync] steps is 20 at oslo and 30 at rome; "
            "start all sites with the same job file, --set and --wan");
  const Refusal back{.reason = "another job", .key = "[sync] steps", .value = "30"};
  EXPECT_EQ(text_of(back, mine, 1), text_of(refusal, theirs, 0)) << "the same at both";
  theirs.keys.pop_back();  // a key that the peer lacks
  EXPECT_TRUE(says(text_of(refusal, theirs, 0), "20 at oslo and not set at rome"));
}

TEST(Hello, WhatALeavingNodeSaysIsPrintable) {
  Identity theirs = identity(1);
  theirs.leaves = "site rome: \x1b[2J";
  theirs.unfit = true;
  const auto hello = good(read_hello(hello_frame(theirs, 0, {}, {}), identity(0)));
  EXPECT_EQ(hello->leaves, "site rome: ?[2J");
  EXPECT_TRUE(hello->unfit);
}

TEST(Hello, AnotherReleaseIsRefusedWithBothVersions) {
  Frame frame = hello_frame(identity(1), 0, {}, {});
  frame.header.kind = 9;
  EXPECT_TRUE(says(why(frame, identity(0)), "version 9"));
}

TEST(Hello, StrangersLiarsAndUnknownRanksAreRefused) {
  Frame stranger = hello_frame(identity(1), 0, {}, {});
  stranger.header.machine = 1;
  EXPECT_TRUE(says(why(stranger, identity(0)), "no longhaul node"));

  const Members names = {{.site = "oslo"}, {.site = "bonn"}, {}, {.site = "bern"}};
  Identity liar = identity(1);
  liar.members = &names;
  EXPECT_TRUE(says(why(hello_frame(liar, 0, {}, {}), identity(0)), "another name"));
  liar.self = 3;
  EXPECT_TRUE(says(why(hello_frame(liar, 0, {}, {}), identity(0)), "rank 3"));
}

TEST(Hello, EveryCutOfAHelloIsRefused) {
  const Frame whole = hello_frame(identity(1), 0, {}, {{7, 12}});
  for (std::size_t size = 0; size < whole.head.size(); ++size) {
    Frame cut = whole;
    const auto view = whole.head.view().first(size);
    cut.head = Payload(share(Buffer(view.begin(), view.end())));
    EXPECT_NE(why(cut, identity(0)), "") << size;
  }
}

TEST(Refusal, IsPrintableWhateverThePeerWrote) {
  EXPECT_EQ(read_refusal(refusal_frame("start each site once")), "start each site once");
  EXPECT_EQ(read_refusal(refusal_frame("a\x1b[2J\x7f")), "a?[2J?");
  EXPECT_EQ(read_refusal(refusal_frame(std::string(5000, 'x'))).size(), 1024u);
  EXPECT_EQ(read_refusal(Frame{}), "refused, without a readable reason");
  EXPECT_EQ(read_refusal(refusal_frame("")), "refused, without a readable reason");
}

}  // namespace
}  // namespace longhaul::net
