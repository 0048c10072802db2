#include "longhaul/transfer/registry.h"

#include <gtest/gtest.h>

namespace longhaul::transfer {
namespace {

TEST(TransferRegistry, MakesWhatItNamesAndRefusesUnknownKeys) {
  Place place{.members = std::make_shared<Members>(Members{{"here"}}), .layout = Layout::flat(1)};
  for (const TransferEntry& entry : registry()) {
    Settings settings{.table = "transfer", .file = "job.toml", .line = 0, .entries = {}};
    settings.set({"kind", {std::string(entry.name)}, "job.toml", 3});
    EXPECT_TRUE(entry.make(settings, place)) << entry.name;
    settings.set({"knd", {std::string("x")}, "job.toml", 4});
    const auto refused = entry.make(settings, place);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().what.find("job.toml:4"), std::string::npos) << refused.error().what;
  }
}

}  // namespace
}  // namespace longhaul::transfer
