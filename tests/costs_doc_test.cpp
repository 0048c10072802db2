// The rows of strategies and codecs in docs/costs.md are those of their entries. To write them
// anew: scripts/generate-docs
#include <fmt/format.h>

#include "longhaul/codec/registry.h"
#include "longhaul/run/job/testing/generated.h"
#include "longhaul/sync/registry.h"

namespace longhaul {
namespace {

SyncTraits traits_of(const SyncEntry& entry, const SyncCost& row) {
  return entry_with(entry, {"sync", "", 0, row.settings}).traits;
}

// The table of those that talk to a server by themselves, or of the others.
std::string rows(bool served) {
  std::string text = fmt::format(
      "\n| part | {} | sent by a worker | waits for | staleness | memory | a peer is lost |\n"
      "|---|---|---|---|---|---|---|\n",
      served ? "commits" : "rounds");
  for (const SyncEntry& entry : sync::registry())
    for (const SyncCost& row : entry.costs) {
      if (traits_of(entry, row).served != served) continue;
      text += fmt::format("| `{}`{}{} | {} | {} | {} | {} | {} | {} |\n", entry.name,
                          row.variant.empty() ? "" : ", ", row.variant, row.rounds, row.sent,
                          row.waits_for, row.staleness, row.memory, row.when_lost);
    }
  return text + "\n";
}

std::string codec_rows() {
  std::string text = "\n| part | bytes for d values | error | state |\n|---|---|---|---|\n";
  for (const CodecEntry& entry : codec::registry())
    text += fmt::format("| `{}` | {} | {} | {} |\n", entry.name, entry.cost.bytes, entry.cost.error,
                        entry.cost.state);
  return text + "\n";
}

TEST(CostsDoc, HasTheRowsOfAllCodecs) {
  expect_generated(LONGHAUL_SOURCE_DIR "/docs/costs.md", "<!-- codecs -->\n", "<!-- end -->\n",
                   codec_rows());
}

TEST(CostsDoc, HasTheRowsOfAllStrategies) {
  const std::string path = LONGHAUL_SOURCE_DIR "/docs/costs.md";
  for (const auto& [name, served] : {std::pair("in rounds", false), std::pair("served", true)})
    expect_generated(path, fmt::format("<!-- strategies {} -->\n", name), "<!-- end -->\n",
                     rows(served));
}

TEST(CostsDoc, EveryStrategySaysWhatItCosts) {
  for (const SyncEntry& entry : sync::registry()) {
    EXPECT_FALSE(entry.costs.empty()) << entry.name;
    for (const SyncCost& row : entry.costs) {
      EXPECT_EQ(row.variant.empty(), row.settings.empty()) << entry.name;
      for (const std::string_view cell :
           {row.rounds, row.sent, row.waits_for, row.staleness, row.memory, row.when_lost})
        EXPECT_FALSE(cell.empty()) << entry.name;
    }
  }
}

}  // namespace
}  // namespace longhaul
