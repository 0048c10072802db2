#include "longhaul/run/job/document.h"

#include <gmock/gmock.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "longhaul/base/testing/result.h"

namespace longhaul::run {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string document_error(std::string_view text) {
  const auto doc = parse_document(text, "job.toml");
  return doc ? "no error" : doc.error().what;
}

TEST(Document, KnowsTableKeyFileAndLine) {
  auto doc =
      good(parse_document("[job]\nname = \"x\"\n\n[sync]\nsteps = 3\nkind = \"bsp\"\n", "a.toml"));
  const Settings* sync = doc->find("sync");
  ASSERT_NE(sync, nullptr);
  EXPECT_EQ(sync->line, 4);
  EXPECT_EQ(sync->find("steps")->line, 5);
  EXPECT_EQ(sync->find("kind")->line, 6);
  EXPECT_EQ(sync->find("kind")->file, "a.toml");
  EXPECT_EQ(sync->entries.front().key, "steps");
}

TEST(Document, NamesSitesByNameAndLinksByNumber) {
  auto doc = good(parse_document(
      "[[site]]\nname = \"a\"\n[[site]]\nnodes = 2\n[[wan.link]]\nfrom = \"a\"\n[wan]\nmbps = 1\n",
      "job.toml"));
  EXPECT_EQ(doc->sites[0].table, "site.a");
  EXPECT_EQ(doc->sites[1].table, "site[1]");
  EXPECT_EQ(doc->links[0].table, "wan.link[0]");
  EXPECT_EQ(doc->find("wan")->entries.size(), 1u);
}

TEST(Document, TellsWhatIsWrongAndWhere) {
  EXPECT_THAT(document_error("[job]\nname = \n"),
              AllOf(HasSubstr("job.toml:2"), HasSubstr("TOML")));
  EXPECT_THAT(document_error("[job]\nname = \"torn"), HasSubstr("job.toml:2"));
  EXPECT_THAT(document_error("\n[modle]\nkind = 1\n"),
              AllOf(HasSubstr("job.toml:2"), HasSubstr("[modle]"), HasSubstr("'model'")));
  EXPECT_THAT(document_error("seed = 3\n"), AllOf(HasSubstr("job.toml:1"), HasSubstr("outside")));
  EXPECT_THAT(document_error("[site]\nname = \"a\"\n"), HasSubstr("[[site]]"));
  EXPECT_THAT(document_error("site = [1, 2]\n"), HasSubstr("[[site]]"));
  EXPECT_THAT(document_error("[[job]]\nname = \"a\"\n"), HasSubstr("[job]"));
  EXPECT_THAT(document_error("[job]\nwhen = 1979-05-27\n"),
              AllOf(HasSubstr("job.toml:2"), HasSubstr("[job] when")));
  EXPECT_THAT(document_error("[job]\nx = {a = 1}\n"), HasSubstr("[job] x"));
  EXPECT_THAT(document_error("[for.bsp.synk]\nx = 1\n"), HasSubstr("'sync'"));
  EXPECT_THAT(document_error("[job]\nname = \"a\"\nname = \"b\"\n"), HasSubstr("job.toml:3"));
  EXPECT_THAT(document_error("[job]\nname = \"\xff\"\n"), HasSubstr("job.toml"));
}

TEST(Document, RefusesPathsThatAreNoJobFile) {
  const std::string folder = ::testing::TempDir();
  EXPECT_THAT(read_document(folder).error().what, HasSubstr("is a directory"));
  EXPECT_THAT(read_document(folder + "/no-such-job.toml").error().what,
              AllOf(HasSubstr("no-such-job.toml"), HasSubstr("no such")));
  const std::string big = folder + "/longhaul-big-" + std::to_string(::getpid()) + ".toml";
  std::ofstream(big) << '#';
  std::filesystem::resize_file(big, std::uintmax_t(129) << 20);  // takes no room on the disk
  EXPECT_THAT(read_document(big).error().what, HasSubstr("larger than"));
  std::filesystem::remove(big);
}

TEST(Override, TakesTomlAndBareWords) {
  auto doc = good(parse_document("[sync]\nsteps = 3\n", "job.toml"));
  EXPECT_TRUE(override_setting(*doc, "sync.steps=7"));
  EXPECT_TRUE(override_setting(*doc, "sync.kind=fedavg"));
  EXPECT_TRUE(override_setting(*doc, "data.sizes=[1, 2]"));
  EXPECT_TRUE(override_setting(*doc, "data.path=\"a b\""));
  EXPECT_EQ(std::get<std::int64_t>(doc->find("sync")->find("steps")->value.data), 7);
  EXPECT_EQ(to_text(doc->find("sync")->find("kind")->value), "\"fedavg\"");
  EXPECT_EQ(to_text(doc->find("data")->find("sizes")->value), "[1, 2]");
  EXPECT_EQ(to_text(doc->find("data")->find("path")->value), "\"a b\"");
  EXPECT_EQ(doc->find("sync")->find("steps")->file, "--set");
}

TEST(Override, ReachesSitesAndLinks) {
  auto doc = good(parse_document(
      "[[site]]\nname = \"a\"\n[[site]]\nname = \"b\"\n[[wan.link]]\nfrom = \"a\"\nto = \"b\"\n",
      "job.toml"));
  EXPECT_TRUE(override_setting(*doc, "site.b.up_mbps=5"));
  EXPECT_EQ(doc->sites[0].find("up_mbps"), nullptr);
  EXPECT_EQ(to_text(doc->sites[1].find("up_mbps")->value), "5");
  EXPECT_TRUE(override_setting(*doc, "site.*.step_ms=9"));
  EXPECT_EQ(to_text(doc->sites[0].find("step_ms")->value), "9");
  EXPECT_TRUE(override_setting(*doc, "wan.link[0].mbps=2"));
  EXPECT_EQ(to_text(doc->links[0].find("mbps")->value), "2");
  EXPECT_THAT(override_setting(*doc, "site.c.up_mbps=5").error().what, HasSubstr("site.c"));
  EXPECT_THAT(override_setting(*doc, "wan.link[1].mbps=5").error().what, HasSubstr("wan.link[0]"));
}

TEST(Override, RefusesWhatIsNoAssignment) {
  auto doc = good(parse_document("", "job.toml"));
  for (const char* text : {"", "sync", "sync.steps", "steps=3", "=3", ".steps=3", "sync.=3"})
    EXPECT_THAT(override_setting(*doc, text).error().what, HasSubstr("table.key=value")) << text;
  EXPECT_THAT(override_setting(*doc, "synk.steps=3").error().what, HasSubstr("'sync'"));
  // A value cannot smuggle in another table: it is one value, here a string.
  EXPECT_TRUE(override_setting(*doc, "job.name=1\n[stop]\nmax_rounds=1"));
  EXPECT_EQ(doc->find("stop"), nullptr);
}

TEST(Document, ADottedKeyOfVeryManyPartsIsRefused) {
  std::string key = "a";
  for (int i = 0; i < 100'000; ++i) key += ".a";
  for (const std::string& line :
       {key + " = 1", "[" + key + "]", "[[" + key + "]]", "x = {" + key + " = 1}",
        "x = [{b = 1, \"c.d\" ." + key + " = 1}]"}) {
    EXPECT_EQ(failure(parse_document("# a.b\n" + line + "\n", "job.toml")).what,
              "job.toml:2: a dotted key of more than 100 parts; expected TABLE.KEY");
  }
}

TEST(Document, DotsOfStringsCommentsAndNumbersAreNoKey) {
  const std::string dots(1000, '.');
  for (const std::string& line :
       {"path = \"" + dots + "\"", "path = '" + dots + "'", "path = \"\"\"\n" + dots + "\"\"\"",
        "path = \"\\\"" + dots + "\" # " + dots, "# " + dots}) {
    const auto doc = parse_document("[data]\n" + line + "\n", "job.toml");
    EXPECT_TRUE(doc) << line.substr(0, 40) << ": " << (doc ? "" : doc.error().what);
  }
  std::string list = "[data]\nlabels = [1.5";
  for (int i = 0; i < 1000; ++i) list += ", 2.5";
  EXPECT_TRUE(parse_document(list + "]\n", "job.toml"));
  EXPECT_TRUE(says(
      failure(parse_document("[data]\npath = \"a\n" + std::string("b.c = 1\n"), "job.toml")).what,
      "not valid TOML"));
}

TEST(Document, ValuesNestedVeryDeepAreRefused) {
  for (const auto& [begin, end] : {std::pair{"[", "]"}, std::pair{"{a = ", "}"}}) {
    std::string text = "[data]\npath = ";
    for (int i = 0; i < 100'000; ++i) text += begin;
    text += "1";
    for (int i = 0; i < 100'000; ++i) text += end;
    EXPECT_FALSE(parse_document(text + "\n", "job.toml"));
  }
}

}  // namespace
}  // namespace longhaul::run
